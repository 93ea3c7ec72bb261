//! A client of the session era (2025-03-26 to 2025-11-25). The session is ours to keep: where the gateway does not know it
//! any more, it is opened anew with what the client said of itself, and the client does not notice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use steadfast_core::wire::{envelope, json as raw};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::Out;
use super::door::{Door, Heard};
use super::message::{Message, answers};
use super::told;
use crate::client::Events;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const CURSOR: HeaderName = HeaderName::from_static("last-event-id");

/// How soon the listening stream is asked for again.
const LISTEN_AGAIN: Duration = Duration::from_millis(500);
/// How often the rest of a broken answer is asked for.
const RESUMES: usize = 5;
/// How often a request that changes nothing is sent again.
const REPEATS: usize = 5;
/// How long the end of a session may take.
const CLOSE: Duration = Duration::from_secs(1);

/// One session of the client's.
pub(super) struct Legacy {
    door: Arc<Door>,
    out: Out,
    /// `initialize`, as the client wrote it.
    hello: Message,
    /// Held while one is opened.
    session: Mutex<Session>,
    listening: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Clone, Default)]
struct Session {
    /// Which one it is, of those that were opened for the client.
    number: u64,
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// `notifications/initialized`, once the client has sent it.
    initialized: Option<Bytes>,
}

impl Session {
    fn mark(&self, headers: &mut HeaderMap) {
        headers.extend(self.id.clone().map(|id| (SESSION, id)));
        headers.extend(self.version.clone().map(|version| (VERSION, version)));
    }

    /// 2025-11-25 transports, "Sending Messages to the Server" 2: both must be listed.
    fn post(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
        self.mark(&mut headers);
        headers
    }

    fn get(&self, cursor: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.mark(&mut headers);
        let cursor = cursor.and_then(|cursor| HeaderValue::try_from(cursor).ok());
        headers.extend(cursor.map(|cursor| (CURSOR, cursor)));
        headers
    }
}

impl Legacy {
    /// Opens a session; the client gets the answer.
    pub(super) async fn open(door: Arc<Door>, out: Out, hello: Message) -> Arc<Self> {
        let legacy = Arc::new(Self {
            door,
            out,
            hello,
            session: Mutex::default(),
            listening: Mutex::default(),
        });
        let answer = {
            let mut session = legacy.session.lock().await;
            legacy.shake_hands(&mut session).await
        };
        legacy
            .say(match answer {
                Ok(answer) => Some(answer),
                Err(told) => told,
            })
            .await;
        legacy
    }

    /// Says hello in the client's words. The gateway's answer.
    ///
    /// # Errors
    ///
    /// What the client is told where there is none.
    async fn shake_hands(&self, session: &mut Session) -> Result<Vec<u8>, Option<Vec<u8>>> {
        let hello = &self.hello;
        let headers = Session::default().post();
        let mut tries = 0;
        let response = loop {
            match self
                .door
                .send(&Method::POST, &headers, Some(&hello.bytes))
                .await
            {
                Heard::Answered(response) => break response,
                Heard::Unsent(failure) => return Err(told::unsent(hello, &failure)),
                // A session that nobody knows of ends by itself.
                Heard::Lost if tries < REPEATS => tries += 1,
                Heard::Lost => return Err(told::lost(hello, false)),
            }
        };
        let (status, id) = (response.status(), response.headers().get(&SESSION).cloned());
        let answer = whole_answer(response, hello).await;
        if !answers(&answer, hello.id().as_ref()) {
            return Err(told::refused(hello, status.as_u16(), &answer));
        }
        session.number += 1;
        session.id = id;
        session.version = version(&answer);
        Ok(answer)
    }

    /// The gateway knows this session no more: opens another one, once, whoever asks. Whether there is one.
    async fn reopen(&self, number: u64) -> bool {
        let mut session = self.session.lock().await;
        if session.number != number {
            return true;
        }
        if self.shake_hands(&mut session).await.is_err() {
            return false;
        }
        if let Some(initialized) = session.initialized.clone() {
            self.send(&session, &initialized).await;
        }
        true
    }

    async fn send(&self, session: &Session, body: &Bytes) -> Heard {
        let headers = session.post();
        self.door.send(&Method::POST, &headers, Some(body)).await
    }

    /// Sends a notification or an answer. What was asked in a session that is gone needs no answer any more.
    pub(super) async fn post(self: &Arc<Self>, message: Message) {
        let is_ready = message.method() == "notifications/initialized";
        let session = {
            let mut session = self.session.lock().await;
            if is_ready {
                session.initialized = Some(message.bytes.clone());
            }
            session.clone()
        };
        if let Heard::Unsent(failure) = self.send(&session, &message.bytes).await {
            tracing::warn!(?failure, "a notification was not sent");
        }
        if is_ready {
            let listening = tokio::spawn(Arc::clone(self).listen());
            if let Some(before) = self.listening.lock().await.replace(listening) {
                before.abort();
            }
        }
    }

    /// Sends a request, and passes on what comes.
    pub(super) async fn ask(&self, message: Message) {
        let mut repeats = 0;
        let mut was_reopened = false;
        let told = loop {
            let session = self.session.lock().await.clone();
            match self.send(&session, &message.bytes).await {
                Heard::Unsent(failure) => break told::unsent(&message, &failure),
                Heard::Answered(response) => {
                    // 2025-11-25 transports, "Session Management" 3 and 4: refused before anything was done with it.
                    let is_gone = response.status() == StatusCode::NOT_FOUND;
                    if is_gone && session.id.is_some() && !was_reopened {
                        was_reopened = true;
                        self.reopen(session.number).await;
                        continue;
                    }
                    match self.pass_on(response, &message, &session).await {
                        Passed::Whole => return,
                        Passed::Told(told) => break told,
                        Passed::Broken => {}
                    }
                }
                Heard::Lost => {}
            }
            if !message.may_be_repeated() || repeats >= REPEATS {
                break told::lost(&message, false);
            }
            repeats += 1;
        };
        self.say(told).await;
    }

    /// Passes on an answer as it comes, and asks for its rest where it breaks off.
    async fn pass_on(
        &self,
        response: Response<Incoming>,
        message: &Message,
        session: &Session,
    ) -> Passed {
        let status = response.status();
        if !is_stream(&response) {
            let Ok(body) = response.into_body().collect().await else {
                return Passed::Broken;
            };
            let body = body.to_bytes();
            // A batch is answered with one, or with nothing where it asked nothing.
            let is_batch = message.kind().is_none() && status.is_success();
            if body.is_empty() && is_batch {
                return Passed::Whole;
            }
            if is_batch || answers(&body, message.id().as_ref()) {
                self.say(Some(body.to_vec())).await;
                return Passed::Whole;
            }
            return Passed::Told(told::refused(message, status.as_u16(), &body));
        }
        let mut cursor = None;
        let mut events = Events::of(response);
        for _ in 0..=RESUMES {
            if self.drain(&mut events, &mut cursor, Some(message)).await {
                return Passed::Whole;
            }
            // The end of a stream that answers a batch is the end of its answers.
            if message.kind().is_none() {
                return Passed::Whole;
            }
            let Some(from) = cursor.as_deref() else {
                return Passed::Broken;
            };
            match self
                .door
                .send(&Method::GET, &session.get(Some(from)), None)
                .await
            {
                Heard::Answered(rest) if is_stream(&rest) => events = Events::of(rest),
                // The events are not kept any more, or whoever kept them is gone.
                Heard::Answered(_) | Heard::Unsent(_) => return Passed::Broken,
                Heard::Lost => {}
            }
        }
        Passed::Broken
    }

    /// Passes on events to their end. Whether the answer to `message` was among them.
    async fn drain(
        &self,
        events: &mut Events,
        cursor: &mut Option<String>,
        message: Option<&Message>,
    ) -> bool {
        while let Some(event) = events.next_event().await {
            if event.id.is_some() {
                *cursor = event.id;
            }
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            let is_answer = message.is_some_and(|asked| answers(&data, asked.id().as_ref()));
            self.say(Some(data)).await;
            if is_answer {
                return true;
            }
        }
        false
    }

    /// Listens to what servers say by themselves (2025-11-25 transports, "Listening for Messages from the Server").
    async fn listen(self: Arc<Self>) {
        let mut heard_in = 0;
        let mut cursor = None;
        loop {
            let session = self.session.lock().await.clone();
            if session.number != heard_in {
                cursor = None;
                heard_in = session.number;
            }
            let headers = session.get(cursor.as_deref());
            match self.door.send(&Method::GET, &headers, None).await {
                Heard::Answered(response) if is_stream(&response) => {
                    self.drain(&mut Events::of(response), &mut cursor, None)
                        .await;
                }
                Heard::Answered(response) => match response.status() {
                    StatusCode::METHOD_NOT_ALLOWED => return,
                    StatusCode::NOT_FOUND if session.id.is_some() => {
                        self.reopen(session.number).await;
                    }
                    // The events after that one are not kept any more.
                    _ => cursor = None,
                },
                Heard::Unsent(_) | Heard::Lost => {}
            }
            tokio::time::sleep(LISTEN_AGAIN).await;
        }
    }

    async fn say(&self, message: Option<Vec<u8>>) {
        if let Some(message) = message {
            // Where the client is gone, everything ends.
            let _ = self.out.send(message).await;
        }
    }

    /// Ends the session (2025-11-25 transports, "Session Management" 5), within a moment.
    pub(super) async fn close(&self) {
        if let Some(listening) = self.listening.lock().await.take() {
            listening.abort();
        }
        let end = async {
            let session = self.session.lock().await.clone();
            if session.id.is_some() {
                let mut headers = HeaderMap::new();
                session.mark(&mut headers);
                self.door.send(&Method::DELETE, &headers, None).await;
            }
        };
        let _ = tokio::time::timeout(CLOSE, end).await;
    }
}

/// What became of an answer.
enum Passed {
    /// The client has it.
    Whole,
    /// It is none; the client is told this.
    Told(Option<Vec<u8>>),
    /// It broke off.
    Broken,
}

fn is_stream(response: &Response<Incoming>) -> bool {
    let media = response.headers().get(CONTENT_TYPE);
    response.status() == StatusCode::OK
        && media.is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}

/// The answer to the hello, of which nothing is passed on before it is whole.
async fn whole_answer(response: Response<Incoming>, hello: &Message) -> Vec<u8> {
    if !is_stream(&response) {
        let body = response.into_body().collect().await;
        return body.map_or_else(|_| Vec::new(), |body| body.to_bytes().to_vec());
    }
    let mut events = Events::of(response);
    while let Some((_, data)) = events.next_data().await {
        if answers(&data, hello.id().as_ref()) {
            return data;
        }
    }
    Vec::new()
}

/// The revision that was agreed on.
fn version(answer: &[u8]) -> Option<HeaderValue> {
    let result = envelope::read(answer).ok()?.result?;
    let version = raw::at_path(answer, result, &["protocolVersion"])?;
    HeaderValue::try_from(raw::text(answer, version)?.as_ref()).ok()
}
