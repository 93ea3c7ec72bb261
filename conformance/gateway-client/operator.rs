//! What an operator sets up before anybody can sign in.

use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::Daemon;

use crate::Failure;

pub(crate) const AGENT: &str = "dev";
pub(crate) const SERVER: &str = "scenario";

/// The client-id metadata document that the suite's authorization server takes as a client: it fetches none.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// The daemon, with one agent that needs no key.
pub(crate) async fn start(scenario: &str) -> Result<Daemon, Failure> {
    let builder = Daemon::builder(beside_us("steadfast")?)
        .agent(AGENT)
        .set_text("gateway.anonymous_agent", AGENT);
    let builder = if scenario == "auth/basic-cimd" {
        builder.set_text("gateway.client_metadata_url", DOCUMENT)
    } else {
        builder
    };
    Ok(builder.start().await?)
}

fn beside_us(program: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()?;
    let folder = own.parent().ok_or("this program is in no folder")?;
    Ok(folder.join(program))
}

/// Puts the server, with what the scenario's context hands over. Secrets go into the vault first.
pub(crate) async fn configure(
    daemon: &Daemon,
    url: &str,
    scenario: &str,
    context: &Value,
) -> Result<(), Failure> {
    for (key, value) in context.as_object().into_iter().flatten() {
        put(daemon, &format!("/vault/{key}"), &json!({ "value": value })).await?;
    }
    let mut server = json!({ "url": url });
    if let Some(oauth) = oauth(scenario, context) {
        server["oauth"] = oauth;
    }
    put(daemon, &format!("/servers/{SERVER}"), &server).await
}

/// As which client to ask for tokens, and for whom; `None` where that is found out.
fn oauth(scenario: &str, context: &Value) -> Option<Value> {
    let client_id = &context["client_id"];
    let client_secret = "${vault:client_secret}";
    Some(match scenario {
        "auth/pre-registration" => json!({
            "client_id": client_id,
            "client_secret": client_secret,
        }),
        "auth/client-credentials-basic" => json!({
            "grant": "client_credentials",
            "client_id": client_id,
            "client_secret": client_secret,
        }),
        "auth/client-credentials-jwt" => json!({
            "grant": "client_credentials",
            "client_id": client_id,
            "private_key": "${vault:private_key_pem}",
        }),
        "auth/enterprise-managed-authorization" => json!({
            "grant": "identity_assertion",
            "client_id": client_id,
            "client_secret": client_secret,
            "identity": {
                "issuer": context["idp_issuer"],
                "client_id": context["idp_client_id"],
                "assertion": "${vault:idp_id_token}",
            },
        }),
        _ => return None,
    })
}

async fn put(daemon: &Daemon, path: &str, body: &Value) -> Result<(), Failure> {
    let (status, answer) = daemon
        .admin("PUT", &format!("/api/v1{path}"), Some(body))
        .await?;
    if (200..300).contains(&status) {
        Ok(())
    } else {
        Err(format!("{path}: {status}: {answer}").into())
    }
}
