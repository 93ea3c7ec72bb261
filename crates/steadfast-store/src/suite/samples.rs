//! Records to put.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use steadfast_core::grant::{State, Strikes, Tokens};
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::client::Auth;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::operation::{
    Contract, KeyContract, LookupContract, State as OperationState, Trail,
};
use steadfast_core::{EventCursor, Millis, Revision, ServerName, SessionId, Wall};

use crate::clients::ClientRecord;
use crate::grants::{ClientOrigin, GrantClient, GrantRecord};
use crate::keys::{hash_id, hash_state};
use crate::model::{
    AgentRecord, AgentSessionRecord, ParkedCallRecord, ParkedQuestion, ServerRecord, SessionRecord,
    Source, Transition,
};
use crate::operations::OperationRecord;
use crate::sign_ins::SignInRecord;
use crate::swap::Version;
use crate::vault::{GrantSecrets, OperationSecrets, Sealed, SignInSecrets};

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

/// A grant that was never written.
pub(crate) fn grant(agent: &str, server: &str) -> GrantRecord {
    let tokens = Tokens {
        generation: GrantGeneration(1),
        issued_at: Wall(1_000),
        expires_at: Wall(3_601_000),
        renewable: true,
        scopes: vec!["bookings".to_owned()],
    };
    GrantRecord {
        agent: agent.into(),
        server: server.into(),
        version: Version::NONE,
        generation: GrantGeneration(1),
        state: State::Valid {
            tokens,
            renew_at: Wall(2_400_000),
            strikes: Strikes::default(),
        },
        wake_at: Some(Wall(2_400_000)),
        issuer: "https://as.example".to_owned(),
        resource: Some("https://crm.example/mcp".to_owned()),
        token_endpoint: Some("https://as.example/token".to_owned()),
        client: grant_client(),
        last_renewal: None,
        step_up: StepUp::default(),
        sealed: Some(Sealed::from(b"tokens 1".to_vec())),
    }
}

/// The same with the tokens of another generation.
pub(crate) fn renewed(grant: &GrantRecord, generation: u64) -> GrantRecord {
    GrantRecord {
        generation: GrantGeneration(generation),
        sealed: Some(Sealed::from(format!("tokens {generation}").into_bytes())),
        ..grant.clone()
    }
}

fn grant_client() -> GrantClient {
    GrantClient {
        id: "c1".to_owned(),
        auth: Auth::ClientSecretBasic,
        origin: ClientOrigin::Registered {
            redirect_uri: "http://127.0.0.1:7420/oauth/callback".to_owned(),
        },
        for_itself: true,
        audience: Some("https://as.example.com/".to_owned()),
        expires_at: Some(Wall(9)),
    }
}

pub(crate) fn client(issuer: &str, redirect_uri: &str) -> ClientRecord {
    ClientRecord {
        issuer: issuer.to_owned(),
        redirect_uri: redirect_uri.to_owned(),
        version: Version::NONE,
        client_id: "c1".to_owned(),
        sealed: Some(Sealed::from(b"secret".to_vec())),
        auth: Auth::ClientSecretPost,
        expires_at: Some(Wall(5)),
        registered_at: Wall(1),
        doubtful: false,
    }
}

pub(crate) fn sign_in(agent: &str, number: u8) -> SignInRecord {
    SignInRecord {
        agent: agent.into(),
        server: "crm".into(),
        id: format!("attempt-{number}"),
        state_hash: [number; 32],
        issuer: "https://as.example/".to_owned(),
        token_endpoint: "https://as.example/token".to_owned(),
        redirect_uri: "http://127.0.0.1:7420/oauth/callback".to_owned(),
        client: grant_client(),
        scopes: vec!["bookings".to_owned(), "offline_access".to_owned()],
        resource: None,
        sealed: Sealed::from(b"verifier".to_vec()),
        started_at: Wall(0),
        expires_at: Wall(600_000),
    }
}

/// An operation that has left, with both contracts.
pub(crate) fn operation(number: u8) -> OperationRecord {
    OperationRecord {
        id: format!("op_{number:03}").as_str().into(),
        version: Version::NONE,
        agent: "a".into(),
        server: "crm".into(),
        tool: "book".to_owned(),
        digest: [number; 32],
        call_digest: [1; 32],
        key_hash: None,
        leg_hash: None,
        contract: Contract {
            duplicate_key: Some(KeyContract {
                present: true,
                retention: Millis::secs(60),
                atomic: true,
                payload_bound: true,
                account_scoped: true,
                propagated: false,
            }),
            lookup: Some(LookupContract {
                tool: "find".to_owned(),
                arguments: [("reference".to_owned(), json!("$.arguments.reference"))].into(),
                accepted: "$.found".to_owned(),
                must_equal: [("$.room".to_owned(), "$.arguments.room".to_owned())].into(),
                absent_is_definitive: true,
                settle_after: Millis::secs(30),
            }),
        },
        state: OperationState::Sent {
            trail: Trail {
                attempts: 1,
                first_sent: Some(Wall(5)),
                last_sent: Some(Wall(6)),
                bytes_sent: 412,
                unknown: 0,
                agent_left: true,
                asked: false,
                task: Some("task-1".to_owned()),
            },
        },
        undelivered: false,
        driver: Some("daemon-1".to_owned()),
        wake_at: None,
        intended_at: Wall(4),
        changed_at: Wall(6),
        sealed: Sealed::from(format!("operation {number}").into_bytes()),
        result: None,
    }
}

/// A secret that nothing may print, without a part that something else may print.
pub(crate) fn secret(name: &str) -> SecretString {
    STANDARD.encode(Sha256::digest(name)).into()
}

pub(crate) fn secrets(generation: u64) -> GrantSecrets {
    GrantSecrets {
        access_token: secret(&format!("access-{generation}")),
        refresh_token: Some(secret(&format!("refresh-{generation}"))),
        client_secret: None,
    }
}

pub(crate) fn sign_in_secrets() -> SignInSecrets {
    SignInSecrets {
        verifier: secret("verifier"),
        link: secret("link"),
        client_secret: Some(secret("client")),
    }
}

pub(crate) fn operation_secrets() -> OperationSecrets {
    OperationSecrets {
        params: secret("params"),
        operation_key: Some(secret("intention")),
        provider_key: None,
    }
}
