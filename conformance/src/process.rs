//! Child processes: started, waited for until they say that they are ready, and never left behind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::Failure;

/// How long a program may take to start; a cold Node on a busy machine needs some.
const START: Duration = Duration::from_secs(30);
/// How long one may take to end when it is asked to.
const STOP: Duration = Duration::from_secs(20);

/// The output of all children: gone after a run that passed.
#[derive(Debug)]
pub(crate) struct Logs(TempDir);

impl Logs {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self(
            tempfile::Builder::new()
                .prefix("steadfast-conformance-")
                .tempdir()?,
        ))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> Result<File, Failure> {
        Ok(File::options()
            .create(true)
            .append(true)
            .open(self.path().join(name))?)
    }

    pub(crate) fn keep(self) -> PathBuf {
        self.0.keep()
    }
}

/// A server; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts a server, and returns the first line with `ready` in it, from there on.
    pub(crate) async fn start(
        mut command: Command,
        name: &str,
        logs: &Logs,
        ready: &str,
    ) -> Result<(Self, String), Failure> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let log = Arc::new(Mutex::new(logs.file(&format!("{name}.log"))?));
        let (sender, mut lines) = mpsc::unbounded_channel();
        if let Some(stdout) = child.stdout.take() {
            copy(stdout, Arc::clone(&log), sender.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            copy(stderr, log, sender);
        }
        let mut last = String::new();
        let found = tokio::time::timeout(START, async {
            while let Some(line) = lines.recv().await {
                if let Some(at) = line.find(ready) {
                    return line.get(at..).map(str::to_owned);
                }
                last = line;
            }
            None
        });
        match found.await {
            Ok(Some(line)) => Ok((Self { child }, line)),
            Ok(None) => Err(format!("{name} ended before it was ready: {last}").into()),
            Err(_) => Err(format!("{name} was not ready after {START:?}").into()),
        }
    }

    /// SIGTERM, and the end of the process: what is under way is finished.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        let pid = pid.and_then(Pid::from_raw).ok_or("it has ended already")?;
        kill_process(pid, Signal::TERM)?;
        tokio::time::timeout(STOP, self.child.wait())
            .await
            .map_err(|_| format!("it did not end within {STOP:?}"))??;
        Ok(())
    }

    /// SIGKILL, and the end of the process.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }
}

/// Copies lines to the log, and to whoever waits for one of them.
fn copy(
    output: impl AsyncRead + Send + Unpin + 'static,
    log: Arc<Mutex<File>>,
    sender: mpsc::UnboundedSender<String>,
) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // The output is there for a person who looks for the cause of a failure, and for nothing else.
            let _ = std::io::Write::write_all(&mut *log.lock(), format!("{line}\n").as_bytes());
            let _ = sender.send(line);
        }
    });
}

/// A port that was free a moment ago: for servers that must be told one, and that keep it over a restart.
pub(crate) fn free_port() -> Result<u16, Failure> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?
        .local_addr()?
        .port())
}
