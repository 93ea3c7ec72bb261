//! `steadfast operations`: what became of consequential calls, and what a person decides about them.

mod shown;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use steadfast::{OperationDetails, OperationReport, wording};
use steadfast_core::code;

use crate::client::Client;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How many operations one request of an export asks for.
const PART: &str = "500";

/// `operations list|show|reconcile|settle|export`.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// List operations, the newest first
    List(List),
    /// Show everything on record of one: what was meant, sent, seen and concluded
    Show {
        /// `op_…`
        id: String,
    },
    /// Look one up at the provider now, whatever the schedule says
    Reconcile {
        /// `op_…`
        id: String,
    },
    /// Say what became of one whose outcome nobody knows
    Settle(Settle),
    /// Write everything on record of all, as JSON lines
    Export(Wanted),
}

/// Which operations.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Only those of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only those at this server
    #[arg(long)]
    server: Option<String>,
    /// Only those in this state, such as `held`
    #[arg(long)]
    state: Option<String>,
}

/// `operations list`.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    wanted: Wanted,
    /// How many at most
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Stay, and show every change as it happens
    #[arg(long)]
    follow: bool,
}

/// `operations settle`.
#[derive(Args)]
pub(crate) struct Settle {
    /// `op_…`
    id: String,
    /// What became of it
    outcome: Outcome,
    /// Send it again, as the same operation; only with `no-effect`
    #[arg(long)]
    repeat: bool,
    /// How you know: kept with the decision
    #[arg(long)]
    note: Option<String>,
}

/// What a person found out.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Outcome {
    /// It had its effect
    Confirmed,
    /// It had none
    NoEffect,
    /// Nobody will find out
    Abandoned,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::NoEffect => "no_effect",
            Self::Abandoned => "abandoned",
        }
    }
}

impl Wanted {
    fn query(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("agent", &self.agent),
            ("server", &self.server),
            ("state", &self.state),
        ];
        let set = all.into_iter();
        set.filter_map(|(name, value)| Some((name, value.as_deref()?)))
            .collect()
    }

    fn includes(&self, operation: &Value) -> bool {
        let mut query = self.query().into_iter();
        query.all(|(name, value)| operation[name] == value)
    }
}

/// Runs the command. 3 where a listed operation waits for a person.
pub(crate) async fn run(context: &Context, command: Command) -> Result<Exit, Failure> {
    let daemon = context.daemon()?;
    let output = context.output;
    match command {
        Command::List(list) if list.follow => follow(output, &daemon, &list).await,
        Command::List(list) => {
            let limit = list.limit.to_string();
            let mut query = list.wanted.query();
            query.push(("limit", &limit));
            show_list(output, &page(&daemon, &query).await?)
        }
        Command::Show { id } => show(output, &daemon, &id).await,
        Command::Reconcile { id } => {
            let answer = daemon.post(&["operations", &id, "reconcile"], None).await?;
            tell(output, &answer)
        }
        Command::Settle(settle) => settle_one(output, &daemon, &settle).await,
        Command::Export(wanted) => export(output, &daemon, &wanted).await,
    }
}

async fn page(daemon: &Client, query: &[(&str, &str)]) -> Result<Vec<Value>, Failure> {
    let mut answer = daemon.get_with(&["operations"], query).await?;
    match answer["operations"].take() {
        Value::Array(operations) => Ok(operations),
        _ => Err(Failure::foreign("it lists no operations")),
    }
}

fn show_list(output: Output, operations: &[Value]) -> Result<Exit, Failure> {
    let read = operations
        .iter()
        .map(read)
        .collect::<Result<Vec<OperationReport>, Failure>>()?;
    if output.json {
        output.json(&json!({"operations": operations}))?;
    } else if read.is_empty() {
        output.note("There are no such operations: no consequential call was made.");
    } else {
        output.raw(&shown::table(&read).render(output))?;
    }
    Ok(ending(&read))
}

/// 3 where a person must decide.
fn ending(operations: &[OperationReport]) -> Exit {
    if operations.iter().any(|operation| operation.state == "held") {
        Exit::Person
    } else {
        Exit::Done
    }
}

async fn show(output: Output, daemon: &Client, id: &str) -> Result<Exit, Failure> {
    let answer = daemon.get(&["operations", id]).await?;
    let details: OperationDetails = read(&answer)?;
    if output.json {
        output.json(&answer)?;
    } else {
        output.raw(&shown::story(&details, output))?;
    }
    Ok(ending(&[details.operation]))
}

async fn settle_one(output: Output, daemon: &Client, settle: &Settle) -> Result<Exit, Failure> {
    if settle.repeat && settle.outcome != Outcome::NoEffect {
        let message = "--repeat goes with no-effect only: what may have happened is not sent again";
        return Err(Failure::new(code::CONFIG_BAD_VALUE, message).usage());
    }
    let decision = json!({
        "outcome": settle.outcome.as_str(),
        "repeat": settle.repeat,
        "note": settle.note,
    });
    let path = ["operations", &settle.id, "settle"];
    let answer = daemon.post(&path, Some(&decision)).await?;
    tell(output, &answer)
}

/// How one operation stands now.
fn tell(output: Output, answer: &Value) -> Result<Exit, Failure> {
    let operation: OperationReport = read(answer)?;
    if output.json {
        output.json(answer)?;
    } else {
        output.line(wording::operation(&operation))?;
    }
    Ok(ending(&[operation]))
}

/// What there is, the oldest first, and then every change.
async fn follow(output: Output, daemon: &Client, list: &List) -> Result<Exit, Failure> {
    // Asked for before the list is read, so that no change falls between.
    let mut changes = daemon.changes().await?;
    let limit = list.limit.to_string();
    let mut query = list.wanted.query();
    query.push(("limit", &limit));
    for operation in page(daemon, &query).await?.iter().rev() {
        follow_one(output, operation)?;
    }
    while let Some((name, change)) = changes.next().await {
        if name == "operation" && list.wanted.includes(&change) {
            follow_one(output, &change)?;
        }
    }
    let message = "the daemon ended the stream of changes";
    Err(Failure::new(code::NO_DAEMON, message))
}

fn follow_one(output: Output, operation: &Value) -> Result<(), Failure> {
    if output.json {
        return output.json_line(operation);
    }
    let read: OperationReport = read(operation)?;
    output.line(format!("{} {}", read.changed_at, wording::operation(&read)))
}

/// Everything, one operation a line, the newest first.
async fn export(output: Output, daemon: &Client, wanted: &Wanted) -> Result<Exit, Failure> {
    let mut before: Option<String> = None;
    loop {
        let mut query = wanted.query();
        query.push(("limit", PART));
        if let Some(before) = &before {
            query.push(("before", before));
        }
        let part = page(daemon, &query).await?;
        for operation in &part {
            let operation: OperationReport = read(operation)?;
            let details = daemon.get(&["operations", &operation.id]).await?;
            output.json_line(&details)?;
            before = Some(operation.id);
        }
        if part.is_empty() {
            return Ok(Exit::Done);
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    serde_json::from_value(value.clone()).map_err(Failure::foreign)
}
