//! Notices: opened once, told once, cleared once.

use steadfast_core::{AgentName, Fault, Kind, ServerName, Wall};

use super::samples::{agent, server};
use crate::notices::{Moment, NoticeRecord, Opening, Telling};
use crate::store::SharedStore;

fn refused() -> Fault {
    Fault::new(Kind::GrantRefused, "invalid_grant")
}

fn names(agent: &str) -> (AgentName, ServerName) {
    (agent.into(), "crm".into())
}

async fn open(store: &SharedStore, agent: &str, fault: &Fault, at: i64) -> Opening {
    let (agent, server) = names(agent);
    let opened = store.open_notice(&agent, &server, fault, Wall(at)).await;
    opened.unwrap()
}

async fn clear(store: &SharedStore, agent: &str, at: i64) -> bool {
    let (agent, server) = names(agent);
    let cleared = store.clear_notice(&agent, &server, Wall(at)).await;
    cleared.unwrap()
}

async fn only(store: &SharedStore) -> NoticeRecord {
    let mut notices = store.notices().await.unwrap();
    assert_eq!(notices.len(), 1);
    notices.remove(0)
}

fn telling(channel: &str, moment: Moment) -> Telling {
    Telling {
        moment,
        channel: channel.to_owned(),
    }
}

async fn claim(store: &SharedStore, number: u64, telling: &Telling) -> bool {
    let (agent, server) = names("a");
    let claimed = store.claim_telling(&agent, &server, number, telling).await;
    claimed.unwrap()
}

/// Opening what is open and clearing what is cleared changes nothing.
pub async fn a_notice_is_opened_once_and_cleared_once(store: SharedStore) {
    assert_eq!(store.notices().await.unwrap(), []);
    assert!(!clear(&store, "a", 1).await);
    assert_eq!(open(&store, "a", &refused(), 10).await, Opening::Opened);
    assert_eq!(open(&store, "a", &refused(), 11).await, Opening::Unchanged);
    let (agent, server) = names("a");
    let mut expected = NoticeRecord {
        agent,
        server,
        number: 1,
        fault: refused(),
        opened_at: Wall(10),
        cleared_at: None,
        told: Vec::new(),
    };
    assert_eq!(only(&store).await, expected);

    // Another reason is shown, and is no further notice.
    let other = Fault::new(Kind::ScopeInsufficient, "bookings");
    assert_eq!(open(&store, "a", &other, 12).await, Opening::Changed);
    expected.fault = other.clone();
    assert_eq!(only(&store).await, expected);

    assert!(clear(&store, "a", 20).await);
    assert!(!clear(&store, "a", 21).await);
    expected.cleared_at = Some(Wall(20));
    assert_eq!(only(&store).await, expected);

    assert_eq!(open(&store, "a", &other, 30).await, Opening::Opened);
    expected.number = 2;
    expected.opened_at = Wall(30);
    expected.cleared_at = None;
    assert_eq!(only(&store).await, expected);
}

/// By each channel once when it is opened and once when it is cleared, whichever daemon sends it.
pub async fn each_message_about_a_notice_is_claimed_once(store: SharedStore) {
    let by_webhook = telling("webhook", Moment::Opened);
    assert!(!claim(&store, 1, &by_webhook).await);
    open(&store, "a", &refused(), 10).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, telling) = (store.clone(), by_webhook.clone());
        tasks.spawn(async move { claim(&store, 1, &telling).await });
    }
    let mut claimed = 0;
    while let Some(done) = tasks.join_next().await {
        claimed += usize::from(done.unwrap());
    }
    assert_eq!(claimed, 1);
    let by_mail = telling("email", Moment::Opened);
    let of_the_end = telling("webhook", Moment::Cleared);
    assert!(claim(&store, 1, &of_the_end).await);
    assert!(claim(&store, 1, &by_mail).await);
    let told = only(&store).await.told;
    assert_eq!(told, [by_mail, by_webhook.clone(), of_the_end]);

    // One that could not be sent is claimed again.
    let (agent, server) = names("a");
    for released in [true, false] {
        let answer = store
            .release_telling(&agent, &server, 1, &by_webhook)
            .await
            .unwrap();
        assert_eq!(answer, released);
    }
    assert!(claim(&store, 1, &by_webhook).await);

    // Of the next opening nobody has been told; the one before is over.
    clear(&store, "a", 20).await;
    open(&store, "a", &refused(), 30).await;
    assert_eq!(only(&store).await.told, []);
    assert!(!claim(&store, 1, &by_webhook).await);
    assert!(claim(&store, 2, &by_webhook).await);
}

/// The last one that was opened comes first; old ones that were cleared can be forgotten.
pub async fn notices_are_newest_first(store: SharedStore) {
    for (agent, at) in [("b", 10), ("a", 10), ("c", 30), ("d", 20)] {
        open(&store, agent, &refused(), at).await;
        if agent != "a" {
            clear(&store, agent, at + 5).await;
        }
    }
    let order = |notices: Vec<NoticeRecord>| -> Vec<String> {
        let agents = notices.iter().map(|notice| notice.agent.to_string());
        agents.collect()
    };
    let all = store.notices().await.unwrap();
    assert_eq!(order(all), ["c", "d", "a", "b"]);
    let removed = store.remove_cleared_notices(Wall(25)).await.unwrap();
    assert_eq!(removed, 1);
    let all = store.notices().await.unwrap();
    assert_eq!(order(all), ["c", "d", "a"]);
}

/// A connection that is no more needs nobody.
pub async fn the_notice_of_one_connection_is_removed(store: SharedStore) {
    for agent in ["a", "b"] {
        open(&store, agent, &refused(), 1).await;
    }
    assert!(claim(&store, 1, &telling("webhook", Moment::Opened)).await);
    let (agent, server) = names("a");
    for was_there in [true, false] {
        let removed = store.remove_notice(&agent, &server).await.unwrap();
        assert_eq!(removed, was_there);
    }
    assert_eq!(only(&store).await.agent, AgentName::from("b"));
    open(&store, "a", &refused(), 2).await;
    let notices = store.notices().await.unwrap();
    assert_eq!(notices.len(), 2);
    assert!(notices.iter().all(|notice| notice.told.is_empty()));
}

/// There is nobody left whom it concerns.
pub async fn notices_go_with_their_agent_and_their_server(store: SharedStore) {
    store.put_agent(&agent("a")).await.unwrap();
    store.put_server(&server("crm")).await.unwrap();
    for agent in ["a", "b"] {
        open(&store, agent, &refused(), 1).await;
    }
    assert!(claim(&store, 1, &telling("webhook", Moment::Opened)).await);
    store.remove_agent(&"a".into()).await.unwrap();
    assert_eq!(only(&store).await.agent, AgentName::from("b"));
    store.remove_server(&"crm".into()).await.unwrap();
    assert_eq!(store.notices().await.unwrap(), []);
    // Nor does the next one of that name inherit what was told.
    open(&store, "a", &refused(), 2).await;
    assert_eq!(only(&store).await.told, []);
}
