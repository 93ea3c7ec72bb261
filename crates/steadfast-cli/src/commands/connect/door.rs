//! The way to the daemon. It may end and begin again meanwhile, on another port: where it is, is looked up for every
//! request, and a credential that it does not know any more is replaced.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Incoming;
use steadfast_core::code;
use tokio::sync::Mutex;

use crate::client::escaped;
use crate::context::Context;
use crate::failure::Failure;

/// How long a daemon that does not answer is waited for: a restart takes less.
const PATIENCE: Duration = Duration::from_secs(30);
/// How soon it is looked for again.
const PAUSE: Duration = Duration::from_millis(100);

/// The way to an endpoint of the gateway. No `Debug`: it holds a credential.
pub(super) struct Door {
    context: Context,
    agent: String,
    server: Option<String>,
    /// The agent's own key; else the daemon gives out passes to whoever has the admin token.
    key: Option<String>,
    pass: Mutex<Option<String>>,
}

/// What became of a request.
pub(super) enum Heard {
    /// It was answered.
    Answered(Response<Incoming>),
    /// It never left.
    Unsent(Failure),
    /// It left, and no answer came.
    Lost,
}

/// One try.
enum Tried {
    Heard(Heard),
    /// The credential is not known any more: nothing was looked at (RFC 6750 section 3.1).
    Unknown,
    /// Nobody is there yet.
    Away(Failure),
}

impl Door {
    pub(super) fn new(
        context: Context,
        agent: String,
        server: Option<String>,
        key: Option<String>,
    ) -> Self {
        Self {
            context,
            agent,
            server,
            key,
            pass: Mutex::default(),
        }
    }

    /// That a daemon runs, which knows the agent and the server: whoever wrote the command is told at once.
    pub(super) async fn try_it(&self) -> Result<(), Failure> {
        let client = self.context.gateway(&self.credential().await?)?;
        client.dial().await?;
        if let (Some(server), None) = (&self.server, &self.key) {
            let path = ["connections", &self.agent, server];
            self.context.daemon()?.get(&path).await?;
        }
        Ok(())
    }

    async fn credential(&self) -> Result<String, Failure> {
        if let Some(key) = &self.key {
            return Ok(key.clone());
        }
        let mut pass = self.pass.lock().await;
        if let Some(pass) = &*pass {
            return Ok(pass.clone());
        }
        let path = ["agents", &self.agent, "pass"];
        let given = self.context.daemon()?.post(&path, None).await?;
        let given = given["pass"].as_str();
        let given = given.ok_or_else(|| Failure::foreign("there is no pass in it"))?;
        *pass = Some(given.to_owned());
        Ok(given.to_owned())
    }

    /// The daemon does not know this credential: another process has begun.
    async fn forget(&self, credential: &str) {
        let mut pass = self.pass.lock().await;
        if pass.as_deref() == Some(credential) {
            *pass = None;
        }
    }

    fn path(&self) -> String {
        match &self.server {
            Some(server) => format!("/mcp/{}", escaped(server)),
            None => "/mcp".to_owned(),
        }
    }

    /// Sends a request once. Until it leaves, a daemon that is away is waited for.
    pub(super) async fn send(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: Option<&Bytes>,
    ) -> Heard {
        let began = Instant::now();
        loop {
            let away = match self.try_once(method, headers, body).await {
                Tried::Heard(heard) => return heard,
                Tried::Unknown => continue,
                Tried::Away(failure) => failure,
            };
            if began.elapsed() >= PATIENCE {
                return Heard::Unsent(away);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_once(&self, method: &Method, headers: &HeaderMap, body: Option<&Bytes>) -> Tried {
        let unsent = |failure: Failure| match &failure {
            Failure::Said(said) if said.code == code::NO_DAEMON => Tried::Away(failure),
            Failure::Said(_) | Failure::OutputClosed => Tried::Heard(Heard::Unsent(failure)),
        };
        let had_pass = self.pass.lock().await.is_some();
        let credential = match self.credential().await {
            Ok(credential) => credential,
            Err(failure) => return unsent(failure),
        };
        let client = match self.context.gateway(&credential) {
            Ok(client) => client,
            Err(failure) => return unsent(failure),
        };
        let line = match client.dial().await {
            Ok(line) => line,
            Err(failure) => return unsent(failure),
        };
        let (method, headers, body) = (method.clone(), headers.clone(), body.cloned());
        let path = self.path();
        match client.send_on(line, method, &path, headers, body).await {
            // One that was just given and is not known is not asked for again.
            Ok(response) if response.status() == StatusCode::UNAUTHORIZED && had_pass => {
                self.forget(&credential).await;
                Tried::Unknown
            }
            Ok(response) => Tried::Heard(Heard::Answered(response)),
            Err(_) => Tried::Heard(Heard::Lost),
        }
    }
}
