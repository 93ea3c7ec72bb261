//! GW-05 and what belongs to it: a server's questions to agents of either era, and what else the two eras
//! say in opposite ways.

mod disconnects;
mod legacy_agents;
mod levels;
mod modern_agents;

use serde_json::{Value, json};
use testkit::{Action, Behaviour, Pending, Question, Tool};

/// A server with a tool `ask` that asks these rounds of questions; each run of it is a row.
fn asking(behaviour: Behaviour, rounds: Vec<Vec<Question>>) -> Behaviour {
    let mut tools = Tool::defaults();
    tools.retain(|tool| tool.name != "ask");
    tools.push(Tool::new("ask", Action::Questions(rounds)));
    behaviour.with_tools(tools)
}

/// The next request of the server's on the stream of a call, past notifications.
async fn next_question(pending: &mut Pending) -> Value {
    loop {
        let message = pending.message().await.unwrap();
        let message = message.expect("the server asks before the stream ends");
        if message.get("id").is_some() {
            assert!(message.get("method").is_some(), "no question: {message}");
            return message;
        }
    }
}

/// What a person who accepts answers.
fn accepted(room: &str) -> Value {
    json!({ "action": "accept", "content": { "room": room } })
}
