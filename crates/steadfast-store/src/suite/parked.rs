//! Calls that wait for their second leg.

use steadfast_core::{SessionId, Wall};

use super::samples::{agent, parked_call, server};
use crate::records::SharedRecords;

/// With everything that another process needs to go on with the call, and without what was optional.
pub async fn parked_calls_come_back_as_they_were_put(records: SharedRecords) {
    let full = parked_call("s1", "a", "crm");
    let mut bare = parked_call("s2", "a", "crm");
    bare.session = None;
    bare.cursor = None;
    bare.tool = None;
    bare.questions.clear();
    for call in [&full, &bare] {
        records.put_parked_call(call).await.unwrap();
    }
    for call in [full, bare] {
        let found = records.parked_call(&call.state_hash).await.unwrap();
        assert_eq!(found, Some(call));
    }
    assert_eq!(records.parked_call(&[0; 32]).await.unwrap(), None);
}

/// Its answer is given once, whoever else comes with the same state.
pub async fn a_parked_call_is_taken_once(records: SharedRecords) {
    let call = parked_call("s1", "a", "crm");
    records.put_parked_call(&call).await.unwrap();
    let hash = &call.state_hash;
    assert!(records.remove_parked_call(hash).await.unwrap());
    assert!(!records.remove_parked_call(hash).await.unwrap());
    assert_eq!(records.parked_call(hash).await.unwrap(), None);
}

/// Whoever stops leaves such a session to the next.
pub async fn a_session_is_waited_for_while_calls_are_parked_in_it(records: SharedRecords) {
    let call = parked_call("s1", "a", "crm");
    let session = call.session.clone().unwrap();
    let waited_for = async |agent: &str, server: &str, session: &SessionId, now| {
        let (agent, server) = (agent.into(), server.into());
        let found = records.is_waited_for(&agent, &server, session, Wall(now));
        found.await.unwrap()
    };
    assert!(!waited_for("a", "crm", &session, 20).await);
    records.put_parked_call(&call).await.unwrap();
    assert!(waited_for("a", "crm", &session, 20).await);
    assert!(!waited_for("a", "crm", &session, 31).await, "too late");
    assert!(!waited_for("b", "crm", &session, 20).await);
    assert!(!waited_for("a", "mail", &session, 20).await);
    assert!(!waited_for("a", "crm", &SessionId::from("another"), 20).await);
    assert!(records.remove_parked_call(&call.state_hash).await.unwrap());
    assert!(!waited_for("a", "crm", &session, 20).await);
}

/// What nobody comes back for does not stay.
pub async fn expired_parked_calls_are_removed_and_others_stay(records: SharedRecords) {
    let mut late = parked_call("s1", "a", "crm");
    late.expires_at = Wall(29);
    let open = parked_call("s2", "a", "crm");
    for call in [&late, &open] {
        records.put_parked_call(call).await.unwrap();
    }
    let before = Wall(30);
    assert_eq!(
        records.remove_expired_parked_calls(before).await.unwrap(),
        1
    );
    assert_eq!(records.parked_call(&late.state_hash).await.unwrap(), None);
    let found = records.parked_call(&open.state_hash).await.unwrap();
    assert_eq!(found, Some(open));
}

/// The next agent, or server, of that name has nothing to do with them.
pub async fn parked_calls_go_with_their_agent_and_their_server(records: SharedRecords) {
    records.put_agent(&agent("a")).await.unwrap();
    records.put_server(&server("crm")).await.unwrap();
    let calls = [
        parked_call("s1", "a", "mail"),
        parked_call("s2", "b", "crm"),
        parked_call("s3", "b", "mail"),
    ];
    for call in &calls {
        records.put_parked_call(call).await.unwrap();
    }
    assert!(records.remove_agent(&"a".into()).await.unwrap());
    assert!(records.remove_server(&"crm".into()).await.unwrap());
    let mut left = Vec::new();
    for call in &calls {
        let found = records.parked_call(&call.state_hash).await.unwrap();
        left.extend(found.map(|call| call.state_hash));
    }
    assert_eq!(left, [calls[2].state_hash]);
}
