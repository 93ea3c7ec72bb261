//! `steadfast sign-in` and `sign-out`: a person allows an agent to use a server, or takes that back.

use std::io::{self, IsTerminal as _};
use std::process::{Command, Stdio};

use clap::Args;
use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};
use steadfast_core::code;
use url::Url;

use crate::client::{Client, Events};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How long between two looks at the clock.
const BEAT: std::time::Duration = std::time::Duration::from_secs(1);

/// `sign-in AGENT SERVER [--paste] [--restart]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The agent
    agent: String,
    /// The server
    server: String,
    /// Read the address at which the browser ended from standard input: for a browser on another machine
    #[arg(long)]
    paste: bool,
    /// Make a new link, also where one is open
    #[arg(long)]
    restart: bool,
}

/// `sign-out AGENT SERVER`.
#[derive(Args)]
pub(crate) struct Whose {
    /// The agent
    agent: String,
    /// The server
    server: String,
}

/// Runs `sign-in`: shows the link and waits until the connection is up.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    let daemon = context.daemon()?;
    let Arguments {
        agent,
        server,
        paste,
        restart,
    } = &arguments;
    // Listened to before the link is there: what happens meanwhile is not missed.
    let mut changes = daemon.changes().await?;
    let path = ["connections", agent, server, "sign-in"];
    let wish = json!({"restart": restart});
    let offer = daemon.post(&path, Some(&wish)).await?;
    let url = offer["url"].as_str().unwrap_or_default();
    show(context.output, &offer, url)?;
    if *paste {
        // The provider may refuse a scope that can be done without: then there is one more link.
        while let Some(url) = finish(&daemon, &pasted(context.output)?).await? {
            show(context.output, &json!({"url": url}), &url)?;
        }
    } else if io::stdout().is_terminal() {
        open_browser(url);
    }
    wait(
        context.output,
        &daemon,
        &mut changes,
        (agent, server),
        &offer,
    )
    .await
}

fn show(output: Output, offer: &Value, url: &str) -> Result<(), Failure> {
    if output.json {
        return output.json_line(offer);
    }
    output.line("Open this link to sign in:")?;
    output.line(format!("\n    {url}\n"))
}

/// Best effort: the link is on the screen in any case.
fn open_browser(url: &str) {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let quiet = Stdio::null;
    let _ = Command::new(opener)
        .arg(url)
        .stdin(quiet())
        .stdout(quiet())
        .stderr(quiet())
        .spawn();
}

/// The address that the browser shows in the end; it holds the answer of the authorization server.
fn pasted(output: Output) -> Result<Url, Failure> {
    if io::stdin().is_terminal() {
        output.note("Paste the address at which your browser ended, then press Enter:");
    }
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    let address = read.ok().and_then(|_| line.trim().parse::<Url>().ok());
    let answer = address.filter(|url| url.query().is_some());
    answer.ok_or_else(|| {
        let message = "that is not the address at which a sign-in ends";
        let hint = "It begins with the address of the gateway, then /oauth/callback?…";
        Failure::hinted(code::BAD_MESSAGE, message, hint).usage()
    })
}

/// Brings the answer to the daemon in place of the browser. Where it leads on to, if it does.
async fn finish(daemon: &Client, answer: &Url) -> Result<Option<String>, Failure> {
    let path = format!("/oauth/callback?{}", answer.query().unwrap_or_default());
    let response = daemon
        .send(Method::GET, &path, HeaderMap::new(), None)
        .await?;
    let next = response.headers().get(LOCATION);
    let next = next.and_then(|next| Some(next.to_str().ok()?.to_owned()));
    let (status, page) = daemon.whole(response).await?;
    if status.is_success() {
        return Ok(None);
    }
    if status == StatusCode::SEE_OTHER && next.is_some() {
        return Ok(next);
    }
    let said = first_paragraph(&String::from_utf8_lossy(&page));
    Err(Failure::new(code::SIGN_IN_REQUIRED, said))
}

/// What a page of the callback says, without its markup.
fn first_paragraph(page: &str) -> String {
    let text = page.split("<p>").nth(1).unwrap_or_default();
    let text = text.split("</p>").next().unwrap_or_default();
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&");
    crate::output::printable(&text)
}

/// Waits until the connection is up with what the sign-in brought, or the link is good no more.
async fn wait(
    output: Output,
    daemon: &Client,
    changes: &mut Events,
    (agent, server): (&str, &str),
    offer: &Value,
) -> Result<Exit, Failure> {
    let ends: Option<Timestamp> = offer["expires_at"].as_str().and_then(|at| at.parse().ok());
    let mut connection = daemon.get(&["connections", agent, server]).await?;
    loop {
        // Also another one that has taken the place of ours.
        let is_open = connection["sign_in_url"].is_string();
        let has_grant = !matches!(
            connection["grant"]["state"].as_str(),
            None | Some("none" | "refused")
        );
        if !is_open && has_grant && connection["state"] == "connected" {
            super::status::show(output, &[connection])?;
            return Ok(Exit::Done);
        }
        let is_over = ends.is_some_and(|ends| Timestamp::now() >= ends);
        if is_over || (!is_open && !has_grant) {
            super::status::show(output, &[connection])?;
            return Ok(Exit::Person);
        }
        tokio::select! {
            event = changes.next() => match event {
                // What the event says may be older than the link: asked anew.
                Some((_, changed)) => {
                    if changed["agent"] == *agent && changed["server"] == *server {
                        connection = daemon.get(&["connections", agent, server]).await?;
                    }
                }
                None => {
                    let message = "the daemon ended while somebody signed in";
                    return Err(Failure::new(code::NO_DAEMON, message));
                }
            },
            () = tokio::time::sleep(BEAT) => {}
        }
    }
}

/// Runs `sign-out`.
pub(crate) async fn run_out(context: &Context, arguments: Whose) -> Result<Exit, Failure> {
    let daemon = context.daemon()?;
    let path = [
        "connections",
        &arguments.agent,
        &arguments.server,
        "sign-out",
    ];
    let answer = daemon.post(&path, None).await?;
    if context.output.json {
        context.output.json(&answer)?;
    } else {
        let message = answer["message"].as_str().unwrap_or_default();
        let message = crate::output::printable(message);
        context
            .output
            .line(format!("Signed out here; {message}."))?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_told_in_its_own_words() {
        let page = "<h1>x</h1>\n<p>it&#39;s &lt;gone&gt;.</p>\n<p>more</p>";
        assert_eq!(first_paragraph(page), "it's <gone>.");
        assert_eq!(first_paragraph(""), "");
    }
}
