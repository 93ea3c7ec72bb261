//! One leg of a modern agent's call: its stream, which ends with the response or, where a legacy server asks
//! something, with an `input_required` result (2026-07-28 basic/patterns/mrtr); and the second leg, which
//! goes on with the same call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;
use steadfast::{CallHandle, Failure, Link, Reply, ServerRequest};
use steadfast_core::bridge::questions;
use steadfast_core::question::Refusal;
use steadfast_core::wire::{envelope, sse};
use steadfast_core::{Era, Revision, code};
use steadfast_store::{ParkedCallRecord, ParkedQuestion};
use tokio::time::Sleep;

use super::parked::{self, Binding, Found, Keyed, Parked};
use super::{call_of, respond, whole_status};
use crate::Gate;
use crate::agents::calling::{About, Calling, Listening, Next, failed};
use crate::agents::inbound::Inbound;
use crate::agents::legacy::{json_answer, store_failed};
use crate::agents::render;
use crate::agents::stream_body::{self, Source};
use crate::body::Body;
use crate::problem::{INVALID_PARAMS, MISSING_CAPABILITY, code_data, rpc_error, status_only};

/// A call that is being parked: the state for its agent, or the call itself.
type BeingParked = Pin<Box<dyn Future<Output = Result<Bytes, (Calling, Asking)>> + Send>>;

/// How long the head of the response waits for the first message of a legacy server's stream: what is refused
/// because of what it asks for is refused before anything is done.
const HEAD: Duration = Duration::from_secs(1);

/// How long further questions are waited for: a server that asks several things at a time says so in
/// several messages.
const GATHERING: Duration = Duration::from_millis(50);

enum Phase {
    Reading(Calling),
    Gathering(Calling, Vec<Keyed>, Pin<Box<Sleep>>),
    Parking(BeingParked),
    Ended,
}

/// The stream of one leg: no ids, for such streams cannot be resumed.
pub(super) struct Leg {
    phase: Phase,
    /// `None` on a modern server, which never asks so.
    asking: Option<Asking>,
    /// What was read before the stream began.
    held: Option<Out>,
    /// What the server wanted to ask an agent that did not say that it can answer that.
    unable: Option<questions::Kind>,
}

/// What comes for the agent.
enum Out {
    /// More comes after it.
    Message(Bytes),
    /// The response.
    Last(Bytes),
    /// The end, where there is no response.
    End,
}

/// What is needed to ask the agent something in the middle of its call.
pub(super) struct Asking {
    gate: Arc<Gate>,
    link: Arc<Link>,
    /// The leg's request.
    inbound: Box<Inbound>,
}

impl Source for Leg {
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<bool> {
        let next = match self.held.take() {
            Some(held) => held,
            None => ready!(self.poll_next(cx)),
        };
        Poll::Ready(match next {
            Out::Message(message) => {
                write(out, &message);
                true
            }
            Out::Last(message) => {
                write(out, &message);
                false
            }
            Out::End => false,
        })
    }
}

impl Leg {
    pub(super) fn reading(calling: Calling, asking: Option<Asking>) -> Self {
        Self {
            phase: Phase::Reading(calling),
            asking,
            held: None,
            unable: None,
        }
    }

    /// The answer that streams this leg. Where a legacy server refuses at once, which it says in its stream, its
    /// agent is told by the status too.
    pub(super) async fn response(mut self, keep_alive: Duration) -> Response<Body> {
        if self.asking.is_some() {
            let first = std::future::poll_fn(|cx| self.poll_next(cx));
            // ST-07: the connection is not silent for longer than any other.
            match tokio::time::timeout(HEAD.min(keep_alive), first).await {
                Ok(Out::Last(message)) => {
                    let status = whole_status(200, &message, true);
                    if status != StatusCode::OK {
                        return json_answer(status, message);
                    }
                    self.held = Some(Out::Last(message));
                }
                Ok(out) => self.held = Some(out),
                Err(_) => {}
            }
        }
        stream_body::response(self, keep_alive)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Out> {
        loop {
            let next = match &mut self.phase {
                Phase::Ended => return Poll::Ready(Out::End),
                Phase::Parking(parking) => match ready!(parking.as_mut().poll(cx)) {
                    Ok(message) => {
                        self.phase = Phase::Ended;
                        return Poll::Ready(Out::Last(message));
                    }
                    Err((calling, asking)) => {
                        self.phase = Phase::Reading(calling);
                        self.asking = Some(asking);
                        continue;
                    }
                },
                Phase::Reading(calling) => ready!(calling.poll_next(cx)),
                Phase::Gathering(calling, _, time) => match calling.poll_next(cx) {
                    Poll::Ready(next) => next,
                    Poll::Pending => {
                        ready!(time.as_mut().poll(cx));
                        self.park();
                        continue;
                    }
                },
            };
            return Poll::Ready(match next {
                Next::Message(message) => Out::Message(message),
                // Also where it did not wait for the answers.
                Next::Last(message) => Out::Last(self.or_missing(message)),
                Next::End => Out::End,
                Next::Question(question) => {
                    self.take(question);
                    continue;
                }
            });
        }
    }

    /// The response; or, where the call failed after a question that the agent cannot answer, what this era has
    /// for that (2026-07-28 basic/index, "Per-request protocol fields": -32021 with what is missing).
    fn or_missing(&self, message: Bytes) -> Bytes {
        let (Some(kind), Some(asking)) = (self.unable, &self.asking) else {
            return message;
        };
        let read = envelope::read(&message).ok();
        let error = read.and_then(|read| envelope::read_error(&message, &read));
        let Some((_, said)) = error else {
            return message;
        };
        let capability = kind.capability();
        let text = format!(
            "The call needs an agent with the capability `{capability}`, and this request declares none. \
             The server says: {said}"
        );
        let data = json!({ "requiredCapabilities": { capability: {} } });
        rpc_error(
            asking.inbound.raw_id(),
            MISSING_CAPABILITY,
            &text,
            Some(&data),
        )
    }

    /// Takes a question that the agent can answer, and refuses any other at once.
    fn take(&mut self, question: ServerRequest) {
        // mrtr, "Server Requirements" 2: an input request is one of three kinds.
        let kind = questions::Kind::of(&question.method());
        let able = match &self.asking {
            Some(asking) if kind.is_some() => question.check(asking.capabilities()),
            Some(_) | None => Err(Refusal::Unable),
        };
        if let Err(refusal) = able {
            if refusal == Refusal::Unable {
                self.unable = kind;
            }
            return question.refuse(refusal);
        }
        self.phase = match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Reading(calling) => {
                let time = Box::pin(tokio::time::sleep(GATHERING));
                Phase::Gathering(calling, vec![keyed(1, question)], time)
            }
            Phase::Gathering(calling, mut asked, time) => {
                asked.push(keyed(asked.len() + 1, question));
                Phase::Gathering(calling, asked, time)
            }
            phase @ (Phase::Parking(_) | Phase::Ended) => phase,
        };
    }

    fn park(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        self.phase = match (phase, self.asking.take()) {
            (Phase::Gathering(calling, asked, _), Some(asking)) => {
                Phase::Parking(Box::pin(asking.park(calling, asked)))
            }
            (phase, _) => phase,
        };
    }
}

fn keyed(number: usize, question: ServerRequest) -> Keyed {
    Keyed {
        key: number.to_string(),
        question,
    }
}

impl Asking {
    pub(super) fn of(gate: &Arc<Gate>, link: &Arc<Link>, inbound: Box<Inbound>) -> Self {
        Self {
            gate: Arc::clone(gate),
            link: Arc::clone(link),
            inbound,
        }
    }

    /// What the agent declared with this request.
    fn capabilities(&self) -> &[u8] {
        let declared = self.inbound.params.client_capabilities.as_ref();
        self.inbound.part(declared).unwrap_or_default()
    }

    /// Parks the call; the `input_required` response for this leg.
    async fn park(self, calling: Calling, asked: Vec<Keyed>) -> Result<Bytes, (Calling, Self)> {
        let messages: Vec<(String, Bytes)> = asked
            .iter()
            .map(|it| (it.key.clone(), it.question.message.clone()))
            .collect();
        let binding = Binding::of(&self.link, &self.inbound);
        let parking = Arc::clone(&self.gate.parking);
        let state = match parking.park(calling, asked, binding).await {
            Ok(state) => state,
            Err(calling) => return Err((calling, self)),
        };
        let messages: Vec<(&str, &[u8])> = messages
            .iter()
            .map(|(key, message)| (key.as_str(), &message[..]))
            .collect();
        let id = self.inbound.raw_id().unwrap_or(b"null");
        Ok(render::result(id, &questions::ask(&messages, &state)))
    }
}

fn write(out: &mut Vec<u8>, message: &[u8]) {
    out.reserve(message.len() + 16);
    sse::encode(out, None, None, message);
}

/// Whether a request is a later leg of a call.
pub(super) fn is_later(inbound: &Inbound) -> bool {
    inbound.params.request_state.is_some() || inbound.params.input_responses.is_some()
}

/// Whether the state of a later leg is one of ours, and not the server's own. A call is never sent anew only
/// because nobody knows yet which era its server speaks.
pub(super) async fn is_ours(gate: &Gate, link: &Link) -> bool {
    if link.hello().is_none() {
        link.connected(gate.settings.hello_wait).await;
    }
    link.hello().is_none_or(|hello| hello.era() == Era::Legacy)
}

/// Goes on with the call that its state stands for. Nothing of it is sent again.
pub(super) async fn go_on(
    gate: &Arc<Gate>,
    link: &Arc<Link>,
    inbound: Box<Inbound>,
    revision: Revision,
) -> Response<Body> {
    let Some(about) = About::of(&inbound, Era::Modern) else {
        return status_only(StatusCode::BAD_REQUEST);
    };
    let binding = Binding::of(link, &inbound);
    let found = match inbound.text(inbound.params.request_state.as_ref()) {
        Some(state) => gate.parking.find(&state, &binding).await,
        None => Ok(None),
    };
    let record = match found {
        Ok(Some(Found::Here(parked))) => {
            let asking = Asking::of(gate, link, inbound.clone());
            return here(*parked, about, asking, *inbound, revision);
        }
        Ok(Some(Found::OnRecord(record))) => record,
        Ok(None) if link.hello().is_none() => return unavailable(&about, link),
        Ok(None) => return unknown_state(&about),
        Err(error) => return store_failed(Some(&about.id), &error),
    };
    // The process may have just begun. While the server is not there the state stays good.
    if !link.connected(gate.settings.hello_wait).await {
        return unavailable(&about, link);
    }
    match gate.parking.claim(&record).await {
        Ok(true) => {
            let replies = replies(&record, &inbound);
            let asking = Asking::of(gate, link, inbound.clone());
            let (call, handle) = (call_of(*inbound, revision), CallHandle::new());
            let listening = Listening::to(handle.clone());
            let answer = link.take_up(call, handle, parked::place(&record), replies);
            respond(gate, answer.await, listening, about, link, Some(asking)).await
        }
        Ok(false) => unknown_state(&about),
        Err(error) => store_failed(Some(&about.id), &error),
    }
}

fn unavailable(about: &About, link: &Arc<Link>) -> Response<Body> {
    let down = Failure::Unavailable(Box::new(link.report()));
    let message = failed(about, link, &down);
    message.map_or_else(
        || status_only(StatusCode::ACCEPTED),
        |message| json_answer(StatusCode::OK, message),
    )
}

fn unknown_state(about: &About) -> Response<Body> {
    let text = "this requestState is not known here for this call: it is of another call, was used \
                already, or waited too long";
    let data = code_data(code::UNKNOWN_REQUEST_STATE);
    let error = rpc_error(Some(&about.id), INVALID_PARAMS, text, Some(&data));
    json_answer(StatusCode::OK, error)
}

/// Answers the server's questions and reads on. What the agent left out it is asked again (mrtr, "Error
/// Handling").
fn here(
    parked: Parked,
    about: About,
    asking: Asking,
    inbound: Inbound,
    revision: Revision,
) -> Response<Body> {
    let keep_alive = asking.gate.settings.keep_alive;
    let Parked {
        mut calling,
        questions,
        ..
    } = parked;
    let mut answered = Vec::new();
    let mut open = Vec::new();
    for keyed in questions {
        match answer_to(&inbound, &keyed.key) {
            Some(result) => answered.push((keyed.question, questions::response("0", result))),
            None => open.push(keyed),
        }
    }
    tokio::spawn(async move {
        for (question, response) in answered {
            question.answer(response.into()).await;
        }
    });
    calling.continue_as(about, call_of(inbound, revision));
    let mut leg = Leg::reading(calling, Some(asking));
    for keyed in open {
        leg.take(keyed.question);
    }
    stream_body::response(leg, keep_alive)
}

fn answer_to<'i>(inbound: &'i Inbound, key: &str) -> Option<&'i [u8]> {
    let responses = inbound.params.input_responses.clone()?;
    questions::answer_in(&inbound.message, responses, key)
}

fn replies(record: &ParkedCallRecord, inbound: &Inbound) -> Vec<Reply> {
    let reply = |question: &ParkedQuestion| Reply {
        id: question.id.clone(),
        method: question.method.clone(),
        result: answer_to(inbound, &question.key)
            .map(|result| String::from_utf8_lossy(result).into_owned()),
    };
    record.questions.iter().map(reply).collect()
}
