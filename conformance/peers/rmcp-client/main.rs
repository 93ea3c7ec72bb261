//! rmcp 3.x as a peer: `rmcp-client URL KEY legacy|modern` (the line protocol of `line-protocol.mjs`).

use std::io::Write as _;

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, JsonObject,
    ProtocolVersion,
};
use rmcp::service::{Peer, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || {
        arguments
            .next()
            .ok_or("usage: rmcp-client URL KEY legacy|modern")
    };
    let (url, key, era) = (argument()?, argument()?, argument()?);
    let client = connect(&url, &key, &era).await?;
    report(&json!({ "ready": true }))?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match line.split(' ').next() {
            Some("list") => list(client.peer()).await,
            Some("call") => call(client.peer(), &line).await,
            _ => break,
        };
        report(&match answer {
            Ok(result) => json!({ "result": result }),
            Err(error) => json!({ "error": error.to_string() }),
        })?;
    }
    client.cancel().await?;
    report(&json!({ "result": "bye" }))
}

async fn connect(
    url: &str,
    key: &str,
    era: &str,
) -> Result<RunningService<RoleClient, ClientConfig>, Failure> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(key);
    // A session that is lost is to be seen, not to be made anew.
    config.reinit_on_expired_session = false;
    let lifecycle = match era {
        "modern" => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
        _ => ClientLifecycleMode::Initialize,
    };
    let client = ClientConfig::new(
        ClientCapabilities::default(),
        Implementation::new("peer-rmcp", env!("CARGO_PKG_VERSION")),
    );
    Ok(client
        .serve_with_lifecycle(
            StreamableHttpClientTransport::from_config(config),
            lifecycle,
        )
        .await?)
}

async fn list(peer: &Peer<RoleClient>) -> Result<Value, Failure> {
    Ok(serde_json::to_value(peer.list_tools(None).await?)?)
}

async fn call(peer: &Peer<RoleClient>, line: &str) -> Result<Value, Failure> {
    let mut parts = line.splitn(3, ' ').skip(1);
    let (Some(tool), Some(arguments)) = (parts.next(), parts.next()) else {
        return Err("usage: call TOOL JSON".into());
    };
    let arguments: JsonObject = serde_json::from_str(arguments)?;
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    Ok(serde_json::to_value(peer.call_tool(request).await?)?)
}

fn report(message: &Value) -> Result<(), Failure> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{message}")?;
    Ok(stdout.flush()?)
}
