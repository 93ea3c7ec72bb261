//! Calls of a daemon that is no more, as the agent that resumes their stream is told of them.

use bytes::Bytes;
use serde_json::Value;
use steadfast::{NotObserved, OperationDetails};
use steadfast_core::effect::Executed;

use crate::Gate;
use crate::agents::calling::About;
use crate::agents::events::CallOnRecord;
use crate::agents::render;

const EVIDENCE: &str = "the gateway was restarted before the response";

/// The response to a call of which nobody reads the server's answer any more: what the ledger has of it, or what is
/// known.
pub(super) async fn answer(gate: &Gate, call: &CallOnRecord) -> Bytes {
    let about = About::of_record(&call.id, &call.method, call.tool.as_deref());
    let details = match &call.operation {
        Some(id) => gate.keeper.operation(id).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the operation of an interrupted call cannot be read");
            None
        }),
        None => None,
    };
    if let Some(result) = details.as_ref().and_then(observed) {
        return about.finish(render::result(&about.id, result.to_string().as_bytes()));
    }
    render::not_observed(&about, &not_observed(call, details))
}

/// The result, where the daemon that was killed had put it on record.
fn observed(details: &OperationDetails) -> Option<&Value> {
    let result = details.result.as_ref()?;
    // An error of the protocol has a code, a result has not.
    let is_result = result.is_object() && result.get("code").is_none();
    (details.operation.state == "observed" && is_result).then_some(result)
}

fn not_observed(call: &CallOnRecord, details: Option<OperationDetails>) -> NotObserved {
    let operation = details.map(|details| Box::new(details.operation));
    NotObserved {
        server: call.server.as_str().to_owned(),
        tool: call.tool.clone(),
        method: call.method.clone(),
        executed: operation
            .as_ref()
            .map_or(Executed::Unknown, |it| it.executed),
        sent_at: Some(call.begun_at),
        bytes_sent: operation.as_ref().map_or(0, |it| it.bytes_sent),
        evidence: EVIDENCE.to_owned(),
        fault: None,
        operation,
        connection: None,
    }
}
