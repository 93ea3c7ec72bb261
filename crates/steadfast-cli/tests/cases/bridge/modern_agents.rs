//! Modern agents on legacy servers: a question ends the agent's leg with an `input_required` result, and the
//! second leg goes on with the same call (2026-07-28 basic/patterns/mrtr).

use serde_json::{Value, json};
use testkit::reply::event_stream;
use testkit::script::{call, post};
use testkit::{Answer, Behaviour, Question, Reply, RequestLog, Server, Step};

use super::{accepted, asking};
use crate::common::{LIMIT, daemon, never};
use crate::rig::{Era, Rig, assert_unknown, seen};

const CALL: &str = "tools/call";
const CANCELLED: &str = "notifications/cancelled";

fn ask() -> Value {
    json!({"name": "ask", "arguments": {"n": 1.5, "a": "b"}})
}

fn room() -> Vec<Vec<Question>> {
    vec![vec![Question::form("room", "Which room?")]]
}

fn legacy(rounds: Vec<Vec<Question>>) -> Behaviour {
    asking(Behaviour::legacy("2025-11-25"), rounds)
}

/// The questions and the state of an `input_required` result.
#[track_caller]
fn required(answer: &Answer) -> (Value, String) {
    let result = answer.result();
    assert_eq!(result["resultType"], "input_required", "{answer:?}");
    let state = result["requestState"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(state.len() >= 32, "unguessable: {answer:?}");
    (result["inputRequests"].clone(), state)
}

/// The second leg of the call: with these answers, and the state as it came.
fn second(responses: Value, state: &str) -> Value {
    let mut params = ask();
    params["inputResponses"] = responses;
    params["requestState"] = json!(state);
    params
}

/// The responses that the server got to its questions.
fn responses(log: &RequestLog) -> Vec<Value> {
    let posts = log.matching(|it| it.method == "POST" && it.rpc_method().is_none());
    posts.iter().filter_map(|post| post.json.clone()).collect()
}

/// All three kinds, one after the other, and two at a time; progress and log lines on the stream of the leg that
/// reads, under its own token; the answers under the server's ids, and one call of it all.
#[tokio::test]
async fn gw_05_a_legacy_servers_questions_reach_a_modern_agent() {
    let rounds = vec![
        vec![
            Question::form("room", "Which room?"),
            Question::roots("roots"),
        ],
        vec![Question::sampling("capital")],
    ];
    let rig = Rig::new(Era::Modern, legacy(rounds)).await;
    let mut params = ask();
    params["_meta"] = json!({"progressToken": "first"});
    let first = rig.agent.request(CALL, params).await.unwrap();
    let (asked, state) = required(&first);
    let asked: Vec<_> = asked.as_object().unwrap().iter().collect();
    assert_eq!(asked.len(), 2, "{first:?}");
    assert_eq!(asked[0].1["method"], "elicitation/create");
    assert_eq!(asked[0].1["params"]["message"], "Which room?");
    assert_eq!(asked[1].1["method"], "roots/list");

    let roots = json!({"roots": [{"uri": "file:///home"}]});
    let answers = json!({asked[0].0.as_str(): accepted("blue"), asked[1].0.as_str(): roots});
    let mut params = second(answers, &state);
    params["_meta"] = json!({"progressToken": 2});
    let next = rig.agent.request(CALL, params).await.unwrap();
    let (asked, state) = required(&next);
    assert_eq!(asked["1"]["method"], "sampling/createMessage", "{next:?}");
    let progress = next.notifications();
    assert_eq!(progress.len(), 1, "no log level, no log: {next:?}");
    assert_eq!(progress[0]["params"]["progressToken"], 2, "{next:?}");

    let paris =
        json!({"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"});
    let last = rig
        .agent
        .request(CALL, second(json!({"1": paris}), &state))
        .await
        .unwrap();
    assert_eq!(
        last.text(),
        json!({"capital": paris}).to_string(),
        "{last:?}"
    );
    assert_eq!(last.result()["resultType"], "complete");
    assert!(
        last.notifications().is_empty(),
        "no token, no progress: {last:?}"
    );

    let log = rig.server.log();
    assert_eq!((rig.calls("ask"), rig.rows("ask")), (1, 1), "{log}");
    let got = responses(log);
    let ids: Vec<_> = got.iter().map(|it| it["id"].clone()).collect();
    assert_eq!(ids, ["ask-1", "ask-2", "ask-3"]);
    assert_eq!(got[0]["result"], accepted("blue"));
    assert_eq!(got[1]["result"], roots);
    assert_eq!(log.count(CANCELLED), 0);
}

/// What the agent leaves out it is asked again; what it answers goes on at once.
#[tokio::test]
async fn an_answer_that_is_missing_is_asked_for_again() {
    let rounds = vec![vec![
        Question::form("a", "First?"),
        Question::form("b", "Second?"),
    ]];
    let rig = Rig::new(Era::Modern, legacy(rounds)).await;
    let first = rig.agent.request(CALL, ask()).await.unwrap();
    let (_, state) = required(&first);
    let half = json!({"2": accepted("red"), "9": accepted("not asked")});
    let next = rig.agent.request(CALL, second(half, &state)).await.unwrap();
    let (asked, state) = required(&next);
    assert_eq!(asked.as_object().unwrap().len(), 1, "{next:?}");
    assert_eq!(asked["1"]["params"]["message"], "First?");
    let rest = json!({"1": accepted("blue")});
    let last = rig.agent.request(CALL, second(rest, &state)).await.unwrap();
    let said = json!({"a": accepted("blue"), "b": accepted("red")});
    assert_eq!(last.text(), said.to_string(), "{last:?}");
    assert_eq!((rig.calls("ask"), rig.rows("ask")), (1, 1));
}

/// The server is told at once where its question has nobody who could answer it.
#[tokio::test]
async fn gw_05_a_modern_agent_that_cannot_answer_hangs_nothing() {
    let server = Server::start(legacy(room())).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = daemon.modern_agent("dev", "fake").await.unwrap();
    let agent = agent.with_capabilities(json!({"elicitation": {"url": {}}, "roots": {}}));
    let answer = agent.request(CALL, ask()).await.unwrap();
    assert!(
        answer.text().contains("-32602"),
        "a mode that it has not: {answer:?}"
    );
    let agent = daemon.modern_agent("dev", "fake").await.unwrap();
    let agent = agent.with_capabilities(json!({}));
    let answer = agent.request(CALL, ask()).await.unwrap();
    assert!(answer.text().contains("-32601"), "{answer:?}");
    let codes: Vec<_> = responses(server.log())
        .iter()
        .map(|it| it["error"]["code"].clone())
        .collect();
    assert_eq!(codes, [-32602, -32601]);
}

/// A state is good for one call of one agent, and once. Anything else sends nothing.
#[tokio::test]
async fn gw_05_a_state_is_good_for_its_own_call_and_once() {
    let server = Server::start(legacy(room())).await;
    let other = Server::start(legacy(room())).await;
    let daemon = daemon(&server)
        .server("other", &other.url())
        .agent("ops")
        .start()
        .await
        .unwrap();
    for (agent, server) in [("dev", "fake"), ("dev", "other"), ("ops", "fake")] {
        daemon.wait_state(agent, server, "connected").await.unwrap();
    }
    let agent = daemon.modern_agent("dev", "fake").await.unwrap();
    let foreign = daemon.modern_agent("ops", "fake").await.unwrap();
    let elsewhere = daemon.modern_agent("dev", "other").await.unwrap();
    let (_, state) = required(&agent.request(CALL, ask()).await.unwrap());
    let responses = json!({"1": accepted("blue")});
    let leg = second(responses.clone(), &state);

    let mut other_arguments = leg.clone();
    other_arguments["arguments"]["n"] = json!(2);
    let mut other_tool = leg.clone();
    other_tool["name"] = json!("add_row");
    let mut without_state = ask();
    without_state["inputResponses"] = responses.clone();
    let wrong = [
        (&foreign, leg.clone()),
        (&elsewhere, leg.clone()),
        (&agent, other_arguments),
        (&agent, other_tool),
        (&agent, second(responses.clone(), &format!("{state}0"))),
        (&agent, second(responses, "")),
        (&agent, without_state),
    ];
    for (who, params) in wrong {
        let refused = who.request(CALL, params.clone()).await.unwrap();
        assert_eq!(refused.error_code(), Some(-32602), "{params}: {refused:?}");
        assert_eq!(
            refused.message["error"]["data"]["code"], "SF0071",
            "{refused:?}"
        );
    }
    // Members in another order are the same call.
    let mut same = leg.clone();
    same["arguments"] = json!({"a": "b", "n": 1.5});
    let answer = agent.request(CALL, same).await.unwrap();
    assert!(
        answer.text().contains("blue"),
        "what others tried changed nothing: {answer:?}"
    );
    let again = agent.request(CALL, leg).await.unwrap();
    assert_eq!(again.error_code(), Some(-32602), "{again:?}");
    assert_eq!(
        (
            server.log().calls("ask").len(),
            other.log().calls("ask").len()
        ),
        (1, 0)
    );
    assert_eq!(server.log().calls("add_row").len(), 0);
}

/// What a legacy server says in its stream, a modern agent is told by the status too (2026-07-28 streamable-http,
/// "Protocol Version Header"; basic/index, "Per-request protocol fields").
#[tokio::test]
async fn what_a_legacy_server_refuses_in_its_stream_has_its_status() {
    let server = Server::start(legacy(room())).await;
    let error = |code: i64| json!({"error": {"code": code, "message": "cannot"}});
    let refuses = event_stream().step(Step::RpcEvent(None, error(-32601)));
    server.script().on(post("no/such")).reply(refuses);
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 1}});
    let asks = event_stream()
        .step(Step::RpcEvent(None, question))
        .step(Step::WaitFor("refused".to_owned()))
        .step(Step::RpcEvent(None, error(-32603)));
    server.script().on(call("ask")).reply(asks);
    let rig = Rig::with(Era::Modern, server, |daemon| daemon).await;

    let unknown = rig.agent.request("no/such", json!({})).await.unwrap();
    assert_eq!((unknown.status, unknown.error_code()), (404, Some(-32601)));

    let agent = rig.daemon.modern_agent("dev", "fake").await.unwrap();
    let agent = agent.with_capabilities(json!({"roots": {}}));
    let refused = async {
        seen(&rig.server, |log| responses(log).len() == 1).await;
        rig.server.open("refused");
    };
    let (answer, ()) = tokio::join!(agent.request(CALL, ask()), refused);
    let answer = answer.unwrap();
    assert_eq!(
        (answer.status, answer.error_code()),
        (400, Some(-32021)),
        "{answer:?}"
    );
    let error = &answer.message["error"];
    let missing = &error["data"]["requiredCapabilities"];
    assert_eq!(*missing, json!({"sampling": {}}));
    let message = error["message"].as_str().unwrap();
    assert!(message.ends_with("The server says: cannot"), "{message}");
    assert_eq!(responses(rig.server.log())[0]["error"]["code"], -32601);
}

/// The agent never comes back: its server is told so, the call is read to its end, and nothing is cancelled.
#[tokio::test]
async fn gw_05_a_parked_call_does_not_wait_for_ever() {
    let server = Server::start(legacy(room())).await;
    let rig = Rig::with(Era::Modern, server, |daemon| {
        daemon
            .set_text("retry.input_wait", "300ms")
            .read_tool("fake", "ask")
    })
    .await;
    let (_, state) = required(&rig.agent.request(CALL, ask()).await.unwrap());
    seen(&rig.server, |log| responses(log).len() == 1).await;
    assert_eq!(
        responses(rig.server.log())[0]["result"],
        json!({"action": "cancel"})
    );
    let late = second(json!({"1": accepted("blue")}), &state);
    let refused = rig.agent.request(CALL, late).await.unwrap();
    assert_eq!(refused.error_code(), Some(-32602), "{refused:?}");
    rig.works().await;
    assert_eq!(
        (rig.calls("ask"), rig.server.log().count(CANCELLED)),
        (1, 0)
    );
}

/// The gateway is killed while the call waits. The next process posts the answer in the session on record,
/// under the server's own id, and fetches the rest of the stream; nothing is called again.
#[tokio::test]
async fn gw_05_a_parked_call_outlives_the_gateway() {
    let server = Server::start(legacy(room()).resumable(Some(50))).await;
    goes_on_after(server, async |rig| rig.daemon.restart().await).await;
}

/// The same where the gateway is stopped, and stopped once more before the agent comes back: nobody ends the
/// session, or answers in the agent's place. Also not where the tool only reads, and a disconnect would mean
/// that the result is not wanted any more.
#[tokio::test]
async fn gw_05_a_parked_call_outlives_a_stop_of_the_gateway() {
    let server = Server::start(legacy(room()).resumable(Some(50))).await;
    goes_on_after(server, async |rig| {
        for _ in 0..2 {
            let (ended, _) = rig.daemon.terminate().await?;
            assert!(ended.success(), "{ended}");
            let log = rig.server.log();
            assert_eq!(log.http("DELETE").len(), 0, "{log}");
            assert_eq!((responses(log), log.count(CANCELLED)), (vec![], 0), "{log}");
            rig.daemon.restart().await?;
            rig.daemon.wait_state("dev", "fake", "connected").await?;
        }
        Ok(())
    })
    .await;
}

async fn goes_on_after(server: Server, an_end: impl AsyncFnOnce(&mut Rig) -> std::io::Result<()>) {
    let mut rig = Rig::with(Era::Modern, server, |daemon| {
        daemon.read_tool("fake", "ask")
    })
    .await;
    let (asked, state) = required(&rig.agent.request(CALL, ask()).await.unwrap());
    assert_eq!(asked["1"]["method"], "elicitation/create");
    an_end(&mut rig).await.unwrap();
    let mut params = second(json!({"1": accepted("blue")}), &state);
    params["_meta"] = json!({"progressToken": "after"});
    let answer = rig.agent.request(CALL, params).await.unwrap();
    assert_eq!(
        answer.text(),
        json!({"room": accepted("blue")}).to_string(),
        "{answer:?}"
    );
    let log = rig.server.log();
    assert_eq!((rig.calls("ask"), rig.rows("ask")), (1, 1), "{log}");
    let got = responses(log);
    assert_eq!(got.len(), 1, "{log}");
    assert_eq!(
        (&got[0]["id"], &got[0]["result"]),
        (&json!("ask-1"), &accepted("blue"))
    );
    let resumed = log.matching(|it| it.method == "GET" && it.header("last-event-id").is_some());
    assert_eq!(resumed.len(), 1, "{log}");
    assert_eq!(resumed[0].session(), Some("S1"));
    let again = rig
        .agent
        .request(CALL, second(json!({"1": accepted("blue")}), &state))
        .await;
    assert_eq!(again.unwrap().error_code(), Some(-32602));
}

/// Without event ids the rest cannot be fetched: then nothing is agreed to in the person's name, and the outcome
/// is unknown. The same where the session has gone.
#[tokio::test]
async fn gw_05_what_cannot_be_gone_on_with_is_not_observed() {
    for forgets in [false, true] {
        let behaviour = legacy(room());
        let behaviour = if forgets {
            behaviour.resumable(Some(50))
        } else {
            behaviour
        };
        let server = Server::start(behaviour).await;
        let mut rig = Rig::with(Era::Modern, server, |daemon| daemon).await;
        let (_, state) = required(&rig.agent.request(CALL, ask()).await.unwrap());
        rig.daemon.kill9().await.unwrap();
        if forgets {
            rig.server.forget_sessions();
        }
        rig.daemon.restart().await.unwrap();
        let params = second(json!({"1": accepted("blue")}), &state);
        let answer = rig.agent.request(CALL, params).await.unwrap();
        assert_unknown(&answer, "ask", "the gateway was restarted");
        if !forgets {
            seen(&rig.server, |log| responses(log).len() == 1).await;
        }
        let agreed = |log: &RequestLog| {
            responses(log)
                .iter()
                .any(|it| it["result"]["action"] == "accept")
        };
        never(&rig.server, LIMIT / 100, |log| {
            agreed(log) || log.calls("ask").len() > 1
        })
        .await;
        assert_eq!(rig.rows("ask"), 1);
    }
}

/// The agent's leg ends while the server asks: its other leg is lost on the way, and the write is not repeated.
#[tokio::test]
async fn gw_05_a_lost_second_leg_upstream_is_not_observed() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
        "params": {"message": "Which room?", "requestedSchema": {"type": "object", "properties": {}}}});
    let asks = Reply::new()
        .header("content-type", "text/event-stream")
        .row()
        .step(Step::RpcEvent(None, question))
        .step(Step::WaitFor("cut".to_owned()))
        .step(Step::End(testkit::End::Rst));
    server.script().on(call("ask")).reply(asks);
    let rig = Rig::with(Era::Modern, server, |daemon| daemon).await;
    let (_, state) = required(&rig.agent.request(CALL, ask()).await.unwrap());
    let leg = second(json!({"1": accepted("blue")}), &state);
    let pending = rig.agent.start(CALL, leg).await.unwrap();
    seen(&rig.server, |log| responses(log).len() == 1).await;
    rig.server.open("cut");
    assert_unknown(&pending.finish().await.unwrap(), "ask", "reset");
    rig.works().await;
    assert_eq!((rig.calls("ask"), rig.rows("ask")), (1, 1));
}
