//! Sessions of 2025-03-26 to 2025-11-25 that the server no longer knows, and servers without sessions.

mod lost;
mod refusals;
mod sessionless;

use serde_json::json;
use testkit::reply::json_rpc_error;
use testkit::{Answer, Reply, Server, Step};

/// What the protocol asks a server to say of a session that it does not know.
fn not_found() -> Reply {
    json_rpc_error(404, -32001, "Session not found")
}

/// The same, once the test opens the gate.
fn not_found_after(gate: &str) -> Reply {
    Reply::new()
        .wait_for(gate)
        .step(Step::Status(404))
        .header("content-type", "application/json")
        .rpc(json!({ "error": { "code": -32001, "message": "Session not found" } }))
}

/// The requests from a position of the log on, each with the session that it carries.
fn wire_from(server: &Server, start: usize) -> Vec<String> {
    let requests = server.log().requests();
    let labels = server.log().order();
    let with_session = |(request, label): (&std::sync::Arc<testkit::Request>, &String)| {
        format!("{label} {}", request.session().unwrap_or("-"))
    };
    let pairs = requests.iter().zip(&labels);
    pairs.skip(start).map(with_session).collect()
}

/// The call ran once and its answer came.
fn assert_done(answer: &Answer) {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(!answer.is_error(), "{answer:?}");
    assert_eq!(answer.text(), "done", "{answer:?}");
}

fn rows(server: &Server) -> usize {
    server.ledger().rows_of("add_row").unwrap().len()
}
