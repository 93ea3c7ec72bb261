//! How the server behaves where no rule of the script says otherwise: as its revision of MCP asks.

mod http_sse;
mod legacy;
mod methods;
mod modern;

pub(crate) use modern::{is_modern, notify_subscription};

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::exchange::Exchange;
use crate::issuer::Issuer;
use crate::protection::{self, Protection};
use crate::session::{Outbox, Session};
use crate::tool::{Action, Run, Tool};
use crate::wire::{Flow, Stop};

/// The protocol that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Streamable HTTP of 2025-03-26 to 2025-11-25, opened by `initialize`.
    Legacy,
    /// Streamable HTTP of 2026-07-28: every request stands alone.
    Modern,
    /// Both on one endpoint.
    Both,
    /// The HTTP+SSE transport of 2024-11-05.
    HttpSse,
}

/// What a legacy server does with a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetStream {
    /// Refuses it with 405.
    Refused,
    /// Opens a stream, and ends the session's previous one.
    One,
    /// Opens as many as are asked for; messages go to the newest.
    Many,
}

/// The settings of a server; may be changed while it runs, see [`crate::Server::change`].
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// The protocol.
    pub speaks: Speaks,
    /// Legacy revisions that it accepts, the preferred one first.
    pub legacy_revisions: Vec<String>,
    /// `initialize` is answered with this revision, whatever was asked for.
    pub insists_on: Option<String>,
    /// Modern revisions that it accepts.
    pub modern_revisions: Vec<String>,
    /// Path of the endpoint; every other path is 404.
    pub path: String,
    /// Whether `initialize` issues a session id.
    pub sessions: bool,
    /// Session ids are this and a number.
    pub session_prefix: String,
    /// What becomes of a GET.
    pub get_stream: GetStream,
    /// Whether calls are answered as an event stream even when one JSON answer would do.
    pub stream_answers: bool,
    /// Whether events have ids and streams can be resumed (legacy).
    pub resumable: bool,
    /// `retry` of the priming event, in milliseconds.
    pub retry_ms: Option<u64>,
    /// The tools, in order.
    pub tools: Vec<Tool>,
    /// The resources. One is read as its `title`, or as "a note".
    pub resources: Vec<Value>,
    /// The resource templates. Whatever begins as one of them can be read.
    pub templates: Vec<Value>,
    /// The prompts. One says its `title`, or "Hello".
    pub prompts: Vec<Value>,
    /// The capabilities that it declares.
    pub capabilities: Value,
    /// Its instructions.
    pub instructions: Option<String>,
    /// Tools per page of `tools/list`.
    pub page_size: Option<usize>,
    /// Members of the filter that `subscriptions/listen` honours; all where it is `None`.
    pub honours: Option<Vec<String>>,
    /// `ttlMs` of modern lists.
    pub ttl_ms: i64,
    /// Close connections that idle for so long.
    pub keep_alive: Option<Duration>,
    /// Which tokens are wanted; `None` is none.
    pub protection: Option<Protection>,
}

impl Behaviour {
    fn new(speaks: Speaks, legacy_revisions: &[&str], modern_revisions: &[&str]) -> Self {
        let owned = |revisions: &[&str]| {
            revisions
                .iter()
                .map(|revision| (*revision).to_owned())
                .collect()
        };
        Self {
            speaks,
            legacy_revisions: owned(legacy_revisions),
            insists_on: None,
            modern_revisions: owned(modern_revisions),
            path: "/mcp".to_owned(),
            sessions: true,
            session_prefix: "S".to_owned(),
            get_stream: GetStream::Many,
            stream_answers: false,
            resumable: false,
            retry_ms: None,
            tools: Tool::defaults(),
            resources: vec![methods::note()],
            templates: Vec::new(),
            prompts: vec![methods::greeting()],
            capabilities: methods::capabilities(),
            instructions: None,
            page_size: None,
            honours: None,
            ttl_ms: 0,
            keep_alive: None,
            protection: None,
        }
    }

    /// A legacy server with sessions that knows this revision only.
    #[must_use]
    pub fn legacy(revision: &str) -> Self {
        Self::new(Speaks::Legacy, &[revision], &[])
    }

    /// A legacy server that issues no session ids and offers no GET stream.
    #[must_use]
    pub fn legacy_stateless() -> Self {
        let legacy = Self::legacy("2025-11-25");
        Self {
            sessions: false,
            get_stream: GetStream::Refused,
            ..legacy
        }
    }

    /// A server of 2026-07-28.
    #[must_use]
    pub fn modern() -> Self {
        Self::new(Speaks::Modern, &[], &["2026-07-28"])
    }

    /// A server of both eras.
    #[must_use]
    pub fn dual() -> Self {
        Self::new(
            Speaks::Both,
            &["2025-11-25", "2025-06-18", "2025-03-26"],
            &["2026-07-28"],
        )
    }

    /// A server of the HTTP+SSE transport of 2024-11-05.
    #[must_use]
    pub fn http_sse() -> Self {
        let base = Self::new(Speaks::HttpSse, &["2024-11-05"], &[]);
        Self {
            path: "/sse".to_owned(),
            ..base
        }
    }

    /// With these tools instead of the default ones.
    #[must_use]
    pub fn with_tools(mut self, tools: Vec<Tool>) -> Self {
        self.tools = tools;
        self
    }

    /// With calls answered as event streams.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.stream_answers = true;
        self
    }

    /// With event ids, priming events and resumable streams.
    #[must_use]
    pub fn resumable(mut self, retry_ms: Option<u64>) -> Self {
        self.stream_answers = true;
        self.resumable = true;
        self.retry_ms = retry_ms;
        self
    }

    /// With these members of a filter honoured by `subscriptions/listen`, and no others.
    #[must_use]
    pub fn honouring(mut self, members: &[&str]) -> Self {
        self.honours = Some(members.iter().map(|it| (*it).to_owned()).collect());
        self
    }

    /// Only with tokens of this authorization server.
    #[must_use]
    pub fn protected_by(self, issuer: &Issuer) -> Self {
        self.protected(Protection::by(issuer))
    }

    /// Only with the tokens that the protection wants.
    #[must_use]
    pub fn protected(mut self, protection: Protection) -> Self {
        self.protection = Some(protection);
        self
    }

    /// Whether this is a path of the protocol's own.
    pub(crate) fn serves(&self, path: &str) -> bool {
        path == self.path || (self.speaks == Speaks::HttpSse && path == http_sse::MESSAGES)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    fn all_revisions(&self) -> Vec<String> {
        self.modern_revisions
            .iter()
            .chain(&self.legacy_revisions)
            .cloned()
            .collect()
    }
}

/// Answers a request as the server's protocol asks.
pub(crate) async fn answer(exchange: &mut Exchange<'_>) -> Flow {
    let behaviour = exchange.shared.behaviour();
    if let Some(protection) = &behaviour.protection
        && !protection::admits(exchange, &behaviour, protection).await?
    {
        return Ok(());
    }
    if behaviour.speaks == Speaks::HttpSse {
        return http_sse::answer(exchange, &behaviour).await;
    }
    if exchange.request.path_only() != behaviour.path {
        return exchange.empty(404).await;
    }
    match behaviour.speaks {
        Speaks::Modern => modern::answer(exchange, &behaviour).await,
        Speaks::Both if modern::is_modern(&exchange.request) => {
            modern::answer(exchange, &behaviour).await
        }
        Speaks::Both | Speaks::Legacy | Speaks::HttpSse => {
            legacy::answer(exchange, &behaviour).await
        }
    }
}

/// Runs a tool and answers with its outbox: as JSON, if the response is all that comes, or as an event stream.
async fn call(
    exchange: &mut Exchange<'_>,
    behaviour: &Behaviour,
    session: Option<Arc<Session>>,
) -> Flow {
    let name = exchange.request.tool().unwrap_or_default();
    let Some(tool) = behaviour.tool(name).cloned() else {
        let message = format!("Unknown tool: {name}");
        return exchange.error(200, -32602, &message, None).await;
    };
    let streams = streams(exchange, behaviour, &tool, session.is_some());
    let outbox = match &session {
        Some(session) if streams => session.open_stream(behaviour.resumable, behaviour.retry_ms),
        _ => Outbox::anonymous(),
    };
    let run = Run {
        shared: Arc::clone(&exchange.shared),
        request: Arc::clone(&exchange.request),
        session: session.clone(),
        outbox: Arc::clone(&outbox),
        tool,
    };
    let task = run.spawn();
    let outcome = if streams {
        stream_answer(exchange, &outbox).await
    } else {
        json_answer(exchange, &outbox).await
    };
    // Up to 2025-11-25 a disconnect is not a cancellation; from 2026-07-28 on it is one.
    if session.is_none() && outcome == Err(Stop::PeerGone) && !task.is_finished() {
        task.abort();
        exchange.shared.log.event(crate::log::Event::Cancelled {
            index: exchange.request.index,
        });
    }
    outcome
}

fn streams(exchange: &Exchange<'_>, behaviour: &Behaviour, tool: &Tool, legacy: bool) -> bool {
    let asks = matches!(tool.action, Action::Ask | Action::Questions(_));
    let logs = exchange
        .request
        .pointer("/params/_meta/io.modelcontextprotocol~1logLevel")
        .is_some();
    behaviour.stream_answers
        || (asks && (legacy || logs))
        || exchange
            .request
            .pointer("/params/_meta/progressToken")
            .is_some()
}

async fn stream_answer(exchange: &mut Exchange<'_>, outbox: &Outbox) -> Flow {
    exchange.begin_stream().await?;
    exchange.pump(outbox, 0).await
}

async fn json_answer(exchange: &mut Exchange<'_>, outbox: &Outbox) -> Flow {
    match exchange.wire.until(outbox.frame(0)).await? {
        Some(frame) => exchange.json_text(200, &frame.data).await,
        // Cancelled: a stream would end without a response; this one can only break off.
        None => Err(Stop::Close),
    }
}
