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

/// Puts the server, with what the scenario's context hands over; secrets go into the vault first.
pub(crate) async fn configure(
    daemon: &Daemon,
    url: &str,
    scenario: &str,
    context: &Value,
) -> Result<(), Failure> {
    let mut server = json!({ "url": url });
    if scenario == "auth/pre-registration" {
        put(
            daemon,
            "/vault/CLIENT_SECRET",
            &json!({ "value": context["client_secret"] }),
        )
        .await?;
        server["oauth"] = json!({
            "client_id": context["client_id"],
            "client_secret": "${vault:CLIENT_SECRET}",
        });
    }
    put(daemon, &format!("/servers/{SERVER}"), &server).await
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
