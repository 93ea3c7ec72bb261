//! Who may talk to the daemon, and what it says to nobody.

mod canaries;
mod clients;
mod exposure;
mod grants;
mod proxies;
mod vault;

use serde_json::Value;
use testkit::client::{self, Response};
use testkit::{Daemon, Server};

/// A request to the daemon, byte for byte as the test gives it.
async fn send(
    daemon: &Daemon,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let sent = client::send(daemon.address(), method, path, headers, body.as_bytes());
    sent.await.unwrap().response().await.unwrap()
}

/// A write that needs no session, as a web page or an agent would send it.
fn write_call() -> String {
    let call = serde_json::json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "add_row",
            "arguments": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "page", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    });
    call.to_string()
}

/// The headers of [`write_call`] besides its credential and its content type.
const MIRRORED: [(&str, &str); 4] = [
    ("Accept", "application/json, text/event-stream"),
    ("MCP-Protocol-Version", "2026-07-28"),
    ("Mcp-Method", "tools/call"),
    ("Mcp-Name", "add_row"),
];

/// What of an agent's has reached the server.
fn reached(server: &Server) -> usize {
    server.log().count("tools/call")
}

/// What a refusal says: JSON-RPC on the agents' paths, problem details elsewhere.
fn said(body: &Value) -> String {
    let message = body["error"]["message"]
        .as_str()
        .or(body["detail"].as_str());
    message.unwrap_or_default().to_owned()
}
