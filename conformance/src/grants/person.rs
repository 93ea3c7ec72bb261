//! A person who signs in and out: with the real command, and with Chromium.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::Failure;
use crate::gateway::Gateway;
use crate::process::Logs;
use crate::programs::Programs;

/// How long a command or the browser may take; a cold start of Chromium on a busy machine is the slowest.
const LIMIT: Duration = Duration::from_secs(60);

/// Who signs in.
pub(super) struct Person<'a> {
    programs: &'a Programs,
    logs: &'a Logs,
    chromium: PathBuf,
}

/// What the browser has shown.
#[derive(Debug, Deserialize)]
struct Browsed {
    /// The titles of the pages before the last.
    pages: Vec<String>,
    /// What is on the last one.
    text: String,
}

impl<'a> Person<'a> {
    pub(super) fn new(programs: &'a Programs, logs: &'a Logs) -> Result<Self, Failure> {
        let chromium = programs.chromium()?;
        Ok(Self {
            programs,
            logs,
            chromium,
        })
    }

    /// `steadfast sign-in`, and the browser that its link is opened in; how many pages that took.
    pub(super) async fn sign_in(
        &self,
        gateway: &Gateway,
        (agent, server): (&str, &str),
    ) -> Result<usize, Failure> {
        let mut command = self.command(gateway, &["sign-in", agent, server, "--json"])?;
        let mut child = command.spawn()?;
        let offer = within("a link", first_line(&mut child)).await?;
        let offer: Value = serde_json::from_str(&offer)?;
        let shown = gateway.connection(agent, server).await?;
        let link = offer.get("url").and_then(Value::as_str);
        let link = link.ok_or("the offer has no link")?;
        if shown.get("sign_in_url").and_then(Value::as_str) != Some(link) {
            return Err(
                format!("the connection has another link than the command: {shown}").into(),
            );
        }
        let end = format!("{}/oauth/callback", gateway.base);
        let browsed = self.browse(link, &end).await?;
        let signed_in = format!("{agent} is signed in to {server}");
        if !browsed.text.contains(&signed_in) {
            return Err(format!("the last page says: {}", browsed.text).into());
        }
        let status = within("an end of sign-in", async { Ok(child.wait().await?) }).await?;
        if status.success() {
            Ok(browsed.pages.len())
        } else {
            Err(format!("sign-in ended with {status}").into())
        }
    }

    /// `steadfast sign-out`; what it says of the revocation.
    pub(super) async fn sign_out(
        &self,
        gateway: &Gateway,
        (agent, server): (&str, &str),
    ) -> Result<String, Failure> {
        let command = self.command(gateway, &["sign-out", agent, server, "--json"])?;
        let said: Value = serde_json::from_str(&self.output(command).await?)?;
        let revoked = said.get("revoked").and_then(Value::as_str);
        Ok(revoked.unwrap_or_default().to_owned())
    }

    /// `steadfast notices`, which fails where one is open: somebody would have to act.
    pub(super) async fn has_nothing_to_do(&self, gateway: &Gateway) -> Result<(), Failure> {
        self.output(self.command(gateway, &["notices"])?).await?;
        Ok(())
    }

    async fn browse(&self, link: &str, end: &str) -> Result<Browsed, Failure> {
        let mut command = Command::new(self.programs.node());
        command
            .arg(self.programs.peer("browser.mjs"))
            .arg(&self.chromium)
            .args([link, end])
            .stderr(self.logs.file("browser.log")?)
            .kill_on_drop(true);
        Ok(serde_json::from_str(&self.output(command).await?)?)
    }

    /// What a command writes.
    async fn output(&self, mut command: Command) -> Result<String, Failure> {
        let what = format!("{:?}", command.as_std().get_args().collect::<Vec<_>>());
        command.stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut stdout = child.stdout.take().ok_or("no standard output")?;
        within(&what, async {
            let mut text = String::new();
            stdout.read_to_string(&mut text).await?;
            let status = child.wait().await?;
            if status.success() {
                Ok(text)
            } else {
                Err(format!("{what}: {status}: {text}").into())
            }
        })
        .await
    }

    /// A command of the product, on the data of a daemon.
    fn command(&self, gateway: &Gateway, arguments: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(self.programs.binary("steadfast"));
        command
            .args(arguments)
            .arg("--data")
            .arg(gateway.data())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.logs.file("commands.log")?)
            .kill_on_drop(true);
        Ok(command)
    }
}

/// The first line; what follows is read in the background, or the command could not write it.
async fn first_line(child: &mut Child) -> Result<String, Failure> {
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    let first = lines.next_line().await?;
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    first.ok_or_else(|| "the command wrote nothing".into())
}

async fn within<T>(
    what: &str,
    doing: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::time::timeout(LIMIT, doing)
        .await
        .map_err(|_| format!("no {what} within {LIMIT:?}"))?
}
