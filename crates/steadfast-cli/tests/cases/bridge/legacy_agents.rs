//! Legacy agents on modern servers: `input_required` results become requests on the agent's stream, and the
//! answers a second leg of the same call (2026-07-28 basic/patterns/mrtr).

use serde_json::{Value, json};
use testkit::script::call;
use testkit::{Agent, Behaviour, Daemon, End, Pending, Question, Reply, Server, Step};

use super::{accepted, asking, next_question};
use crate::common::daemon;
use crate::rig::{Era, Rig, assert_unknown};

const CALL: &str = "tools/call";

fn ask() -> Value {
    json!({"name": "ask", "arguments": {"n": 1.50}})
}

/// The answer and what came before it.
async fn finish(mut pending: Pending) -> (Vec<Value>, Value) {
    let mut before = Vec::new();
    loop {
        let message = pending.message().await.unwrap();
        let message = message.expect("an answer ends the stream");
        if message.get("method").is_none() {
            return (before, message);
        }
        before.push(message);
    }
}

/// The questions that the agent was told to forget.
fn taken_back(messages: &[Value]) -> Vec<Value> {
    let cancelled = messages
        .iter()
        .filter(|it| it["method"] == "notifications/cancelled");
    cancelled
        .map(|it| it["params"]["requestId"].clone())
        .collect()
}

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

/// All three kinds, all at once, answered in another order; the second leg is the first with the answers.
#[tokio::test]
async fn gw_05_a_modern_servers_questions_reach_a_legacy_agent() {
    let rounds = vec![vec![
        Question::form("room", "Which room?"),
        Question::sampling("capital"),
        Question::roots("roots"),
    ]];
    let rig = Rig::new(Era::Legacy, asking(Behaviour::modern(), rounds)).await;
    let mut pending = rig.agent.start(CALL, ask()).await.unwrap();
    let mut asked = Vec::new();
    for method in ["elicitation/create", "sampling/createMessage", "roots/list"] {
        let question = next_question(&mut pending).await;
        assert_eq!(question["method"], *method, "{question}");
        asked.push(question);
    }
    assert_eq!(asked[0]["params"]["message"], "Which room?");
    assert_eq!(asked[1]["params"]["maxTokens"], 100);
    let answers = [
        accepted("blue"),
        json!({"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}),
        json!({"roots": [{"uri": "file:///home"}]}),
    ];
    for (question, answer) in asked.iter().zip(&answers).rev() {
        let status = rig.agent.respond(&question["id"], answer.clone()).await;
        assert_eq!(status.unwrap(), 202);
    }
    let (_, answer) = finish(pending).await;
    let said: Value = serde_json::from_str(text(&answer)).unwrap();
    let expected = json!({"room": answers[0], "capital": answers[1], "roots": answers[2]});
    assert_eq!(said, expected);
    assert_eq!(answer["result"].get("resultType"), None, "{answer}");

    let legs = rig.server.log().calls("ask");
    assert_eq!(legs.len(), 2, "{}", rig.server.log());
    assert_ne!(
        legs[0].rpc_id(),
        legs[1].rpc_id(),
        "the second leg has an id of its own"
    );
    assert_eq!(legs[1].pointer("/params/requestState").unwrap(), "round 1");
    for leg in &legs {
        let body = std::str::from_utf8(&leg.body).unwrap();
        assert!(body.contains(r#""arguments":{"n":1.5}"#), "{body}");
        assert_eq!(leg.header("mcp-name"), Some("ask"));
    }
    assert_eq!(rig.rows("ask"), 1, "it ran once");
}

/// Round after round, with progress under the agent's own token in between, also where only a state comes back.
#[tokio::test]
async fn a_call_has_as_many_legs_as_its_server_needs() {
    for behaviour in [Behaviour::modern(), Behaviour::modern().streaming()] {
        let rounds = vec![
            vec![Question::form("a", "First?")],
            Vec::new(),
            vec![Question::form("b", "Second?")],
        ];
        let rig = Rig::new(Era::Legacy, asking(behaviour, rounds)).await;
        let mut params = ask();
        params["_meta"] = json!({"progressToken": "own"});
        let mut pending = rig.agent.start(CALL, params).await.unwrap();
        for (message, room) in [("First?", "blue"), ("Second?", "red")] {
            let question = next_question(&mut pending).await;
            assert_eq!(question["params"]["message"], message);
            let answered = rig.agent.respond(&question["id"], accepted(room)).await;
            assert_eq!(answered.unwrap(), 202);
        }
        let (before, answer) = finish(pending).await;
        assert_eq!(text(&answer), json!({"b": accepted("red")}).to_string());
        let last = before.last().unwrap();
        assert_eq!(last["params"]["progressToken"], "own", "{last}");
        assert_eq!(last["params"]["progress"], 3, "{last}");
        let states: Vec<_> = rig
            .server
            .log()
            .calls("ask")
            .iter()
            .map(|leg| leg.pointer("/params/requestState").cloned())
            .collect();
        assert_eq!(
            states,
            [
                None,
                Some(json!("round 1")),
                Some(json!("round 2")),
                Some(json!("round 3"))
            ]
        );
        assert_eq!(rig.rows("ask"), 1);
    }
}

/// Where a person is sent to a page the legacy era wants an id as well.
#[tokio::test]
async fn a_page_is_asked_for_only_where_the_agent_can_open_one() {
    let page = json!({"mode": "url", "message": "Sign in", "url": "https://example.com/x"});
    let rounds = vec![vec![Question::new("page", "elicitation/create", page)]];
    let server = Server::start(asking(Behaviour::modern(), rounds)).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();

    let agent = daemon.legacy_agent("dev", "fake").await.unwrap();
    let agent = agent.with_capabilities(json!({"elicitation": {"form": {}, "url": {}}}));
    agent.initialize().await.unwrap();
    let mut pending = agent.start(CALL, ask()).await.unwrap();
    let question = next_question(&mut pending).await;
    assert_eq!(question["params"]["url"], "https://example.com/x");
    assert!(
        question["params"]["elicitationId"].is_string(),
        "{question}"
    );
    agent
        .respond(&question["id"], json!({"action": "accept"}))
        .await
        .unwrap();
    let (_, answer) = finish(pending).await;
    assert_eq!(text(&answer), r#"{"page":{"action":"accept"}}"#);
}

/// An agent that cannot be asked is not asked, and hangs nothing: the person is said to have dismissed it.
#[tokio::test]
async fn gw_05_an_agent_that_cannot_answer_hangs_nothing() {
    let (server, _daemon, agent) = incapable(vec![Question::form("room", "Which room?")]).await;
    let answer = agent.request(CALL, ask()).await.unwrap();
    assert_eq!(
        answer.text(),
        r#"{"room":{"action":"cancel"}}"#,
        "{answer:?}"
    );
    assert!(
        answer.notifications().is_empty() && answer.events.len() <= 2,
        "{answer:?}"
    );
    assert_eq!(server.log().calls("ask").len(), 2);
    let offered = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
    assert_eq!(
        server.log().calls("ask")[0].pointer(offered),
        Some(&json!({}))
    );
}

/// Of what has no such answer the call ends, with what is known of it, and no further leg.
#[tokio::test]
async fn a_call_ends_where_its_question_has_no_answer() {
    let (server, _daemon, agent) = incapable(vec![Question::sampling("s")]).await;
    let answer = agent.request(CALL, ask()).await.unwrap();
    assert_unknown(&answer, "ask", "sampling/createMessage");
    assert_eq!(server.log().calls("ask").len(), 1);

    let rounds = vec![vec![Question::roots("r")]];
    let rig = Rig::new(Era::Legacy, asking(Behaviour::modern(), rounds)).await;
    let mut pending = rig.agent.start(CALL, ask()).await.unwrap();
    let question = next_question(&mut pending).await;
    rig.agent
        .respond_error(&question["id"], -32603, "no disk")
        .await
        .unwrap();
    let (_, message) = finish(pending).await;
    assert!(text(&message).contains("no disk"), "{message}");
    assert_eq!(rig.calls("ask"), 1);
}

async fn incapable(round: Vec<Question>) -> (Server, Daemon, Agent) {
    let server = Server::start(asking(Behaviour::modern(), vec![round])).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = daemon
        .legacy_agent("dev", "fake")
        .await
        .unwrap()
        .with_capabilities(json!({}));
    agent.initialize().await.unwrap();
    (server, daemon, agent)
}

/// A write whose second leg is lost may have been done: nobody sends it again.
#[tokio::test]
async fn gw_05_a_lost_second_leg_of_a_write_is_not_repeated() {
    let rounds = vec![vec![Question::form("room", "Which room?")]];
    let rig = Rig::new(Era::Legacy, asking(Behaviour::modern(), rounds)).await;
    let lost = Reply::new().step(Step::End(End::Rst));
    rig.server.script().on(call("ask").nth(2)).reply(lost);
    let mut pending = rig.agent.start(CALL, ask()).await.unwrap();
    let question = next_question(&mut pending).await;
    rig.agent
        .respond(&question["id"], accepted("blue"))
        .await
        .unwrap();
    let answer = pending.finish().await.unwrap();
    assert_unknown(&answer, "ask", "reset");
    rig.works().await;
    assert_eq!((rig.calls("ask"), rig.rows("ask")), (2, 1));
}

/// Nobody answers in time: the person is said to have dismissed the question, and a late answer does nothing.
#[tokio::test]
async fn gw_05_a_question_does_not_wait_for_ever() {
    let rounds = vec![vec![Question::form("room", "Which room?")]];
    let server = Server::start(asking(Behaviour::modern(), rounds)).await;
    let rig = Rig::with(Era::Legacy, server, |daemon| {
        daemon.set_text("retry.input_wait", "300ms")
    })
    .await;
    let mut pending = rig.agent.start(CALL, ask()).await.unwrap();
    let question = next_question(&mut pending).await;
    let (before, answer) = finish(pending).await;
    assert_eq!(text(&answer), r#"{"room":{"action":"cancel"}}"#);
    // Told under the id that it knows, before the answer.
    assert_eq!(taken_back(&before), [question["id"].clone()], "{before:?}");
    let late = rig.agent.respond(&question["id"], accepted("blue")).await;
    assert_eq!(late.unwrap(), 202);
    rig.works().await;
    assert_eq!((rig.calls("ask"), rig.rows("ask")), (2, 1));
}

/// The agent loses its connection while it is asked, comes back, and answers: nothing is lost, and the server
/// does not notice.
#[tokio::test]
async fn gw_05_an_agent_that_comes_back_answers_its_question() {
    let rounds = vec![vec![Question::form("room", "Which room?")]];
    let rig = Rig::new(Era::Legacy, asking(Behaviour::modern(), rounds)).await;
    let mut pending = rig.agent.start(CALL, ask()).await.unwrap();
    let first = pending
        .stream()
        .await
        .unwrap()
        .next()
        .await
        .unwrap()
        .unwrap();
    let primed = first.event().unwrap().id.clone().unwrap();
    let question = next_question(&mut pending).await;
    drop(pending);
    let mut stream = rig.agent.open_get(Some(&primed)).await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap(), question);
    rig.agent
        .respond(&question["id"], accepted("blue"))
        .await
        .unwrap();
    let answer = stream.message().await.unwrap().unwrap();
    assert_eq!(text(&answer), json!({"room": accepted("blue")}).to_string());
    assert_eq!((rig.calls("ask"), rig.rows("ask")), (2, 1));
}

/// A call that is cancelled while its agent is asked is over: no second leg.
#[tokio::test]
async fn a_call_that_is_cancelled_while_it_asks_has_no_second_leg() {
    let rounds = vec![vec![Question::form("room", "Which room?")]];
    let rig = Rig::new(Era::Legacy, asking(Behaviour::modern(), rounds)).await;
    let mut pending = rig.agent.start(CALL, ask()).await.unwrap();
    let question = next_question(&mut pending).await;
    rig.agent.cancel(&pending.id.clone()).await.unwrap();
    assert_eq!(pending.message().await.unwrap(), None, "no response");
    let late = rig.agent.respond(&question["id"], accepted("blue")).await;
    assert_eq!(late.unwrap(), 202);
    rig.works().await;
    assert_eq!(rig.calls("ask"), 1);
}
