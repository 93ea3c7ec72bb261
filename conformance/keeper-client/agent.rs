//! An agent that uses one of the keeper's links, and accepts every question with the defaults of its form.

use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Map, Value, json};
use steadfast::{
    Answer, AnswerStream, Call, CallHandle, Link, Listener, Message, Origin, ServerRequest,
};
use steadfast_core::bridge::Client;
use steadfast_core::catalog::List;
use steadfast_core::wire::envelope;
use steadfast_core::{Era, Revision};

use crate::Failure;

#[derive(Debug)]
pub(crate) struct Agent {
    link: Arc<Link>,
    origin: Origin,
    /// What goes into `_meta` of every request from 2026-07-28 on.
    meta: Option<Value>,
    ids: i64,
}

/// What a request came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    Result(Value),
    /// The result asks for input first (2026-07-28, Multi Round-Trip Requests).
    Question(Value),
}

impl Agent {
    pub(crate) fn new(link: Arc<Link>, revision: &str) -> Result<Self, Failure> {
        let info = json!({ "name": "keeper-client", "version": env!("CARGO_PKG_VERSION") });
        let capabilities = json!({ "elicitation": {} });
        let revision =
            Revision::parse(revision).ok_or_else(|| format!("unknown revision {revision}"))?;
        let (origin, meta) = match revision.era() {
            Era::Legacy => {
                let client = Client {
                    info: info.to_string(),
                    capabilities: capabilities.to_string(),
                    log_level: None,
                };
                (
                    Origin::Legacy {
                        revision,
                        client: Arc::new(client),
                    },
                    None,
                )
            }
            Era::Modern => {
                let meta = json!({
                    "io.modelcontextprotocol/protocolVersion": revision.to_string(),
                    "io.modelcontextprotocol/clientInfo": info,
                    "io.modelcontextprotocol/clientCapabilities": capabilities,
                });
                (Origin::Modern { revision }, Some(meta))
            }
        };
        Ok(Self {
            link,
            origin,
            meta,
            ids: 0,
        })
    }

    /// The tools as the keeper keeps them.
    pub(crate) fn catalog(&self) -> Result<Vec<Value>, Failure> {
        let tools = self.link.listed(List::Tools);
        let tools = tools.ok_or("the keeper knows no tools")?;
        Ok(serde_json::from_slice(&tools.to_json())?)
    }

    pub(crate) async fn list(&mut self, what: &str) -> Result<Vec<Value>, Failure> {
        let Outcome::Result(mut result) = self.request(&format!("{what}/list"), json!({})).await?
        else {
            return Err(format!("{what}/list asked for input").into());
        };
        let list = result
            .get_mut(what)
            .ok_or_else(|| format!("the result has no {what}"))?
            .take();
        Ok(serde_json::from_value(list)?)
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Result<Outcome, Failure> {
        self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
        .await
    }

    pub(crate) async fn request(
        &mut self,
        method: &str,
        mut params: Value,
    ) -> Result<Outcome, Failure> {
        self.ids += 1;
        if let (Some(meta), Some(params)) = (&self.meta, params.as_object_mut()) {
            params.insert("_meta".to_owned(), meta.clone());
        }
        let request =
            json!({ "jsonrpc": "2.0", "id": self.ids, "method": method, "params": params });
        let message = Bytes::from(serde_json::to_vec(&request)?);
        let envelope = envelope::read(&message)?;
        let params = envelope::read_params(&message, &envelope);
        let call = Call {
            message,
            envelope,
            params,
            origin: self.origin.clone(),
        };
        let response = match self.link.call(call, CallHandle::new()).await {
            Answer::Whole { message, .. } => message,
            Answer::Stream(stream) => follow(stream).await?,
            Answer::Failed(failure) => return Err(format!("{method}: {failure:?}").into()),
        };
        let mut response: Value = serde_json::from_slice(&response)?;
        let result = response
            .get_mut("result")
            .ok_or_else(|| format!("{method}: no result"))?
            .take();
        let asks = result.get("resultType").and_then(Value::as_str) == Some("input_required");
        Ok(if asks {
            Outcome::Question(result)
        } else {
            Outcome::Result(result)
        })
    }
}

/// Answers what a server asks outside of any call.
#[derive(Debug)]
pub(crate) struct Standing;

impl Listener for Standing {
    fn is_listened_to(&self, _link: &Link) -> bool {
        true
    }

    fn notification(&self, _link: &Arc<Link>, _message: Bytes) {}

    fn request(&self, _link: &Arc<Link>, request: ServerRequest, _in_flight: &[CallHandle]) {
        // A question that cannot be answered is dropped, and with that refused.
        tokio::spawn(answer(request));
    }

    fn reopened(&self, _link: &Arc<Link>) {}
}

/// The response at the end of a stream; questions on the way are answered.
async fn follow(mut stream: AnswerStream) -> Result<Bytes, Failure> {
    while let Some(message) = stream.next().await {
        match message {
            Message::Notification(_) => {}
            Message::Request(request) => answer(request).await?,
            Message::Response(response) => return Ok(response),
            Message::Failed(failure) => return Err(format!("{failure:?}").into()),
        }
    }
    Err("the stream ended without a response".into())
}

async fn answer(request: ServerRequest) -> Result<(), Failure> {
    let question: Value = serde_json::from_slice(&request.message)?;
    let id = question.get("id").cloned().unwrap_or_default();
    let response = json!({ "jsonrpc": "2.0", "id": id, "result": accept(&question) });
    request
        .answer(Bytes::from(serde_json::to_vec(&response)?))
        .await;
    Ok(())
}

/// The first leg again, with what its result asked for. State that was not given is not given back.
pub(crate) fn second_leg(mut call: Value, question: &Value) -> Value {
    let Some(params) = call.as_object_mut() else {
        return call;
    };
    let requests = question.get("inputRequests").and_then(Value::as_object);
    let responses: Map<String, Value> = requests
        .into_iter()
        .flatten()
        .map(|(key, request)| (key.clone(), accept(request)))
        .collect();
    params.insert("inputResponses".to_owned(), responses.into());
    if let Some(state) = question.get("requestState") {
        params.insert("requestState".to_owned(), state.clone());
    }
    call
}

/// Accepts `elicitation/create`: the default of each field that has one, and yes to each question without.
fn accept(question: &Value) -> Value {
    let properties = question
        .pointer("/params/requestedSchema/properties")
        .and_then(Value::as_object);
    let content: Map<String, Value> = properties
        .into_iter()
        .flatten()
        .filter_map(|(name, schema)| {
            let yes = (schema.get("type") == Some(&json!("boolean"))).then_some(Value::Bool(true));
            Some((name.clone(), schema.get("default").cloned().or(yes)?))
        })
        .collect();
    json!({ "action": "accept", "content": content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_leg_has_state_only_where_the_first_result_had_it() {
        let call = json!({ "name": "t", "arguments": {} });
        let form = json!({ "params": { "requestedSchema": { "properties": { "ok": { "type": "boolean" } } } } });
        let with = json!({ "inputRequests": { "confirm": form }, "requestState": "opaque" });
        let second = second_leg(call.clone(), &with);
        assert_eq!(second["requestState"], "opaque");
        assert_eq!(
            second["inputResponses"]["confirm"],
            json!({ "action": "accept", "content": { "ok": true } })
        );
        let without = json!({ "inputRequests": {} });
        assert_eq!(second_leg(call, &without).get("requestState"), None);
    }

    #[test]
    fn defaults_come_back_as_they_are() {
        let schema =
            json!({ "score": { "type": "number", "default": 95.5 }, "name": { "type": "string" } });
        let question = json!({ "params": { "requestedSchema": { "properties": schema } } });
        assert_eq!(accept(&question)["content"], json!({ "score": 95.5 }));
    }
}
