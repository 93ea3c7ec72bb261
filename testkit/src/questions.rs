//! A tool that asks its client: by requests on the stream of the call in the legacy era, by results and
//! further legs in the modern one.

use serde_json::{Value, json};

use crate::tool::{Run, refusal, text};

/// A question of the server's.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its key among the `inputRequests` of a modern server.
    pub key: String,
    /// Its method.
    pub method: String,
    /// Its params.
    pub params: Value,
}

impl Question {
    /// Any question.
    #[must_use]
    pub fn new(key: &str, method: &str, params: Value) -> Self {
        Self {
            key: key.to_owned(),
            method: method.to_owned(),
            params,
        }
    }

    /// `elicitation/create` with a form.
    #[must_use]
    pub fn form(key: &str, message: &str) -> Self {
        let schema = json!({ "type": "object", "properties": { "room": { "type": "string" } } });
        let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        Self::new(key, "elicitation/create", params)
    }

    /// `sampling/createMessage`.
    #[must_use]
    pub fn sampling(key: &str) -> Self {
        let content = json!({ "type": "text", "text": "What is the capital of France?" });
        let messages = json!([{ "role": "user", "content": content }]);
        let params = json!({ "messages": messages, "maxTokens": 100 });
        Self::new(key, "sampling/createMessage", params)
    }

    /// `roots/list`.
    #[must_use]
    pub fn roots(key: &str) -> Self {
        Self::new(key, "roots/list", json!({}))
    }
}

impl Run {
    pub(crate) async fn ask_rounds(&self, rounds: &[Vec<Question>]) -> Value {
        if self.session.is_none() {
            return self.next_round(rounds);
        }
        let mut said = Value::Null;
        for (number, round) in rounds.iter().enumerate() {
            said = match self.ask_all(round).await {
                Ok(answers) => answers,
                Err(refused) => return refused,
            };
            self.report(number + 1, rounds.len());
        }
        text(&said.to_string())
    }

    /// Legacy: requests of the server's own on the stream of the call.
    async fn ask_all(&self, round: &[Question]) -> Result<Value, Value> {
        let Some(session) = &self.session else {
            return Ok(Value::Null);
        };
        let mut waiting = Vec::new();
        for question in round {
            let (id, answer) = session.question();
            let (method, params) = (&question.method, &question.params);
            self.outbox
                .push(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
            waiting.push((&question.key, answer));
        }
        let mut said = json!({});
        for (key, answer) in waiting {
            let response = answer.await;
            let response = response.map_err(|_| refusal("the question was dropped"))?;
            match response.get("error") {
                Some(error) => return Err(refusal(&error.to_string())),
                None => said[key] = response["result"].clone(),
            }
        }
        Ok(said)
    }

    /// Modern: the state says which round it was.
    fn next_round(&self, rounds: &[Vec<Question>]) -> Value {
        let state = self.request.pointer("/params/requestState");
        let number: usize = state
            .and_then(Value::as_str)
            .and_then(|state| state.strip_prefix("round ")?.parse().ok())
            .unwrap_or(0);
        if number > 0 {
            self.report(number, rounds.len());
        }
        let Some(round) = rounds.get(number) else {
            let said = self.request.pointer("/params/inputResponses");
            return text(&said.unwrap_or(&Value::Null).to_string());
        };
        let state = format!("round {}", number + 1);
        let mut result = json!({ "resultType": "input_required", "requestState": state });
        for question in round {
            let (method, params) = (&question.method, &question.params);
            result["inputRequests"][&question.key] = json!({ "method": method, "params": params });
        }
        result
    }

    fn report(&self, round: usize, rounds: usize) {
        self.progress(round as u64, rounds as u64);
        let data = format!("round {round} is done");
        let params = json!({ "level": "info", "data": data });
        let wanted = self.session.is_some()
            || self
                .request
                .pointer("/params/_meta/io.modelcontextprotocol~1logLevel")
                .is_some();
        if wanted {
            let method = "notifications/message";
            self.outbox
                .push(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        }
    }
}
