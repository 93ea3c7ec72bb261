//! WR-08: what is not the gateway's own passes byte for byte, both ways and across the eras.

use testkit::reply::{content, json_rpc_error};
use testkit::script::call;
use testkit::{Agent, Behaviour, Request};

use crate::rig::{Era, PAIRINGS, Rig};

/// Number forms, order, escapes, unknown members, extensions and trace context.
const PARTS: [&str; 4] = [
    r#""zeta" : {"b":1,"a":[1.0,1e3,9007199254740993,-0.0,12345678901234567890.10]}"#,
    r#""arguments":{"b":"\u00e9\/\ud83d\ude00","a":1.50,"b2":{} }"#,
    r#""task":{"ttl":60000.0}"#,
    r#""vendor/idempotency-key":"k1", "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"x=\u0031","baggage":"a=b","vendor/ui":{"csp":1E5,"B":null,"A":[]}"#,
];
const MODERN: &str = r#","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"version":"1","name":"a"},"io.modelcontextprotocol/clientCapabilities":{}"#;

fn request(era: Era) -> String {
    let [zeta, arguments, task, meta] = PARTS;
    let modern = match era {
        Era::Legacy => "",
        Era::Modern => MODERN,
    };
    format!(
        r#"{{"method":"tools/call","params":{{"name":"add_row",{zeta},{arguments},{task},"_meta":{{{meta}{modern}}}}},"id":"\u0041 1", "jsonrpc":"2.0"}}"#
    )
}

async fn post(agent: &Agent, body: &str) -> String {
    let like = serde_json::json!({ "method": "tools/call", "params": { "name": "add_row" } });
    let headers = agent.headers(Some(&like));
    let headers: Vec<_> = headers
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    let mut answer = agent.raw_post(&headers, body.as_bytes()).await.unwrap();
    String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap()
}

/// The body with the server's id put back to the agent's.
fn with_agents_id(request: &Request) -> String {
    let id = request.rpc_id().unwrap().to_string();
    let body = std::str::from_utf8(&request.body).unwrap();
    body.replace(&format!(r#""id":{id},"#), r#""id":"\u0041 1","#)
}

#[tokio::test]
async fn wr_08_a_request_keeps_its_bytes() {
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        let sent = request(agent);
        post(&rig.agent, &sent).await;
        let got = with_agents_id(&rig.server.log().calls("add_row")[0]);
        if agent == server {
            assert_eq!(got, sent, "{agent:?}");
        }
        for part in PARTS {
            assert!(
                got.contains(part),
                "{agent:?} on {server:?}: {part} in {got}"
            );
        }
        let is_modern = got.contains("io.modelcontextprotocol/protocolVersion");
        assert_eq!(is_modern, server == Era::Modern, "{got}");
    }
}

#[tokio::test]
async fn wr_08_a_result_keeps_its_bytes() {
    const RESULT: &str = r#""zeta" : 1.0,"content":[{"text":"\u00e9\/","type":"text","_meta":{"ui":{"b":9007199254740993,"a":1e3}}}],"_meta":{"traceparent":"00-1","B":null},"isError":false"#;
    for (agent, server) in PAIRINGS {
        let rig = Rig::new(agent, server.behaviour()).await;
        let kind = match server {
            Era::Legacy => "",
            Era::Modern => r#","resultType":"complete""#,
        };
        let answer = move |id: &str| {
            format!(r#"{{"result":{{{RESULT}{kind}}},"id":{id}, "jsonrpc":"2.0","extra":[1.0]}}"#)
        };
        let reply = move |request: &Request| {
            let id = request.rpc_id().unwrap().to_string();
            content(200, "application/json", answer(&id))
        };
        rig.server.script().on(call("add_row")).reply_with(reply);
        let got = post(&rig.agent, &request(agent)).await;
        if agent == server {
            assert_eq!(got, answer(r#""\u0041 1""#), "{agent:?}");
        }
        assert!(got.contains(RESULT), "{agent:?} on {server:?}: {got}");
        assert!(
            got.contains(r#""id":"\u0041 1", "jsonrpc":"2.0","extra":[1.0]"#),
            "{got}"
        );
    }
}

/// What was refused unseen is sent once more: the same bytes under another id.
#[tokio::test]
async fn wr_08_a_permitted_resend_is_the_same_request() {
    let rig = Rig::new(Era::Legacy, Behaviour::legacy("2025-11-25")).await;
    let lost = json_rpc_error(404, -32001, "Session not found");
    rig.server.script().on(call("add_row").times(1)).reply(lost);
    let got = post(&rig.agent, &request(Era::Legacy)).await;
    assert!(got.contains("done"), "{got}");
    let calls = rig.server.log().calls("add_row");
    let [first, second] = &calls[..] else {
        panic!("two: {}", rig.server.log());
    };
    assert_ne!(first.rpc_id(), second.rpc_id());
    assert_eq!(with_agents_id(first), request(Era::Legacy));
    assert_eq!(with_agents_id(second), request(Era::Legacy));
    assert_eq!(rig.rows("add_row"), 1);
}
