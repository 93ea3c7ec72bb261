//! The whole product as a client of the suite's authorization scenarios: the suite starts `gateway-client URL` with the
//! scenario's name in its environment, and watches what arrives at its own servers.
//!
//! `steadfast serve` runs as it would anywhere. What an operator knows beforehand is configured ([`operator`]), an agent
//! lists and calls the tool, and a person opens a link for as long as the connection asks for one ([`person`]).

mod operator;
mod person;

use std::io::Write as _;

use serde_json::Value;

use crate::person::End;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // The suite appends the address to the command.
    let url = std::env::args()
        .next_back()
        .ok_or("usage: gateway-client URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO")?;
    let revision = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")?;
    let context: Value = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => serde_json::from_str(&context)?,
        Err(_) => Value::Null,
    };
    let daemon = operator::start(&scenario).await?;
    let end = async {
        operator::configure(&daemon, &url, &scenario, &context).await?;
        person::play(&daemon, &revision).await
    };
    let end = end.await;
    if let Ok(end) = &end
        && is_right(&scenario, end)
    {
        // What the runner looks for.
        writeln!(std::io::stdout(), "done")?;
        return Ok(());
    }
    writeln!(std::io::stderr(), "{}", daemon.stderr())?;
    Err(format!("{scenario} came to {end:?}").into())
}

/// Whether a scenario came to the end that it is about. The suite itself sees no difference between a client that refuses
/// for the right reason and one that does nothing.
fn is_right(scenario: &str, end: &End) -> bool {
    match scenario {
        "auth/resource-mismatch" => {
            matches!(end, End::NotOffered(why) if why.contains("evil.example.com"))
        }
        "auth/metadata-issuer-mismatch" => {
            matches!(end, End::NotOffered(why) if why.contains("attacker.example.com"))
        }
        "auth/iss-supported-missing"
        | "auth/iss-wrong-issuer"
        | "auth/iss-unexpected"
        | "auth/iss-normalized" => {
            matches!(end, End::NotSignedIn(page) if page.contains("does not come from the authorization server"))
        }
        "auth/scope-retry-limit" => {
            matches!(end, End::AsksNoMore(fault) if fault.contains("scope_insufficient"))
        }
        _ => matches!(end, End::Works),
    }
}
