//! Questions to the client: as results to be retried from 2026-07-28 on (SEP-2322), as server-to-client requests
//! before. A tool only says what it wants to know.
#![allow(
    deprecated,
    reason = "sampling and roots are deprecated by SEP-2577, and still spoken"
)]

use std::collections::BTreeMap;

use futures_util::future::join_all;
use rmcp::model::{
    ClientCapabilities, CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ErrorCode, InputRequest, InputRequests, InputRequiredResult, InputResponses, ListRootsResult,
    ProtocolVersion, RequestStateCodec, SealOptions,
};
use rmcp::service::{RequestContext, ServiceError};
use rmcp::{ErrorData, RoleServer};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::content::from_wire;

pub(crate) type Answers = BTreeMap<String, Value>;

/// What one tool or prompt asks: one map of questions after the other.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dialogue {
    pub(crate) rounds: Vec<InputRequests>,
    /// Answers are carried through the client, sealed, and count only with the seal.
    #[serde(default)]
    sealed: bool,
    /// Leaves out what the client cannot answer, instead of refusing the call.
    #[serde(default)]
    only_supported: bool,
}

/// What came with the request: the answers so far.
#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) responses: Option<InputResponses>,
    pub(crate) state: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Answered(Answers),
    Ask(InputRequiredResult),
}

#[derive(Debug)]
pub(crate) struct Interactions {
    dialogues: BTreeMap<String, Dialogue>,
    codec: RequestStateCodec,
}

impl Interactions {
    pub(crate) fn load() -> Result<Self, Box<dyn std::error::Error>> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self {
            dialogues: serde_json::from_str(include_str!("questions.json"))?,
            codec: RequestStateCodec::try_new(key)?,
        })
    }

    pub(crate) fn dialogue(&self, name: &str) -> Option<Dialogue> {
        self.dialogues.get(name).cloned()
    }

    /// Asks in the way of the client's revision.
    pub(crate) async fn run(
        &self,
        name: &str,
        mut dialogue: Dialogue,
        input: Input,
        context: &RequestContext<RoleServer>,
    ) -> Result<Outcome, ErrorData> {
        let capabilities = context.client_capabilities().unwrap_or_default();
        for round in &mut dialogue.rounds {
            if dialogue.only_supported {
                round.retain(|_, question| supports(&capabilities, question));
            } else if let Some(question) = round
                .values()
                .find(|question| !supports(&capabilities, question))
            {
                return Err(ErrorData::missing_required_client_capability(required_by(
                    question,
                )?));
            }
        }
        if is_modern(context) {
            self.retry(name, dialogue, input)
        } else {
            ask_all(dialogue, context).await.map(Outcome::Answered)
        }
    }

    fn retry(&self, name: &str, dialogue: Dialogue, input: Input) -> Result<Outcome, ErrorData> {
        let context = name.as_bytes();
        let mut answers = match input.state.as_deref().filter(|_| dialogue.sealed) {
            Some(state) => self
                .codec
                .open_json_with::<Answers>(state, context)
                .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?,
            None => Answers::new(),
        };
        let trusted = !dialogue.sealed || input.state.is_some();
        let responses = input.responses.filter(|_| trusted).unwrap_or_default();
        for questions in dialogue.rounds {
            // A missing or wrong answer is asked for again; what was not asked is ignored.
            for (key, question) in &questions {
                if let Some(answer) = responses
                    .get(key)
                    .filter(|answer| answers_it(question, answer))
                {
                    answers.insert(key.clone(), answer.clone());
                }
            }
            let open: InputRequests = questions
                .into_iter()
                .filter(|(key, _)| !answers.contains_key(key))
                .collect();
            if !open.is_empty() {
                let state = dialogue
                    .sealed
                    .then(|| {
                        self.codec
                            .seal_json_with(&answers, &SealOptions::new().associated_data(context))
                    })
                    .transpose()
                    .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                return Ok(Outcome::Ask(InputRequiredResult::new(Some(open), state)));
            }
        }
        Ok(Outcome::Answered(answers))
    }
}

pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|revision| revision.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Asks the questions of one round at a time, as the result that asks them does from 2026-07-28 on.
async fn ask_all(
    dialogue: Dialogue,
    context: &RequestContext<RoleServer>,
) -> Result<Answers, ErrorData> {
    let mut answers = Answers::new();
    for round in dialogue.rounds {
        let asked = round
            .into_iter()
            .map(async |(key, question)| (key, ask(question, context).await));
        for (key, answer) in join_all(asked).await {
            match answer {
                Ok(answer) => {
                    answers.insert(key, answer);
                }
                // What the session declared may be more than whoever is behind the client can answer.
                Err(error)
                    if dialogue.only_supported && error.code == ErrorCode::METHOD_NOT_FOUND => {}
                // What the client answered the question with is not what its own call is answered with.
                Err(error) => {
                    return Err(ErrorData::internal_error(error.message, error.data));
                }
            }
        }
    }
    Ok(answers)
}

/// One server-to-client request; the answer as it came over the wire.
async fn ask(
    question: InputRequest,
    context: &RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let peer = &context.peer;
    let answer = match question {
        InputRequest::Elicitation(request) => peer
            .create_elicitation(request.params)
            .await
            .map(serde_json::to_value),
        InputRequest::CreateMessage(request) => peer
            .create_message(request.params)
            .await
            .map(serde_json::to_value),
        InputRequest::ListRoots(_) => peer.list_roots().await.map(serde_json::to_value),
        other => {
            return Err(ErrorData::internal_error(
                format!("cannot ask {other:?}"),
                None,
            ));
        }
    };
    answer
        .map_err(|error| match error {
            ServiceError::McpError(error) => error,
            error => ErrorData::internal_error(error.to_string(), None),
        })?
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn supports(capabilities: &ClientCapabilities, question: &InputRequest) -> bool {
    match question {
        InputRequest::Elicitation(_) => capabilities.elicitation.is_some(),
        InputRequest::CreateMessage(_) => capabilities.sampling.is_some(),
        InputRequest::ListRoots(_) => capabilities.roots.is_some(),
        _ => false,
    }
}

fn required_by(question: &InputRequest) -> Result<ClientCapabilities, ErrorData> {
    from_wire(match question {
        InputRequest::Elicitation(_) => json!({ "elicitation": {} }),
        InputRequest::CreateMessage(_) => json!({ "sampling": {} }),
        InputRequest::ListRoots(_) => json!({ "roots": {} }),
        _ => json!({}),
    })
}

fn answers_it(question: &InputRequest, answer: &Value) -> bool {
    let answer = answer.clone();
    match question {
        InputRequest::Elicitation(request) => {
            serde_json::from_value(answer).is_ok_and(|answer| fills_in(&request.params, &answer))
        }
        InputRequest::CreateMessage(_) => {
            serde_json::from_value::<CreateMessageResult>(answer).is_ok()
        }
        InputRequest::ListRoots(_) => serde_json::from_value::<ListRootsResult>(answer).is_ok(),
        _ => false,
    }
}

/// Declining is an answer; accepting is one only with every required field.
fn fills_in(form: &ElicitRequestParams, answer: &ElicitResult) -> bool {
    let ElicitRequestParams::FormElicitationParams {
        requested_schema, ..
    } = form
    else {
        return true;
    };
    answer.action != ElicitationAction::Accept
        || requested_schema.required.iter().flatten().all(|field| {
            answer
                .content
                .as_ref()
                .is_some_and(|content| content.get(field).is_some())
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn asked(outcome: Outcome) -> (Vec<String>, Option<String>) {
        let Outcome::Ask(result) = outcome else {
            panic!("expected a question")
        };
        (
            result.input_requests.unwrap().into_keys().collect(),
            result.request_state,
        )
    }

    fn answer(key: &str, content: Value, state: Option<String>) -> Input {
        let response = json!({ "action": "accept", "content": content });
        Input {
            responses: Some([(key.to_owned(), response)].into()),
            state,
        }
    }

    #[test]
    fn every_question_in_the_file_can_be_asked() {
        let interactions = Interactions::load().unwrap();
        for (name, dialogue) in &interactions.dialogues {
            let (asked, _) = asked(
                interactions
                    .retry(name, dialogue.clone(), Input::default())
                    .unwrap(),
            );
            assert!(!asked.is_empty(), "{name}");
        }
    }

    #[test]
    fn sealed_answers_of_one_round_count_in_the_next_and_nowhere_else() {
        let interactions = Interactions::load().unwrap();
        let name = "test_input_required_result_multi_round";
        let dialogue = interactions.dialogue(name).unwrap();
        let run = |name, input| interactions.retry(name, dialogue.clone(), input);

        let (first, state) = asked(run(name, Input::default()).unwrap());
        assert_eq!(first, ["step1"]);
        let unsealed = answer("step1", json!({ "name": "Alice" }), None);
        assert_eq!(asked(run(name, unsealed).unwrap()).0, ["step1"]);
        let sealed = answer("step1", json!({ "name": "Alice" }), state.clone());
        let (second, second_state) = asked(run(name, sealed).unwrap());
        assert_eq!(second, ["step2"]);
        assert_ne!(second_state, state);
        let last = answer("step2", json!({ "color": "blue" }), second_state.clone());
        let Outcome::Answered(answers) = run(name, last).unwrap() else {
            panic!("expected the end")
        };
        assert_eq!(answers["step1"]["content"]["name"], "Alice");

        let elsewhere = answer("step2", json!({ "color": "blue" }), second_state);
        assert!(run("another_tool", elsewhere).is_err());
    }

    #[test]
    fn a_wrong_answer_is_asked_for_again() {
        let interactions = Interactions::load().unwrap();
        let name = "test_input_required_result_elicitation";
        let dialogue = interactions.dialogue(name).unwrap();
        for response in [
            json!(12345),
            json!({ "action": "accept", "content": {} }),
            Value::Null,
        ] {
            let input = Input {
                responses: Some([("user_name".to_owned(), response)].into()),
                state: None,
            };
            let (open, _) = asked(interactions.retry(name, dialogue.clone(), input).unwrap());
            assert_eq!(open, ["user_name"]);
        }
    }
}
