//! `steadfast doctor`: which fault it is, the proof, and who must act.

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use steadfast::doctor::{Examination, Outcome, Step};
use steadfast::{Doors, Keeper, config};
use steadfast_core::code;
use steadfast_core::doctor::Who;
use steadfast_store::{MemoryRecords, SharedStore, Vault};
use url::Url;

use crate::client::Client;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Look, Output, printable};

/// How wide the names of the steps are.
const NAMES: usize = 18;

/// `doctor AGENT SERVER` or `doctor URL`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The agent; or the address of a server, which need not be configured
    #[arg(value_name = "AGENT | URL")]
    who: String,
    /// The server
    server: Option<String>,
}

/// Runs the command. 1 where there is a fault, 3 where a person must act.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    if context.output.terminal && !context.output.json {
        context.output.note("Asking …");
    }
    let examination = match &arguments.server {
        Some(server) => {
            let path = ["connections", &arguments.who, server, "doctor"];
            ask(&context.daemon()?, &path, "").await?
        }
        None => address(context, &arguments.who).await?,
    };
    let output = context.output;
    if output.json {
        output.json(&examination)?;
    } else {
        output.raw(&rendered(&examination, output))?;
    }
    Ok(match &examination.fault {
        None => Exit::Done,
        Some(fault) if fault.person_needed => Exit::Person,
        Some(_) => Exit::Failed,
    })
}

/// By the daemon where one runs, for its network may be another one than ours; else from here.
async fn address(context: &Context, address: &str) -> Result<Examination, Failure> {
    let url: Url = address.parse().map_err(|_| {
        let message = format!("`{}` is no address", printable(address));
        let hint =
            "Write `steadfast doctor AGENT SERVER`, or the address with http:// or https://.";
        Failure::hinted(code::CONFIG_BAD_VALUE, message, hint).usage()
    })?;
    match context.find_daemon()? {
        Some(daemon) => {
            let body = json!({"url": url});
            ask(&daemon, &["doctor"], &body.to_string()).await
        }
        None => from_here(url).await,
    }
}

async fn ask(daemon: &Client, path: &[&str], body: &str) -> Result<Examination, Failure> {
    // A server that does not answer is waited for as long as a connection would.
    let answer = daemon.post_patiently(path, body.to_owned().into()).await?;
    serde_json::from_slice(&answer).map_err(Failure::foreign)
}

/// Nothing is configured, and nothing is kept.
async fn from_here(url: Url) -> Result<Examination, Failure> {
    let store: SharedStore = Arc::new(MemoryRecords::new());
    let vault = Arc::new(Vault::ephemeral()?);
    let keeper = Keeper::start(config::Settings::default(), store, vault)
        .await
        .map_err(|fault| Failure::new(fault.kind.code(), fault.message))?;
    // No browser comes here: what matters of them is that they are not public.
    let at = |path: &str| {
        let door = format!("http://127.0.0.1{path}").parse();
        door.unwrap_or_else(|_| url.clone())
    };
    let doors = Doors {
        callback: at("/oauth/callback"),
        sign_in: at("/sign-in"),
        document: None,
    };
    let examined = keeper.examine_address(url.clone(), &doors).await;
    keeper.shutdown().await;
    examined.map_err(|error| Failure::new(code::CONFIG_BAD_VALUE, error.to_string()).usage())
}

fn rendered(examination: &Examination, output: Output) -> String {
    let mut text = heading(examination, output);
    for step in &examination.steps {
        text.push_str(&line(step, output));
        for detail in &step.details {
            let detail = format!("       {:NAMES$}{}", "", printable(detail));
            text.push_str(&output.paint(Look::Dim, &detail));
            text.push('\n');
        }
    }
    text.push('\n');
    text.push_str(&verdict(examination, output));
    text
}

fn heading(examination: &Examination, output: Output) -> String {
    let url = printable(&examination.url);
    let who = match (&examination.agent, &examination.server) {
        (Some(agent), Some(server)) => format!("{server} of {agent}, {url}"),
        _ => url,
    };
    format!("{}\n\n", output.paint(Look::Bold, &printable(&who)))
}

/// `✓ token endpoint   POST https://…: refused, as it should be`.
fn line(step: &Step, output: Output) -> String {
    let (sign, word, look) = match step.outcome {
        Outcome::Passed => ("✓", "ok", Look::Good),
        Outcome::Failed => ("✗", "FAIL", Look::Bad),
        Outcome::Noted => ("!", "note", Look::Warning),
        Outcome::Skipped => ("–", "skip", Look::Dim),
    };
    let mark = if output.terminal { sign } else { word };
    let pad = 7 - mark.chars().count();
    let mark = output.paint(look, mark);
    let name = step.check.as_str();
    let asked = printable(&step.asked);
    let answered = printable(&step.answered);
    let said = if asked.is_empty() {
        answered
    } else {
        format!("{asked}: {answered}")
    };
    format!("{mark}{:pad$}{name:NAMES$}{said}\n", "")
}

fn verdict(examination: &Examination, output: Output) -> String {
    let Some(fault) = &examination.fault else {
        return format!("{}\n", output.paint(Look::Good, "Nothing is wrong."));
    };
    let kind = fault.kind.replace('_', " ");
    let named = format!("{} {kind}", fault.code);
    let mut text = format!(
        "{}: {}\n",
        output.paint(Look::Bad, &named),
        printable(&fault.message)
    );
    let mut add = |name: &str, said: &str| {
        let name = output.paint(Look::Bold, name);
        text.push_str(&format!("  {name}: {}\n", printable(said)));
    };
    if let Some(proof) = &examination.proof {
        let proof = if proof.asked.is_empty() {
            proof.answered.clone()
        } else {
            format!("{}: {}", proof.asked, proof.answered)
        };
        add("proof", &proof);
    }
    if let Some(act) = &examination.act {
        let who = match act.who {
            Who::Nobody => "nobody must act",
            Who::Person => "a person must sign in",
            Who::Operator => "the operator must act",
            Who::Provider => "the provider must act",
        };
        add(who, &act.what);
        if let Some(quote) = &act.quote {
            add("the standard", quote);
        }
    }
    if let Some(url) = &examination.sign_in_url {
        add("sign in", url);
    }
    if let Some(next) = &examination.next {
        add("next", &format!("{} at {}", next.reason, next.at));
    }
    text
}
