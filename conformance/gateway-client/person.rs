//! An agent that uses the server, and a person who opens a link whenever the connection says that one is needed.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Agent, Browser, Daemon, PATIENCE};

use crate::Failure;
use crate::operator::{AGENT, SERVER};

/// More links than any scenario needs or allows: a keeper that never stops asking is stopped here.
const LINKS: usize = 6;

/// How long a link for more scopes may take.
const LINK_WITHIN: Duration = Duration::from_secs(5);

/// What the suite's servers have.
const TOOL: &str = "test-tool";

/// How it ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The tool was called, and answered.
    Works,
    /// There is no link, and this is why.
    NotOffered(String),
    /// The gateway did not take what the browser came back with; its page.
    NotSignedIn(String),
    /// The connection does not work, and nobody is asked to sign in; its fault.
    AsksNoMore(String),
}

/// Plays until something is final.
pub(crate) async fn play(daemon: &Daemon, revision: &str) -> Result<End, Failure> {
    for _ in 0..LINKS {
        let connection = settled(daemon).await?;
        if connection["state"] == "connected" && works(daemon, revision).await? {
            return Ok(End::Works);
        }
        let connection = daemon.connection(AGENT, SERVER).await?;
        if !is_asked(daemon, &connection).await {
            return Ok(End::AsksNoMore(connection["fault"].to_string()));
        }
        if let Some(end) = sign_in(daemon, &connection).await? {
            return Ok(end);
        }
    }
    Err(format!("signed in {LINKS} times, and it still asks for more").into())
}

/// Waits until the connection is up, or somebody must do something about it.
async fn settled(daemon: &Daemon) -> Result<Value, Failure> {
    let is_settled = |connection: &Value| {
        connection["state"] == "connected" || connection["fault"]["person_needed"] == true
    };
    Ok(daemon
        .wait_connection(AGENT, SERVER, PATIENCE, is_settled)
        .await?)
}

/// Whether a person is asked to sign in. Where a scope is missing, that is where there is a link, which comes a moment
/// after the fault (docs/errors/SF0032.md).
async fn is_asked(daemon: &Daemon, connection: &Value) -> bool {
    if connection["fault"]["kind"] != "scope_insufficient" {
        return connection["state"] == "awaiting_sign_in";
    }
    let has_link = |connection: &Value| connection["sign_in_url"].is_string();
    let link = daemon.wait_connection(AGENT, SERVER, LINK_WITHIN, has_link);
    link.await.is_ok()
}

/// Lists and calls the tool, as an agent of that revision.
async fn works(daemon: &Daemon, revision: &str) -> Result<bool, Failure> {
    let path = format!("/mcp/{SERVER}");
    let agent = if revision == "2026-07-28" {
        Agent::modern(daemon.address(), &path, None)
    } else {
        let agent = Agent::legacy(daemon.address(), &path, None).with_revision(revision);
        agent.initialize().await?;
        agent
    };
    let list = agent.request("tools/list", json!({})).await?;
    if list.result()["tools"][0]["name"] != TOOL {
        return Err(format!("the list of tools is {}", list.message).into());
    }
    let answer = agent.call(TOOL, json!({})).await?;
    if answer.status != 200 {
        return Err(format!("{} for {}", answer.status, answer.message).into());
    }
    Ok(answer.text() == "test")
}

/// Opens a link, and waits until the connection has taken note; the end, if this is one.
async fn sign_in(daemon: &Daemon, before: &Value) -> Result<Option<End>, Failure> {
    let path = format!("/api/v1/connections/{AGENT}/{SERVER}/sign-in");
    let (status, offer) = daemon.post(&path, &json!({})).await?;
    let Some(link) = offer["url"].as_str().filter(|_| status == 200) else {
        return Ok(Some(End::NotOffered(offer.to_string())));
    };
    let page = Browser::new().open(link).await?;
    if page.status != 200 {
        return Ok(Some(End::NotSignedIn(page.body)));
    }
    let moved = |connection: &Value| {
        let differs = |key: &str| connection[key] != before[key];
        differs("since") || differs("fault")
    };
    daemon
        .wait_connection(AGENT, SERVER, PATIENCE, moved)
        .await?;
    Ok(None)
}
