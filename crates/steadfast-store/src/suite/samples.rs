//! Records to put.

use serde_json::json;
use steadfast_core::{EventCursor, Revision, ServerName, SessionId, Wall};

use crate::keys::{hash_id, hash_state};
use crate::model::{
    AgentRecord, AgentSessionRecord, ParkedCallRecord, ParkedQuestion, ServerRecord, SessionRecord,
    Source, Transition,
};

pub(super) fn agent(name: &str) -> AgentRecord {
    AgentRecord {
        name: name.into(),
        config: json!({"servers": ["crm"]}),
        source: Source::File,
        key: None,
        created_at: Wall(1_000),
    }
}

pub(super) fn server(name: &str) -> ServerRecord {
    ServerRecord {
        name: name.into(),
        config: json!({"url": "https://crm.example/mcp"}),
        source: Source::Admin,
    }
}

pub(super) fn session(agent: &str, server: &str) -> SessionRecord {
    SessionRecord {
        agent: agent.into(),
        server: server.into(),
        address: "https://crm.example/mcp".to_owned(),
        id: Some(SessionId::from("upstream-1")),
        revision: Revision::V2025_06_18,
        initialize_result: r#"{"protocolVersion":"2025-06-18", "x":1.0}"#.to_owned(),
        opened_at: Wall(5),
        state: json!({"subscriptions": ["file:///a"], "log_level": "info"}),
    }
}

pub(super) fn agent_session(id: &str, agent: &str, server: Option<&str>) -> AgentSessionRecord {
    AgentSessionRecord {
        id_hash: hash_id(&SessionId::from(id)),
        agent: agent.into(),
        server: server.map(ServerName::from),
        revision: Revision::V2025_11_25,
        client_info: r#"{"name":"agent","version":"1"}"#.to_owned(),
        capabilities: r#"{"elicitation":{}}"#.to_owned(),
        log_level: Some("warning".to_owned()),
        subscriptions: vec!["file:///a".to_owned(), "file:///b".to_owned()],
        opened_at: Wall(10),
        used_at: Wall(20),
    }
}

pub(super) fn transition(agent: &str, server: &str, at: i64) -> Transition {
    Transition {
        at: Wall(at),
        agent: agent.into(),
        server: server.into(),
        from: "connected".to_owned(),
        to: "retrying".to_owned(),
        fault: None,
        reason: format!("number {at}"),
    }
}

pub(super) fn parked_call(state: &str, agent: &str, server: &str) -> ParkedCallRecord {
    ParkedCallRecord {
        state_hash: hash_state(state),
        agent: agent.into(),
        server: server.into(),
        session: Some(SessionId::from("upstream-1")),
        rpc_id: i64::MAX,
        cursor: Some(EventCursor::from("event-7")),
        questions: vec![ParkedQuestion {
            key: "1".to_owned(),
            id: r#""s\u00e4""#.to_owned(),
            method: "elicitation/create".to_owned(),
        }],
        method: "tools/call".to_owned(),
        tool: Some("book".to_owned()),
        digest: [7; 32],
        sent_at: Wall(10),
        bytes_sent: 412,
        expires_at: Wall(30),
    }
}
