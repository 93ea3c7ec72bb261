//! Which sessions are known, to whom, and for how long.

use std::sync::Arc;

use steadfast::{CallHandle, Notice};
use steadfast_core::RpcId;
use steadfast_core::replay::Access;
use steadfast_store::{MemoryEvents, MemoryRecords, Records as _};

use super::*;
use crate::agents::events::{About, EventLog, Priming};

const DAY: Duration = Duration::from_secs(86_400);

fn sessions(in_memory: usize) -> (Arc<MemoryRecords>, Sessions) {
    let records = Arc::new(MemoryRecords::new());
    let sessions = over(&records, in_memory);
    (records, sessions)
}

fn over(records: &Arc<MemoryRecords>, in_memory: usize) -> Sessions {
    let ids = Arc::new(Unguessable::new().unwrap());
    let records: SharedRecords = Arc::clone(records) as SharedRecords;
    Sessions::new(records, ids, in_memory, DAY, Duration::from_secs(600))
}

fn client(name: &str) -> Client {
    Client {
        info: format!(r#"{{"name":"{name}"}}"#),
        capabilities: r#"{"roots":{}}"#.to_owned(),
        log_level: None,
    }
}

async fn open(sessions: &Sessions) -> (String, Arc<Session>) {
    let (agent, server) = (AgentName::from("support"), ServerName::from("booking"));
    let opened = sessions
        .open(agent, Some(server), Revision::V2025_11_25, client("c"))
        .await;
    opened.unwrap()
}

async fn finds(sessions: &Sessions, id: &str, agent: &str, server: &str) -> bool {
    let found = sessions.find(id, &agent.into(), Some(&server.into())).await;
    found.unwrap().is_some()
}

#[tokio::test]
async fn a_session_belongs_to_its_agent_and_server() {
    let (_, sessions) = sessions(10);
    let (id, _) = open(&sessions).await;
    assert!(finds(&sessions, &id, "support", "booking").await);
    assert!(!finds(&sessions, &id, "other", "booking").await);
    assert!(!finds(&sessions, &id, "support", "tickets").await);
    assert!(!finds(&sessions, "guess", "support", "booking").await);
}

#[tokio::test]
async fn a_session_with_all_servers_is_none_with_one_of_them() {
    let (records, sessions) = sessions(10);
    let opened = sessions.open("support".into(), None, Revision::V2025_11_25, client("c"));
    let (id, _) = opened.await.unwrap();
    // Also after a restart.
    for sessions in [&sessions, &over(&records, 10)] {
        assert!(!finds(sessions, &id, "support", "booking").await);
        let found = sessions.find(&id, &"support".into(), None).await.unwrap();
        assert_eq!(found.unwrap().server, None);
        let others = sessions.find(&id, &"other".into(), None).await.unwrap();
        assert!(others.is_none());
    }
}

#[tokio::test]
async fn a_restart_is_not_noticed() {
    let (records, before) = sessions(10);
    let (id, session) = open(&before).await;
    before
        .set_log_level(&session, "\"info\"".to_owned())
        .await
        .unwrap();
    let after = over(&records, 10);
    let found = after
        .find(&id, &"support".into(), Some(&"booking".into()))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.revision, Revision::V2025_11_25);
    assert_eq!(found.client().info, r#"{"name":"c"}"#);
    assert_eq!(found.client().log_level.as_deref(), Some("\"info\""));
    after.remove(&found).await.unwrap();
    assert!(!finds(&over(&records, 10), &id, "support", "booking").await);
}

#[tokio::test]
async fn agents_that_never_say_goodbye_cost_no_memory() {
    let (records, sessions) = sessions(100);
    let (first, session) = open(&sessions).await;
    drop(session);
    for _ in 0..1_000 {
        drop(open(&sessions).await);
        assert!(sessions.by_key.read().len() <= 101);
    }
    assert_eq!(records.agent_sessions().await.unwrap().len(), 1_001);
    assert_eq!(
        sessions.clients.lock().len(),
        1,
        "what they all say is kept once"
    );
    assert!(
        finds(&sessions, &first, "support", "booking").await,
        "it comes back from the store"
    );
}

#[tokio::test]
async fn sessions_in_use_stay_in_memory() {
    let (_, sessions) = sessions(10);
    let names = Arc::new(Unguessable::new().unwrap());
    let (events, store) = (
        Arc::new(MemoryEvents::new()),
        Arc::new(MemoryRecords::new()),
    );
    let url = "https://gw.test".parse().unwrap();
    let log = EventLog::open(events, store, DAY, 1 << 20, names, url);
    let log = log.await.unwrap();
    let (_, calling) = open(&sessions).await;
    let call = calling.begin(&"booking".into(), RpcId::Integer(1), CallHandle::new());
    let (_, listening) = open(&sessions).await;
    let stream = listening.listening(|| log.begin(&listening, About::listening(Priming::None), []));
    sessions.listens(&listening);
    let reader = stream.read(Access::of_key(listening.agent.clone()));
    // The longest unused of all, and all the same not to be dropped.
    for session in [&calling, &listening] {
        session.used(Wall(0));
    }
    let weak = (Arc::downgrade(&calling), Arc::downgrade(&listening));
    drop((calling, listening));
    for _ in 0..50 {
        drop(open(&sessions).await);
    }
    assert!(weak.0.upgrade().is_some() && weak.1.upgrade().is_some());
    assert_eq!(
        sessions
            .listeners(&"support".into(), Some(&"booking".into()))
            .len(),
        1
    );
    drop((call, reader));
    for _ in 0..50 {
        drop(open(&sessions).await);
    }
    assert!(weak.0.upgrade().is_none() && weak.1.upgrade().is_none());
    assert!(
        sessions
            .listeners(&"support".into(), Some(&"booking".into()))
            .is_empty()
    );
}

#[tokio::test]
async fn an_unused_session_is_forgotten_in_the_end() {
    let (records, sessions) = sessions(10);
    let (id, session) = open(&sessions).await;
    let (fresh, _) = open(&sessions).await;
    let long_ago = clock::wall().0 - 2 * 86_400_000;
    session.used(Wall(long_ago));
    records.put_agent_session(&session.record()).await.unwrap();
    drop(session);
    sessions.sweep().await;
    assert!(!finds(&sessions, &id, "support", "booking").await);
    assert!(finds(&sessions, &fresh, "support", "booking").await);
}

fn cancels(id: u32) -> Notice {
    let before = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#;
    let (start, id) = (before.len(), id.to_string());
    Notice {
        message: format!("{before}{id}}}}}").into(),
        id: start..start + id.len(),
    }
}

#[tokio::test]
async fn every_call_with_the_id_is_cancelled_and_no_other() {
    let (_, sessions) = sessions(10);
    let (_, session) = open(&sessions).await;
    let server = ServerName::from("booking");
    let handles: Vec<_> = (0..4).map(|_| CallHandle::new()).collect();
    let text = RpcId::from_json("\"1\"").unwrap();
    let one = session.begin(&server, RpcId::Integer(1), handles[0].clone());
    let _twin = session.begin(&server, RpcId::Integer(1), handles[1].clone());
    let _text = session.begin(&server, text, handles[2].clone());
    let _two = session.begin(&server, RpcId::Integer(2), handles[3].clone());
    session.cancel(&RpcId::Integer(1), &cancels(1));
    session.cancel(&RpcId::Integer(3), &cancels(3));
    let cancelled: Vec<_> = handles.iter().map(CallHandle::is_cancelled).collect();
    assert_eq!(cancelled, [true, true, false, false]);
    drop(one);
    assert!(!session.is_quiet());
}

#[tokio::test]
async fn gw_02_a_call_whose_agent_lost_its_connection_can_still_be_cancelled() {
    let (_, sessions) = sessions(10);
    let (_, session) = open(&sessions).await;
    let (server, keepers) = (ServerName::from("booking"), CallHandle::new());
    drop(session.begin(&server, RpcId::Integer(1), keepers.clone()));
    assert!(!session.is_quiet(), "the keeper still waits for its answer");
    session.cancel(&RpcId::Integer(1), &cancels(1));
    assert!(keepers.is_cancelled());
    drop(keepers);
    assert!(session.is_quiet(), "nothing is left of it");
}
