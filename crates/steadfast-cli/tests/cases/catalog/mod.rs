//! CA: lists of tools that change while nobody looks.

mod access;
mod changes;
mod reconnects;

use serde_json::{Value, json};
use testkit::Agent;
use testkit::client::EventStream;

use crate::common::LIMIT;

/// The names of all tools that the agent is shown, page by page.
async fn listed(agent: &Agent) -> Vec<String> {
    let mut names = Vec::new();
    let mut params = json!({});
    loop {
        let page = agent.request("tools/list", params).await.unwrap();
        let tools = page.result()["tools"].as_array();
        let tools = tools.unwrap_or_else(|| panic!("{page:?}"));
        names.extend(
            tools
                .iter()
                .filter_map(|tool| tool["name"].as_str())
                .map(str::to_owned),
        );
        match page.result()["nextCursor"].as_str() {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return names,
        }
    }
}

/// Waits until the stream brings a message with this method; the message.
async fn told(stream: &mut EventStream, method: &str) -> Value {
    let told = async {
        loop {
            let message = stream.message().await.unwrap();
            let message = message.expect("the stream stays open");
            if message["method"] == *method {
                return message;
            }
        }
    };
    tokio::time::timeout(LIMIT, told).await.unwrap()
}

const CHANGED: &str = "notifications/tools/list_changed";
