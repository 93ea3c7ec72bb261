//! A server's question to its agent (elicitation, sampling, roots). In the legacy era it is a request
//! of the server's own on the stream of the call that caused it; in the modern one the call is answered
//! with an `input_required` result, and the agent sends it once more with the answers: the second leg
//! (2026-07-28 basic/patterns/mrtr).
//!
//! | from | to | by |
//! | --- | --- | --- |
//! | `input_required` result | requests to a legacy agent | [`input_required`], [`Question::request`] |
//! | their answers | the second leg to the modern server | [`InputRequired::second_leg`] |
//! | requests of a legacy server | `input_required` result | [`ask`] |
//! | a modern agent's second leg | answers to the legacy server | [`answer_in`], [`response`] |

use std::ops::Range;

use serde_json::Value;

use super::{change, is_object, last_member, members_named, object_of, result_object, without};
use crate::now::Millis;
use crate::wire::envelope::Envelope;
use crate::wire::{envelope, json, splice};

const INPUT_RESPONSES: &str = "inputResponses";
const REQUEST_STATE: &str = "requestState";

/// What a server may ask an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `elicitation/create`: the person.
    Elicitation,
    /// `sampling/createMessage`: the model.
    Sampling,
    /// `roots/list`: the agent itself.
    Roots,
}

impl Kind {
    /// By its method.
    #[must_use]
    pub fn of(method: &str) -> Option<Self> {
        [Self::Elicitation, Self::Sampling, Self::Roots]
            .into_iter()
            .find(|kind| kind.method() == method)
    }

    /// Its method.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// The capability of an agent that answers it.
    #[must_use]
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }

    /// The result that says that nobody answered; `None` where only an error can say that.
    #[must_use]
    pub const fn unanswered(self) -> Option<&'static str> {
        match self {
            // client/elicitation, "Response Actions": "dismissed without making an explicit choice".
            Self::Elicitation => Some(r#"{"action":"cancel"}"#),
            Self::Sampling | Self::Roots => None,
        }
    }
}

/// What a modern server wants to know before it goes on with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequired {
    /// `inputRequests`, in their order.
    pub questions: Vec<Question>,
    /// `requestState`: a raw JSON string that only the server understands.
    pub state: Option<String>,
}

/// One of `inputRequests`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its key: a raw JSON string.
    key: String,
    /// What it is about.
    pub kind: Kind,
    /// Its params, as raw JSON.
    params: Option<String>,
}

/// Reads an `input_required` result. `None` where the message is none; an error says in one clause why
/// it cannot be followed.
#[must_use]
pub fn input_required(message: &[u8]) -> Option<Result<InputRequired, &'static str>> {
    let result = result_object(message)?;
    let kind = last_member(message, result.clone(), "resultType")?;
    json::is_text(message, kind.value, "input_required").then(|| read_input(message, result))
}

fn read_input(message: &[u8], result: Range<usize>) -> Result<InputRequired, &'static str> {
    let state = last_member(message, result.clone(), REQUEST_STATE)
        .map(|member| member.value)
        .filter(|value| message.get(value.start) == Some(&b'"'))
        .and_then(|value| raw(message, value));
    let mut questions = Vec::new();
    let mut invalid = false;
    if let Some(requests) = last_member(message, result, "inputRequests") {
        let read = json::members(message, requests.value, |member| {
            match question(message, &member) {
                Some(question) => questions.push(question),
                None => invalid = true,
            }
        });
        invalid |= read.is_err();
    }
    if invalid {
        return Err("the server asks for input of a kind that this revision does not know");
    }
    // mrtr, "Server Requirements": "MUST include at least one of inputRequests or requestState".
    if questions.is_empty() && state.is_none() {
        return Err("the server asks for input and does not say which");
    }
    Ok(InputRequired { questions, state })
}

fn question(message: &[u8], member: &json::Member) -> Option<Question> {
    let request = member.value.clone();
    let method = json::at_path(message, request.clone(), &["method"])?;
    let params = json::at_path(message, request, &["params"]);
    Some(Question {
        key: raw(message, member.key.clone())?,
        kind: Kind::of(&json::text(message, method)?)?,
        params: params.and_then(|params| raw(message, params)),
    })
}

fn raw(source: &[u8], range: Range<usize>) -> Option<String> {
    String::from_utf8(source.get(range)?.to_vec()).ok()
}

impl Question {
    /// The request to a legacy agent, with this id (raw JSON). Where a person is sent to a page the
    /// legacy era wants an id for that as well (2025-11-25 client/elicitation, "Requesting User Input").
    #[must_use]
    pub fn request(&self, id: &str, elicitation_id: &str) -> Vec<u8> {
        let method = splice::quote(self.kind.method());
        let params = self.params.as_deref().map(|params| {
            let is_page = self.kind == Kind::Elicitation && mode_is_url(params.as_bytes());
            if !is_page
                || last_member(params.as_bytes(), 0..params.len(), "elicitationId").is_some()
            {
                return params.as_bytes().to_vec();
            }
            let quoted = splice::quote(elicitation_id);
            change(
                params.as_bytes(),
                0..params.len(),
                &[],
                &[("elicitationId", &quoted)],
            )
        });
        let mut message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}"#).into_bytes();
        if let Some(params) = params {
            message.extend_from_slice(br#","params":"#);
            message.extend_from_slice(&params);
        }
        message.push(b'}');
        message
    }
}

fn mode_is_url(params: &[u8]) -> bool {
    json::at_path(params, 0..params.len(), &["mode"])
        .is_some_and(|mode| json::is_text(params, mode, "url"))
}

impl InputRequired {
    /// The second leg: the original request with the answers (raw JSON results, in the order of the
    /// questions) and the server's state in `params`, and nothing else changed. What an earlier leg
    /// left there is replaced: "The client MUST NOT include" a state that the last result did not have.
    #[must_use]
    pub fn second_leg(&self, request: &[u8], answers: &[String]) -> Vec<u8> {
        let pairs: Vec<String> = self
            .questions
            .iter()
            .zip(answers)
            .map(|(question, answer)| format!("{}:{answer}", question.key))
            .collect();
        let responses = format!("{{{}}}", pairs.join(","));
        let mut add = Vec::new();
        if !pairs.is_empty() {
            add.push((INPUT_RESPONSES, responses.as_str()));
        }
        add.extend(self.state.as_deref().map(|state| (REQUEST_STATE, state)));
        let Some(params) = last_member(request, 0..request.len(), "params") else {
            return change(
                request,
                0..request.len(),
                &[],
                &[("params", &object_of(&add))],
            );
        };
        if !is_object(request, &params.value) {
            return request.to_vec();
        }
        let stale = members_named(
            request,
            params.value.clone(),
            &[INPUT_RESPONSES, REQUEST_STATE],
        );
        change(request, params.value, &stale, &add)
    }
}

/// The most legs that one call may have: a server that never has enough is not asked for ever.
pub const MOST_LEGS: u32 = 32;

/// How long to wait before leg `leg` (the second is 2) where the last result only had a state: "the client
/// MAY retry the original request immediately", and not again and again without a pause.
#[must_use]
pub fn pause_before(leg: u32) -> Millis {
    const LONGEST: Millis = Millis::secs(5);
    match leg {
        0..=2 => Millis::ZERO,
        later => Millis(100 << (later - 3).min(10)).min(LONGEST),
    }
}

/// The `input_required` result for requests of a legacy server, each under its key. `state` comes back
/// with the second leg.
#[must_use]
pub fn ask(questions: &[(&str, &[u8])], state: &str) -> Vec<u8> {
    let mut out = br#"{"resultType":"input_required","inputRequests":{"#.to_vec();
    for (at, (key, message)) in questions.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(splice::quote(key).as_bytes());
        out.extend_from_slice(br#":{"method":"#);
        let read = envelope::read(message).ok();
        let method = read
            .as_ref()
            .map(|read| read.method(message))
            .unwrap_or_default();
        out.extend_from_slice(splice::quote(&method).as_bytes());
        let params = read
            .and_then(|read| read.params)
            .and_then(|range| message.get(range));
        if let Some(params) = params {
            out.extend_from_slice(br#","params":"#);
            out.extend_from_slice(&params_to_modern(params));
        }
        out.push(b'}');
    }
    out.extend_from_slice(br#"},"requestState":"#);
    out.extend_from_slice(splice::quote(state).as_bytes());
    out.push(b'}');
    out
}

/// What the modern era has no more goes: the id of a page that a person is sent to and the task that a
/// request would become (2026-07-28 changelog, minor 11 and major 6), and the token for progress, which nobody
/// could report.
fn params_to_modern(params: &[u8]) -> Vec<u8> {
    let whole = 0..params.len();
    let mut gone = vec!["task"];
    if mode_is_url(params) {
        gone.push("elicitationId");
    }
    let cut = members_named(params, whole.clone(), &gone);
    let params = change(params, whole, &cut, &[]);
    let Some(meta) = last_member(&params, 0..params.len(), "_meta") else {
        return params;
    };
    let token = members_named(&params, meta.value.clone(), &["progressToken"]);
    without(&params, 0..params.len(), meta, &token)
}

/// The answer (raw JSON) under a key of `inputResponses`. `None` where there is none, or none that could
/// be a result.
#[must_use]
pub fn answer_in<'a>(message: &'a [u8], responses: Range<usize>, key: &str) -> Option<&'a [u8]> {
    let answer = json::at_path(message, responses, &[key])?;
    is_object(message, &answer).then(|| message.get(answer))?
}

/// The response that answers a legacy server's request: both are raw JSON.
#[must_use]
pub fn response(id: &str, result: &[u8]) -> Vec<u8> {
    let mut out = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#).into_bytes();
    out.extend_from_slice(result);
    out.push(b'}');
    out
}

/// What all legs of one call have in common: its method, and its params without `_meta`,
/// `inputResponses` and `requestState`. An agent may write them down anew for each leg, so that neither
/// white space nor the order of members counts.
#[must_use]
pub fn common_part(message: &[u8], read: &Envelope) -> Vec<u8> {
    let params = read.params.clone().and_then(|range| message.get(range));
    let mut out = read.method(message).into_owned().into_bytes();
    out.push(b'\n');
    let Some(params) = params else {
        return out;
    };
    let mine = ["_meta", INPUT_RESPONSES, REQUEST_STATE];
    let cut = members_named(params, 0..params.len(), &mine);
    let bare = change(params, 0..params.len(), &cut, &[]);
    match serde_json::from_slice::<Value>(&bare) {
        Ok(mut value) => {
            value.sort_all_objects();
            out.extend_from_slice(value.to_string().as_bytes());
        }
        // Deeper than the reader goes: then it must come back byte for byte.
        Err(_) => out.extend_from_slice(&bare),
    }
    out
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
