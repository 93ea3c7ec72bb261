//! Agents, servers, sessions in both directions, history and settings.

use serde_json::json;
use steadfast_core::connection::handshake::{Known, Transport};
use steadfast_core::{AgentName, Era, Fault, Kind, Millis, Revision, ServerName, SessionId, Wall};

use super::samples::{agent, agent_session, server, session, transition};
use crate::error::Problem;
use crate::keys::{IdHash, KeyHash};
use crate::model::{SessionRecord, Source};
use crate::records::SharedRecords;

async fn times(records: &SharedRecords, agent: &str, server: &str, limit: usize) -> Vec<i64> {
    let history = records.history(&agent.into(), &server.into(), limit).await;
    history.unwrap().iter().map(|entry| entry.at.0).collect()
}

/// All agents, in order of their names, and one by its name.
pub async fn agents_come_back_as_they_were_put(records: SharedRecords) {
    assert_eq!(records.agents().await.unwrap(), []);
    assert_eq!(records.agent(&"b".into()).await.unwrap(), None);
    let mut first = agent("b");
    first.source = Source::Admin;
    first.key = Some(KeyHash([7; 32]));
    // "Z" sorts before "a": byte by byte, in every backend and every locale.
    for put in [&first, &agent("a"), &agent("Z")] {
        records.put_agent(put).await.unwrap();
    }
    let all = records.agents().await.unwrap();
    assert_eq!(all, [agent("Z"), agent("a"), first.clone()]);
    assert_eq!(records.agent(&"b".into()).await.unwrap(), Some(first));
}

/// A reload of the configuration file must not lock an agent out.
pub async fn an_agent_keeps_its_key_and_its_birth_when_its_configuration_changes(
    records: SharedRecords,
) {
    let key = KeyHash([1; 32]);
    records.put_agent(&agent("a")).await.unwrap();
    assert!(records.set_agent_key(&"a".into(), key).await.unwrap());
    let mut changed = agent("a");
    changed.config = json!({"servers": ["crm", "mail"]});
    changed.source = Source::Admin;
    changed.created_at = Wall(9_999);
    records.put_agent(&changed).await.unwrap();
    changed.created_at = Wall(1_000);
    changed.key = Some(key);
    assert_eq!(records.agents().await.unwrap(), [changed]);
}

/// The key before is worth nothing.
pub async fn the_latest_key_of_an_agent_is_the_only_one(records: SharedRecords) {
    let (old, new) = (KeyHash([1; 32]), KeyHash([2; 32]));
    assert!(!records.set_agent_key(&"a".into(), old).await.unwrap());
    assert_eq!(records.agents().await.unwrap(), []);
    records.put_agent(&agent("a")).await.unwrap();
    assert_eq!(records.agent_by_key(&old).await.unwrap(), None);
    assert!(records.set_agent_key(&"a".into(), old).await.unwrap());
    let found = records.agent_by_key(&old).await.unwrap();
    assert_eq!(found.unwrap().name, AgentName::from("a"));
    assert!(records.set_agent_key(&"a".into(), new).await.unwrap());
    assert_eq!(records.agent_by_key(&old).await.unwrap(), None);
    let found = records.agent_by_key(&new).await.unwrap();
    assert_eq!(found.unwrap().name, AgentName::from("a"));
}

/// Whoever presents a key is one agent and no other.
pub async fn one_key_means_one_agent(records: SharedRecords) {
    let key = KeyHash([3; 32]);
    let mut first = agent("a");
    first.key = Some(key);
    records.put_agent(&first).await.unwrap();
    records.put_agent(&first).await.unwrap();
    let mut second = agent("b");
    second.key = Some(key);
    let refused = records.put_agent(&second).await.unwrap_err();
    assert_eq!(refused.problem(), Problem::Conflict);
    assert_eq!(records.agents().await.unwrap(), [first]);
    records.put_agent(&agent("b")).await.unwrap();
    let refused = records.set_agent_key(&"b".into(), key).await.unwrap_err();
    assert_eq!(refused.problem(), Problem::Conflict);
    let found = records.agent(&"b".into()).await.unwrap();
    assert_eq!(found.unwrap().key, None);
}

/// Neither its sessions nor its key may come back to life with the next agent of that name.
pub async fn a_removed_agent_leaves_no_session_and_no_key(records: SharedRecords) {
    let key = KeyHash([4; 32]);
    let own = agent_session("1", "a", Some("crm"));
    let foreign = agent_session("2", "b", None);
    let mut removed = agent("a");
    removed.key = Some(key);
    records.put_agent(&removed).await.unwrap();
    records.put_agent_session(&own).await.unwrap();
    records.put_agent_session(&foreign).await.unwrap();
    for name in ["a", "b"] {
        records.put_session(&session(name, "crm")).await.unwrap();
    }
    records
        .append_history(&[transition("a", "crm", 1)])
        .await
        .unwrap();

    assert!(records.remove_agent(&"a".into()).await.unwrap());
    assert!(!records.remove_agent(&"a".into()).await.unwrap());
    assert_eq!(records.agents().await.unwrap(), []);
    assert_eq!(records.agent_by_key(&key).await.unwrap(), None);
    assert_eq!(records.agent_sessions().await.unwrap(), [foreign]);
    let crm = ServerName::from("crm");
    assert_eq!(records.session(&"a".into(), &crm).await.unwrap(), None);
    assert!(records.session(&"b".into(), &crm).await.unwrap().is_some());
    assert_eq!(times(&records, "a", "crm", 9).await, [1]);
    records.put_agent(&agent("a")).await.unwrap();
    assert_eq!(records.agents().await.unwrap(), [agent("a")]);
}

/// All servers, in order of their names, and one by its name.
pub async fn servers_come_back_as_they_were_put(records: SharedRecords) {
    for name in ["b", "a"] {
        records.put_server(&server(name)).await.unwrap();
    }
    let mut changed = server("b");
    changed.config = json!({"url": "https://other.example/mcp"});
    changed.source = Source::File;
    records.put_server(&changed).await.unwrap();
    let all = records.servers().await.unwrap();
    assert_eq!(all, [server("a"), changed.clone()]);
    assert_eq!(records.server(&"b".into()).await.unwrap(), Some(changed));
    assert_eq!(records.server(&"c".into()).await.unwrap(), None);
}

/// Its sessions end; those of other servers, and of agents with all servers, go on.
pub async fn a_removed_server_leaves_no_session(records: SharedRecords) {
    let others = [
        agent_session("2", "a", Some("mail")),
        agent_session("3", "a", None),
    ];
    records.put_server(&server("crm")).await.unwrap();
    let own = agent_session("1", "a", Some("crm"));
    for kept in [&own, &others[0], &others[1]] {
        records.put_agent_session(kept).await.unwrap();
    }
    for name in ["crm", "mail"] {
        records.put_session(&session("a", name)).await.unwrap();
    }
    assert!(records.remove_server(&"crm".into()).await.unwrap());
    assert!(!records.remove_server(&"crm".into()).await.unwrap());
    assert_eq!(records.servers().await.unwrap(), []);
    let a = AgentName::from("a");
    assert_eq!(records.session(&a, &"crm".into()).await.unwrap(), None);
    let mail = records.session(&a, &"mail".into()).await.unwrap();
    assert_eq!(mail, Some(session("a", "mail")));
    let mut left = records.agent_sessions().await.unwrap();
    left.sort_by_key(|session| session.server.is_none());
    assert_eq!(left, others);
}

/// What is known about one address says nothing about another.
pub async fn what_was_learned_is_kept_per_address(records: SharedRecords) {
    let (one, two) = ("https://a.example/mcp", "https://a.example/mcp/");
    let mut known = Known {
        era: Era::Legacy,
        transport: Transport::HttpSse,
        revision: Revision::V2024_11_05,
        initialize_header: true,
        no_ping: true,
    };
    assert_eq!(records.era(one).await.unwrap(), None);
    records.put_era(one, &known).await.unwrap();
    assert_eq!(records.era(one).await.unwrap(), Some(known.clone()));
    assert_eq!(records.era(two).await.unwrap(), None);
    known.era = Era::Modern;
    known.revision = Revision::V2026_07_28;
    records.put_era(one, &known).await.unwrap();
    assert_eq!(records.era(one).await.unwrap(), Some(known));
    assert!(!records.forget_era(two).await.unwrap());
    assert!(records.forget_era(one).await.unwrap());
    assert_eq!(records.era(one).await.unwrap(), None);
}

/// The newer one replaces the older one, in every field.
pub async fn a_connection_has_one_session(records: SharedRecords) {
    let (a, crm) = (AgentName::from("a"), ServerName::from("crm"));
    assert_eq!(records.session(&a, &crm).await.unwrap(), None);
    records.put_session(&session("a", "crm")).await.unwrap();
    let found = records.session(&a, &crm).await.unwrap();
    assert_eq!(found, Some(session("a", "crm")));
    let next = SessionRecord {
        address: "https://crm.example/v2".to_owned(),
        id: Some(SessionId::from("upstream-2")),
        revision: Revision::V2025_11_25,
        initialize_result: "{}".to_owned(),
        opened_at: Wall(6),
        state: json!(null),
        ..session("a", "crm")
    };
    records.put_session(&next).await.unwrap();
    assert_eq!(records.session(&a, &crm).await.unwrap(), Some(next));
    // The names are not simply joined.
    assert_eq!(
        records
            .session(&crm.as_str().into(), &"a".into())
            .await
            .unwrap(),
        None
    );
    assert!(records.remove_session(&a, &crm).await.unwrap());
    assert!(!records.remove_session(&a, &crm).await.unwrap());
    assert_eq!(records.session(&a, &crm).await.unwrap(), None);
}

/// Session ids are optional (2025-11-25 transports, session management); an empty one is not none.
pub async fn a_session_without_an_id_is_kept(records: SharedRecords) {
    for id in [None, Some(SessionId::from(""))] {
        let mut put = session("a", "crm");
        put.id = id;
        records.put_session(&put).await.unwrap();
        let found = records.session(&"a".into(), &"crm".into()).await.unwrap();
        assert_eq!(found, Some(put));
    }
}

/// Entries come back whole, the newest first, at most as many as asked for.
pub async fn history_is_newest_first_and_per_connection(records: SharedRecords) {
    let mut failed = transition("a", "crm", 2);
    failed.fault =
        Some(Fault::new(Kind::RateLimited, "429 from the server").after(Some(Millis::secs(3))));
    records.append_history(&[]).await.unwrap();
    records
        .append_history(&[transition("a", "crm", 1), failed.clone()])
        .await
        .unwrap();
    for other in [transition("a", "mail", 7), transition("b", "crm", 8)] {
        records.append_history(&[other]).await.unwrap();
    }
    records
        .append_history(&[transition("a", "crm", 3)])
        .await
        .unwrap();
    let history = records.history(&"a".into(), &"crm".into(), 2).await;
    assert_eq!(history.unwrap(), [transition("a", "crm", 3), failed]);
    assert_eq!(times(&records, "a", "crm", usize::MAX).await, [3, 2, 1]);
    assert!(times(&records, "a", "crm", 0).await.is_empty());
    assert!(times(&records, "c", "crm", 9).await.is_empty());
}

/// The wall clock is not a witness of order.
pub async fn history_is_in_the_order_of_appending_when_the_clock_goes_back(records: SharedRecords) {
    for at in [50, 10, 30] {
        records
            .append_history(&[transition("a", "crm", at)])
            .await
            .unwrap();
    }
    assert_eq!(times(&records, "a", "crm", 9).await, [30, 10, 50]);
}

/// A busy connection does not push out the history of a quiet one.
pub async fn trimming_keeps_the_newest_of_each_connection(records: SharedRecords) {
    for at in 1..=5 {
        records
            .append_history(&[transition("a", "crm", at)])
            .await
            .unwrap();
    }
    records
        .append_history(&[transition("a", "mail", 1)])
        .await
        .unwrap();
    assert_eq!(records.trim_history(2).await.unwrap(), 3);
    assert_eq!(times(&records, "a", "crm", 9).await, [5, 4]);
    assert_eq!(times(&records, "a", "mail", 9).await, [1]);
    assert_eq!(records.trim_history(2).await.unwrap(), 0);
    assert_eq!(records.trim_history(usize::MAX).await.unwrap(), 0);
    assert_eq!(records.trim_history(0).await.unwrap(), 3);
    records
        .append_history(&[transition("a", "crm", 6)])
        .await
        .unwrap();
    assert_eq!(times(&records, "a", "crm", 9).await, [6]);
}

/// Found by the hash of the id, replaced as a whole.
pub async fn agent_sessions_come_back_as_they_were_put(records: SharedRecords) {
    let one = agent_session("1", "a", Some("crm"));
    let mut two = agent_session("2", "a", None);
    let unknown: IdHash = [0; 32];
    assert_eq!(records.agent_session(&one.id_hash).await.unwrap(), None);
    records.put_agent_session(&one).await.unwrap();
    records.put_agent_session(&two).await.unwrap();
    two.log_level = None;
    two.subscriptions = Vec::new();
    two.used_at = Wall(30);
    records.put_agent_session(&two).await.unwrap();
    let found = records.agent_session(&one.id_hash).await.unwrap();
    assert_eq!(found, Some(one.clone()));
    assert_eq!(records.agent_session(&unknown).await.unwrap(), None);
    let mut all = [one.clone(), two];
    all.sort_by_key(|session| session.id_hash);
    assert_eq!(records.agent_sessions().await.unwrap(), all);
    assert!(!records.remove_agent_session(&unknown).await.unwrap());
    assert!(records.remove_agent_session(&one.id_hash).await.unwrap());
    assert_eq!(records.agent_session(&one.id_hash).await.unwrap(), None);
}

/// Two uses may be noted in either order.
pub async fn the_use_of_an_agent_session_only_moves_forward(records: SharedRecords) {
    let put = agent_session("1", "a", None);
    let hash = put.id_hash;
    assert!(!records.touch_agent_session(&hash, Wall(90)).await.unwrap());
    records.put_agent_session(&put).await.unwrap();
    for (at, expected) in [(90, 90), (40, 90), (91, 91)] {
        assert!(records.touch_agent_session(&hash, Wall(at)).await.unwrap());
        let found = records.agent_session(&hash).await.unwrap().unwrap();
        assert_eq!(found.used_at, Wall(expected));
        assert_eq!(found.opened_at, Wall(10));
    }
}

/// Only those that were last used before the given time.
pub async fn idle_agent_sessions_are_removed_and_others_stay(records: SharedRecords) {
    for (id, used_at) in [("1", 10), ("2", 20), ("3", 30)] {
        let mut put = agent_session(id, "a", None);
        put.used_at = Wall(used_at);
        records.put_agent_session(&put).await.unwrap();
    }
    let removed = records.remove_idle_agent_sessions(Wall(20)).await.unwrap();
    assert_eq!(removed, 1);
    let mut left = Vec::new();
    for session in records.agent_sessions().await.unwrap() {
        left.push(session.used_at.0);
    }
    left.sort_unstable();
    assert_eq!(left, [20, 30]);
    let removed = records.remove_idle_agent_sessions(Wall(20)).await.unwrap();
    assert_eq!(removed, 0);
}

/// The last value counts.
pub async fn settings_are_replaced(records: SharedRecords) {
    assert_eq!(records.meta("epoch").await.unwrap(), None);
    for value in ["1", ""] {
        records.put_meta("epoch", value).await.unwrap();
        let found = records.meta("epoch").await.unwrap();
        assert_eq!(found.as_deref(), Some(value));
    }
    assert_eq!(records.meta("Epoch").await.unwrap(), None);
}

/// An operator finds a configuration as it was written.
pub async fn configuration_keeps_its_order_and_its_numbers(records: SharedRecords) {
    let mut put = server("crm");
    let text = r#"{"z":1,"a":{"y":18446744073709551615,"b":-0.5},"m":[null,true,"ü"]}"#;
    put.config = serde_json::from_str(text).unwrap();
    records.put_server(&put).await.unwrap();
    let found = records.server(&"crm".into()).await.unwrap().unwrap();
    assert_eq!(found.config.to_string(), text);
}

/// Nothing is read as SQL, as a pattern or as the end of a text.
pub async fn texts_of_any_kind_survive(records: SharedRecords) {
    for text in [
        "'; DROP TABLE agents; --",
        "%_\\\"",
        "日本語 👩‍👩‍👧 é",
        "line\r\nline\t\u{1}",
        "",
    ] {
        let mut put = transition(text, text, 1);
        put.reason = text.to_owned();
        records.append_history(&[put.clone()]).await.unwrap();
        let found = records.history(&text.into(), &text.into(), 9).await;
        assert_eq!(found.unwrap(), [put]);
    }
}

/// None of them is lost, and one that is refused takes no other with it.
pub async fn writes_that_come_together_are_all_kept(records: SharedRecords) {
    let key = KeyHash([5; 32]);
    let mut first = agent("a");
    first.key = Some(key);
    records.put_agent(&first).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200_i64 {
        let records = records.clone();
        tasks.spawn(async move {
            if number % 50 == 0 {
                let mut second = agent("b");
                second.key = Some(key);
                let refused = records.put_agent(&second).await.unwrap_err();
                assert_eq!(refused.problem(), Problem::Conflict);
            }
            let entry = transition("a", "crm", number);
            records.append_history(&[entry]).await.unwrap();
            // Its own write is there when it returns.
            let found = records.history(&"a".into(), &"crm".into(), 999).await;
            assert!(found.unwrap().iter().any(|entry| entry.at.0 == number));
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let mut all = times(&records, "a", "crm", 999).await;
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
    assert_eq!(records.agents().await.unwrap(), [first]);
}

/// An error, not silence and not a hang, and closing twice is harmless.
pub async fn a_closed_store_says_so(records: SharedRecords) {
    records.put_meta("a", "1").await.unwrap();
    records.close().await;
    records.close().await;
    let write = records.put_meta("a", "2").await.unwrap_err();
    let read = records.meta("a").await.unwrap_err();
    for error in [write, read] {
        assert_eq!(error.problem(), Problem::Closed);
    }
}
