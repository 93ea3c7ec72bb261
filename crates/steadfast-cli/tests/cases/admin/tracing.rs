//! OpenTelemetry: one span for each request, in the agent's own trace, and nothing of it in what a server gets.

use serde_json::{Value, json};
use testkit::reply::status;
use testkit::script::any;
use testkit::{Agent, Behaviour, Server};

use crate::common::{agents_of_both_eras, daemon};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00f067aa0ba902b7";

/// A span with its attributes as one object.
fn flat(span: &Value) -> Value {
    let mut flat =
        json!({"name": span["name"], "trace": span["traceId"], "parent": span["parentSpanId"]});
    for attribute in span["attributes"].as_array().unwrap() {
        let key = attribute["key"].as_str().unwrap();
        flat[key] = attribute["value"]["stringValue"].clone();
    }
    flat
}

/// All spans that a collector was sent.
fn spans(collector: &Server) -> Vec<Value> {
    let mut spans = Vec::new();
    for request in collector.log().requests() {
        assert_eq!(request.path, "/v1/traces");
        assert_eq!(request.header("x-key"), Some("canary-for-the-collector"));
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let resource = &body["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "gate"}})
        );
        let sent = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        spans.extend(sent.iter().map(flat));
    }
    spans
}

async fn call(agent: &Agent, traceparent: &str) -> String {
    let meta = json!({"traceparent": traceparent, "tracestate": "a=1"});
    let answer = agent
        .call_with_meta("echo", json!({"text": "x"}), meta)
        .await;
    answer.unwrap().text().to_owned()
}

#[tokio::test]
async fn calls_become_spans_in_the_trace_of_their_agent_and_reach_the_server_unchanged() {
    let collector = Server::start(Behaviour::modern()).await;
    collector.script().on(any()).reply(status(200));
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let origin = collector.url().trim_end_matches("/mcp").to_owned();
    let mut daemon = daemon(&server)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &origin)
        .env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "x-key=canary-for-the-collector",
        )
        .env("OTEL_SERVICE_NAME", "gate")
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
        .start()
        .await
        .unwrap();
    let parent = format!("00-{TRACE}-{PARENT}-01");
    for (_, agent) in agents_of_both_eras(&daemon).await {
        call(&agent, &parent).await;
        // Its trace is not recorded: nor is our part of it.
        call(&agent, &parent.replace("-01", "-00")).await;
    }
    let calls = server.log().calls("echo");
    assert_eq!(calls.len(), 4);
    for (index, call) in calls.iter().enumerate() {
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        let meta = &body["params"]["_meta"];
        let flags = if index % 2 == 0 { "-01" } else { "-00" };
        assert_eq!(meta["traceparent"], parent.replace("-01", flags), "{body}");
        assert_eq!(meta["tracestate"], "a=1", "{body}");
    }
    // What waits is sent before the daemon ends.
    daemon.terminate().await.unwrap();
    let spans = spans(&collector);
    let of_calls: Vec<&Value> = spans
        .iter()
        .filter(|it| it["gen_ai.tool.name"] == "echo")
        .collect();
    assert_eq!(of_calls.len(), 2, "{spans:?}");
    for span in of_calls {
        assert_eq!(span["name"], "tools/call echo");
        assert_eq!(
            (&span["trace"], &span["parent"]),
            (&json!(TRACE), &json!(PARENT))
        );
        assert_eq!(span["steadfast.agent"], "dev");
        assert_eq!(span["steadfast.server"], "fake");
        assert_eq!(span["steadfast.outcome"], "answered");
    }
    assert!(!daemon.stderr().contains("canary-for-the-collector"));
}
