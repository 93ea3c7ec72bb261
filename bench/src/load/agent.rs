//! An agent of either era on one connection.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use memchr::memmem;

use super::connection::{Answer, Connection};
use crate::Outcome;
use crate::options::Target;
use crate::protocol::{self, Case, Era, FIRST_ID, INITIALIZED, LARGE, RESULT_BEGINS, id_in};

/// How many ids an agent may use before it would meet those of the next agent.
const IDS_PER_AGENT: u64 = 10_000_000;

#[derive(Debug)]
pub(crate) struct Agent {
    connection: Connection,
    target: Target,
    session: Option<String>,
}

/// How long a call took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) start: Instant,
    pub(super) total: Duration,
    pub(super) first_event: Option<Duration>,
}

impl Agent {
    /// Connects, and opens a session in the legacy era.
    pub(crate) async fn open(target: &Target) -> Outcome<Self> {
        let mut agent = Self {
            connection: Connection::open(target.address).await?,
            target: target.clone(),
            session: None,
        };
        if target.era == Era::Legacy {
            let request = agent.post(&protocol::initialize(), "");
            let answer = agent.connection.exchange(&request).await?;
            let session = answer.head.session.clone();
            if session.is_none() {
                return Err(refused("initialize", &answer));
            }
            agent.session = session;
            let request = agent.post(INITIALIZED, "");
            let answer = agent.connection.exchange(&request).await?;
            if answer.head.status != 202 {
                return Err(refused("notifications/initialized", &answer));
            }
        }
        Ok(agent)
    }

    /// Whether one call gets its answer.
    pub(crate) async fn probe(target: &Target) -> Outcome {
        let mut agent = Self::open(target).await?;
        let mut calls = Calls::new(&agent, Case::Json, 0, false);
        agent.call(&mut calls).await?;
        agent.close().await
    }

    /// Makes one call.
    pub(super) async fn call(&mut self, calls: &mut Calls) -> Outcome<Timing> {
        calls.next();
        let start = Instant::now();
        let answer = self.connection.exchange(&calls.request).await?;
        let total = start.elapsed();
        calls.check(&answer)?;
        let first_event = answer.first_event.map(|at| at - start);
        Ok(Timing {
            start,
            total,
            first_event,
        })
    }

    /// Opens the GET stream of this agent's session on a connection of its own.
    pub(super) async fn listen(&self) -> Outcome<Connection> {
        let mut connection = Connection::open(self.target.address).await?;
        let mut request = self.head("GET", "text/event-stream");
        request.push_str("\r\n");
        let head = connection.begin(request.as_bytes()).await?;
        if head.status != 200 || !head.is_events {
            return Err(format!("GET was answered {}", head.status).into());
        }
        Ok(connection)
    }

    /// Ends the session.
    pub(super) async fn close(mut self) -> Outcome {
        if self.session.is_none() {
            return Ok(());
        }
        let mut request = self.head("DELETE", "*/*");
        request.push_str("\r\n");
        let answer = self.connection.exchange(request.as_bytes()).await?;
        match answer.head.status {
            200..300 => Ok(()),
            _ => Err(refused("DELETE", &answer)),
        }
    }

    fn head(&self, method: &str, accept: &str) -> String {
        let Target {
            address, path, era, ..
        } = &self.target;
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\n");
        let mut line = |name: &str, value: &str| {
            // Writing to a String does not fail.
            let _ = write!(head, "{name}: {value}\r\n");
        };
        if let Some(key) = &self.target.key {
            line("Authorization", &format!("Bearer {key}"));
        }
        if *era == Era::Modern || self.session.is_some() {
            line("MCP-Protocol-Version", era.revision());
        }
        if let Some(session) = &self.session {
            line("Mcp-Session-Id", session);
        }
        head
    }

    fn post(&self, body: &str, further: &str) -> Vec<u8> {
        let head = self.head("POST", "application/json, text/event-stream");
        let length = body.len();
        format!(
            "{head}{further}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

fn refused(what: &str, answer: &Answer<'_>) -> Box<dyn std::error::Error + Send + Sync> {
    let body = &answer.body[..answer.body.len().min(300)];
    format!(
        "{what} was answered {}: {}",
        answer.head.status,
        String::from_utf8_lossy(body)
    )
    .into()
}

/// The calls of one agent: one template, in which each call overwrites the id.
#[derive(Debug)]
pub(super) struct Calls {
    case: Case,
    request: Vec<u8>,
    /// Where the id stands, and once more among the arguments of calls that are all different.
    id_at: Vec<usize>,
    id: u64,
}

impl Calls {
    pub(super) fn new(agent: &Agent, case: Case, index: usize, numbered: bool) -> Self {
        let further = match agent.target.era {
            Era::Legacy => String::new(),
            Era::Modern => format!("Mcp-Method: tools/call\r\nMcp-Name: {}\r\n", case.name()),
        };
        let mut body = protocol::call(agent.target.era, case);
        if numbered {
            let arguments = r#""arguments":{"#;
            body = body.replacen(arguments, &format!(r#"{arguments}"number":{FIRST_ID},"#), 1);
        }
        let request = agent.post(&body, &further);
        let body_at = request.len() - body.len();
        let first = FIRST_ID.to_string();
        let id_at = memmem::find_iter(body.as_bytes(), &first).map(|at| body_at + at);
        Self {
            case,
            id_at: id_at.collect(),
            request,
            id: FIRST_ID + index as u64 * IDS_PER_AGENT,
        }
    }

    fn next(&mut self) {
        self.id += 1;
        let id = self.id.to_string();
        for at in &self.id_at {
            self.request[*at..at + id.len()].copy_from_slice(id.as_bytes());
        }
    }

    /// The answer is the upstream's, to this very call, in the form that was to be measured.
    fn check(&self, answer: &Answer<'_>) -> Outcome {
        let beginning = &answer.body[..answer.body.len().min(1 << 10)];
        let id = id_in(beginning).and_then(|at| std::str::from_utf8(&beginning[at]).ok());
        let right = answer.head.status == 200
            && answer.head.is_events == self.case.is_stream()
            && id.and_then(|id| id.parse().ok()) == Some(self.id)
            && memmem::find(beginning, RESULT_BEGINS.as_bytes()).is_some()
            && (self.case != Case::Large || answer.body.len() > LARGE)
            && (!self.case.is_stream() || answer.first_event.is_some());
        if right {
            Ok(())
        } else {
            Err(refused(
                &format!("call {} ({})", self.id, self.case.name()),
                answer,
            ))
        }
    }
}
