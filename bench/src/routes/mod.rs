//! The ways from an agent to the upstream.

mod nginx;
mod steadfast;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use tempfile::TempDir;

pub(crate) use self::steadfast::{Served, build as build_steadfast, key, serve};
use crate::load::Agent;
use crate::options::Target;
use crate::process::Process;
use crate::protocol::Era;
use crate::{Outcome, measure};

/// How long a proxy may take until a call passes through it.
const READY_WITHIN: Duration = Duration::from_secs(20);
const ASK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Route {
    Direct,
    Nginx,
    Hop,
    Steadfast,
}

impl Route {
    pub(crate) const ALL: [Self; 4] = [Self::Direct, Self::Nginx, Self::Hop, Self::Steadfast];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::Hop => "bare hyper hop",
            Self::Steadfast => "Steadfast",
        }
    }
}

/// A way that is open.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) route: Route,
    address: SocketAddr,
    key: Option<String>,
    process: Option<Process>,
    /// The processes between agent and upstream.
    pub(crate) pids: Vec<u32>,
    /// Its configuration and data, until it has ended.
    _folder: Option<TempDir>,
}

impl Open {
    /// Opens a way to the upstream, and waits until a call of each era passes.
    pub(crate) async fn start(
        route: Route,
        upstream: SocketAddr,
        binary: Option<&PathBuf>,
    ) -> Outcome<Self> {
        let mut open = match route {
            Route::Direct => Self {
                route,
                address: upstream,
                key: None,
                process: None,
                pids: Vec::new(),
                _folder: None,
            },
            Route::Nginx => nginx::start(upstream).await?,
            Route::Hop => hop(upstream).await?,
            Route::Steadfast => {
                let binary = binary.ok_or("there is no binary of Steadfast")?;
                steadfast::start(binary, upstream).await?
            }
        };
        for era in Era::ALL {
            let target = open.target(era);
            ready(&target).await.map_err(|failure| {
                open.explained(&format!("no {} call passes", era.name()), &*failure)
            })?;
        }
        if let Some(pid) = open.process.as_ref().and_then(Process::pid) {
            open.pids = measure::with_children(pid)?;
        }
        Ok(open)
    }

    /// Where agents of an era call.
    pub(crate) fn target(&self, era: Era) -> Target {
        let prefix = match self.route {
            Route::Steadfast => "/mcp",
            Route::Direct | Route::Nginx | Route::Hop => "",
        };
        Target {
            address: self.address,
            path: format!("{prefix}/{}", era.name()),
            era,
            key: self.key.clone(),
        }
    }

    pub(crate) async fn stop(mut self) -> Outcome {
        match self.process.take() {
            Some(process) => process.stop().await,
            None => Ok(()),
        }
    }

    /// A failure with the last of what the process wrote about it.
    fn explained(
        &self,
        what: &str,
        failure: &dyn std::error::Error,
    ) -> Box<dyn std::error::Error + Send + Sync> {
        let process = self.process.as_ref();
        let last_words = process.map(Process::last_words).unwrap_or_default();
        format!("{}: {what}: {failure}{last_words}", self.route.name()).into()
    }
}

async fn hop(upstream: SocketAddr) -> Outcome<Open> {
    let arguments = ["--upstream".to_owned(), upstream.to_string()];
    let mut process = Process::start_part("hop", &arguments)?;
    let address = process.address(READY_WITHIN).await?;
    Ok(Open {
        route: Route::Hop,
        address,
        key: None,
        process: Some(process),
        pids: Vec::new(),
        _folder: None,
    })
}

/// Waits until a call is answered.
async fn ready(target: &Target) -> Outcome {
    let deadline = tokio::time::Instant::now() + READY_WITHIN;
    loop {
        let failure = match tokio::time::timeout_at(deadline, Agent::probe(target)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(_) => format!("no answer within {READY_WITHIN:?}").into(),
        };
        if tokio::time::Instant::now() >= deadline {
            return Err(failure);
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}
