//! The processes that a run starts, and their end.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Outcome;

/// How long a process may take to end once it was told to.
const END_WITHIN: Duration = Duration::from_secs(10);

/// A running process. It is told to end when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    output: Option<Lines<BufReader<ChildStdout>>>,
    /// A file, and not a pipe that somebody would have to read while others are measured.
    errors: File,
}

impl Process {
    /// Starts a process.
    pub(crate) fn start(name: &str, command: &mut Command) -> Outcome<Self> {
        let errors = tempfile::tempfile()?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()
            .map_err(|error| format!("{name} cannot be started: {error}"))?;
        Ok(Self {
            name: name.to_owned(),
            input: child.stdin.take(),
            output: child
                .stdout
                .take()
                .map(|output| BufReader::new(output).lines()),
            child,
            errors,
        })
    }

    /// Starts a part of this program.
    pub(crate) fn start_part(part: &str, arguments: &[String]) -> Outcome<Self> {
        let program = std::env::current_exe()?;
        Self::start(part, Command::new(program).arg(part).args(arguments))
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The next line that it prints.
    pub(crate) async fn line(&mut self, within: Duration) -> Outcome<String> {
        let name = &self.name;
        let output = self
            .output
            .as_mut()
            .ok_or_else(|| format!("{name}: what it prints is not read any more"))?;
        let line = timeout(within, output.next_line())
            .await
            .map_err(|_| format!("{name} printed nothing for {within:?}"))??;
        match line {
            Some(line) => Ok(line),
            None => {
                let status = timeout(END_WITHIN, self.child.wait()).await??;
                Err(format!("{name} ended early ({status}){}", self.last_words()).into())
            }
        }
    }

    /// The address that it says it listens on. What it prints later is thrown away.
    pub(crate) async fn address(&mut self, within: Duration) -> Outcome<std::net::SocketAddr> {
        loop {
            let line = self.line(within).await?;
            if let Some((_, address)) = line.split_once("listening on http://") {
                let address = address.trim().trim_end_matches('/').parse()?;
                if let Some(mut output) = self.output.take() {
                    tokio::spawn(
                        async move { while let Ok(Some(_)) = output.next_line().await {} },
                    );
                }
                return Ok(address);
            }
        }
    }

    /// The last lines that it wrote to standard error, each on a line of its own.
    pub(crate) fn last_words(&self) -> String {
        const LINES: usize = 5;
        let length = self.errors.metadata().map_or(0, |file| file.len());
        let mut end = vec![0; 4 << 10];
        // The child writes at the same file's offset, so that it must not be moved.
        let from = length.saturating_sub(end.len() as u64);
        let read = self.errors.read_at(&mut end, from).unwrap_or_default();
        let end = String::from_utf8_lossy(&end[..read]);
        let lines: Vec<&str> = end.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(LINES));
        last.map(|line| format!("\n    {line}")).collect()
    }

    /// Sends it an empty line.
    pub(crate) async fn go_on(&mut self) -> Outcome {
        if let Some(input) = &mut self.input {
            input.write_all(b"\n").await?;
        }
        Ok(())
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(&mut self, within: Duration) -> Outcome<ExitStatus> {
        self.input = None;
        let ended = timeout(within, self.child.wait()).await;
        let ended = ended.map_err(|_| format!("{} did not end within {within:?}", self.name))?;
        Ok(ended?)
    }

    /// Tells it to end, and sees that it does.
    pub(crate) async fn stop(mut self) -> Outcome {
        self.terminate();
        if self.ended(END_WITHIN).await.is_err() {
            self.child.kill().await?;
            return Err(format!("{} had to be killed", self.name).into());
        }
        Ok(())
    }

    /// Ends it whatever it is doing.
    pub(crate) async fn kill(&mut self) -> Outcome {
        Ok(self.child.kill().await?)
    }

    /// SIGTERM, not SIGKILL: a master must end its workers.
    fn terminate(&self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // It may have ended meanwhile, which is what was wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.terminate();
    }
}
