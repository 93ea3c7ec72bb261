//! Finds out what became of an operation: by the lookup that the operator declared, or by following the task that the
//! server made of it. Both only read.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steadfast_core::operation::Finding;
use steadfast_core::operation::lookup::Lookup;
use steadfast_core::wire::envelope;
use steadfast_core::{Fault, Kind, Millis, Revision, bridge};
use steadfast_store::{ExposeSecret as _, OperationRecord};

use super::Ledger;
use crate::call::{Answer, Call, Failure, Message, Origin};
use crate::drive::open::OWN_INFO;
use crate::handle::CallHandle;
use crate::link::Link;

/// What was found out.
pub(super) struct Found {
    pub(super) finding: Finding,
    /// The call's own response, where following its task brought it.
    pub(super) response: Option<Bytes>,
    /// The provider's record, as JSON text.
    pub(super) record: Option<String>,
}

impl Found {
    fn only(finding: Finding) -> Self {
        Self {
            finding,
            response: None,
            record: None,
        }
    }

    /// Whether it says anything about what became of the call.
    const fn is_telling(&self) -> bool {
        match self.finding {
            Finding::Found { .. } | Finding::Absent | Finding::Working { .. } => true,
            Finding::Unclear { .. } | Finding::Unreachable { .. } => false,
        }
    }

    pub(super) fn unclear(why: impl Into<String>) -> Self {
        Self::only(Finding::Unclear { why: why.into() })
    }
}

impl Ledger {
    /// Asks the server, as the contract says.
    pub(super) async fn ask(&self, link: &Arc<Link>, record: &OperationRecord) -> Found {
        let followed = match &record.state.trail().task {
            Some(task) => Some(follow(link, task).await),
            None => None,
        };
        match (followed, &record.contract.lookup) {
            (Some(found), _) if found.is_telling() => found,
            // A task that is gone, or was cancelled, leaves the provider's records to be asked.
            (_, Some(contract)) => {
                let lookup = match Lookup::compile(contract) {
                    Ok(lookup) => lookup,
                    Err(invalid) => return Found::unclear(invalid.to_string()),
                };
                self.look_up(link, record, &contract.tool, &lookup).await
            }
            (Some(found), None) => found,
            (None, None) => Found::unclear("there is nothing to ask by"),
        }
    }

    async fn look_up(
        &self,
        link: &Arc<Link>,
        record: &OperationRecord,
        tool: &str,
        lookup: &Lookup,
    ) -> Found {
        let meant = match self.meant(record) {
            Ok(meant) => meant,
            Err(why) => return Found::unclear(why),
        };
        let arguments = match lookup.arguments(&meant) {
            Ok(arguments) => arguments,
            Err(why) => return Found::unclear(why),
        };
        let is_read = {
            let upstream = link.upstream.read();
            let upstream = upstream.as_ref();
            upstream.is_some_and(|it| it.config.effect(tool) == steadfast_core::Effect::Read)
        };
        if !is_read {
            // The configuration may have changed since the call was made.
            return Found::unclear(format!("`{tool}` is not declared as a read any more"));
        }
        let params = json!({ "name": tool, "arguments": Value::Object(arguments) });
        let result = match ask(link, "tools/call", params).await {
            Ok(result) => result,
            Err(finding) => return Found::only(finding),
        };
        match lookup.judge(&meant, &result) {
            // The record may say what is nobody else's business: its digest is evidence enough in the open.
            Finding::Found { record } => Found {
                finding: Finding::Found {
                    record: super::digest_of(&record),
                },
                response: None,
                record: Some(record),
            },
            finding => Found::only(finding),
        }
    }

    /// What the paths of a contract see of an operation.
    fn meant(&self, record: &OperationRecord) -> Result<Value, String> {
        let secrets = self
            .vault
            .open_operation(record)
            .map_err(|error| error.to_string())?;
        let params: Value = serde_json::from_str(secrets.params.expose_secret())
            .map_err(|_| "the call on record cannot be read".to_owned())?;
        let arguments = params.get("arguments").cloned();
        Ok(json!({
            "arguments": arguments.unwrap_or_else(|| Value::Object(Map::new())),
            "server": record.server.as_str(),
            "tool": record.tool,
            "operation": record.id.as_str(),
        }))
    }
}

/// Follows a task (SEP-2663, "Polling"; 2025-11-25 basic/utilities/tasks, "Getting Tasks").
async fn follow(link: &Arc<Link>, task: &str) -> Found {
    let params = json!({ "taskId": task });
    let state = match ask(link, "tasks/get", params.clone()).await {
        Ok(state) => state,
        Err(finding) => return Found::only(finding),
    };
    let status = state
        .get("status")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if status == "working" {
        let again_after = ["pollIntervalMs", "pollInterval"]
            .iter()
            .find_map(|name| state.get(name).and_then(Value::as_u64));
        return Found::only(Finding::Working {
            again_after: again_after.map(Millis),
        });
    }
    if !matches!(status, "completed" | "failed") {
        // A task that was cancelled may have done its work before.
        return Found::unclear(format!(
            "the task is {:?}",
            steadfast_core::quirks::sanitise(status)
        ));
    }
    // The extension has the outcome in the task itself; before it, it is fetched.
    let inlined = ["result", "error"].map(|key| state.get(key).map(|value| (key, value.clone())));
    let outcome = match inlined.into_iter().flatten().next() {
        Some(outcome) => Some(outcome),
        None => ask(link, "tasks/result", params)
            .await
            .ok()
            .map(|result| ("result", result)),
    };
    match outcome {
        Some((key, value)) => {
            let response = json!({ "jsonrpc": "2.0", "id": 0, key: value });
            Found {
                finding: Finding::Found {
                    record: format!("the task is {status}"),
                },
                response: Some(Bytes::from(response.to_string())),
                record: None,
            }
        }
        None => Found::unclear(format!(
            "the task is {status}, and its result cannot be read"
        )),
    }
}

/// One request of the keeper's own that only reads: its result.
async fn ask(link: &Arc<Link>, method: &str, params: Value) -> Result<Value, Finding> {
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params });
    let message = Bytes::from(message.to_string());
    let unclear = |why: &str| Finding::Unclear {
        why: why.to_owned(),
    };
    let envelope = envelope::read(&message).map_err(|invalid| unclear(&invalid.to_string()))?;
    let params = envelope::read_params(&message, &envelope);
    let call = Call {
        message,
        envelope,
        params,
        origin: Origin::Legacy {
            revision: Revision::LATEST_LEGACY,
            client: Arc::new(bridge::Client {
                info: OWN_INFO.to_owned(),
                // SEP-2663, "Capability Negotiation": a client says with each request that it knows tasks.
                capabilities: r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#.to_owned(),
                log_level: None,
            }),
        },
    };
    let response = match link.call(call, CallHandle::new()).await {
        Answer::Whole { message, .. } => message,
        Answer::Stream(mut stream) => loop {
            match stream.next().await {
                Some(Message::Response(message)) => break message,
                Some(Message::Failed(failure)) => return Err(unreachable(&failure)),
                Some(Message::Notification(_) | Message::Request(_)) => {}
                None => return Err(unclear("the server did not answer")),
            }
        },
        Answer::Failed(failure) => return Err(unreachable(&failure)),
    };
    let mut response: Value =
        serde_json::from_slice(&response).map_err(|_| unclear("the answer cannot be read"))?;
    match response.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(unclear("the server answered with an error")),
    }
}

fn unreachable(failure: &Failure) -> Finding {
    let fault = match failure {
        Failure::Unavailable(report) => {
            let message = report.fault.as_ref().map(|fault| fault.message.clone());
            let message = message.unwrap_or_else(|| "the server is not available".to_owned());
            Fault::new(Kind::Network, message)
        }
        Failure::NotObserved(lost) => match &lost.fault {
            Some(fault) => fault.clone(),
            None => Fault::new(Kind::Network, lost.evidence.clone()),
        },
        Failure::NoSuchTool(_) => Fault::new(Kind::ProtocolMismatch, "the server has no such tool"),
        Failure::KeptBack(_) | Failure::Cancelled => {
            Fault::new(Kind::Network, "the server was not asked")
        }
    };
    Finding::Unreachable { fault }
}
