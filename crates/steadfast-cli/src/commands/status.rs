//! `steadfast status`: every connection, what is wrong with it and what happens next.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use steadfast::Report;
use steadfast::wording::{self, Note};

use super::notices;
use crate::client::{Client, Events};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Cell, Look, Output, Table};

/// How often the times on a watched screen are drawn again, and how long to wait for a daemon that is gone.
const BEAT: Duration = Duration::from_secs(1);

/// `status [AGENT] [--watch]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only the connections of this agent
    agent: Option<String>,
    /// Stay, and show every change as it happens
    #[arg(long)]
    watch: bool,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Exit, Failure> {
    let daemon = context.daemon()?;
    if let Some(agent) = &arguments.agent {
        // An agent without connections and an agent that is not there would look alike.
        daemon.get(&["agents", agent]).await?;
    }
    if arguments.watch {
        return watch(context.output, &daemon, arguments.agent.as_deref()).await;
    }
    let answer = daemon.get(&["connections"]).await?;
    let connections: Vec<Value> = answer["connections"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|connection| is_of(connection, arguments.agent.as_deref()))
        .cloned()
        .collect();
    show(context.output, &connections)?;
    if !context.output.json {
        let open = notices::count_open(&daemon, arguments.agent.as_deref()).await?;
        notices::footer(context.output, open)?;
    }
    Ok(ending(&read_all(&connections)?))
}

fn is_of(connection: &Value, agent: Option<&str>) -> bool {
    agent.is_none_or(|agent| connection["agent"] == agent)
}

/// Reads connection objects.
pub(super) fn read_all(connections: &[Value]) -> Result<Vec<Report>, Failure> {
    let read =
        |connection: &Value| serde_json::from_value(connection.clone()).map_err(Failure::foreign);
    connections.iter().map(read).collect()
}

/// Prints connection objects: as they came, or as a table.
pub(super) fn show(output: Output, connections: &[Value]) -> Result<(), Failure> {
    if output.json {
        return output.json(&json!({"connections": connections}));
    }
    if connections.is_empty() {
        output.note("No agent is connected to a server: `steadfast server add NAME URL`, `steadfast agent add NAME`.");
        return Ok(());
    }
    output.raw(&table(&read_all(connections)?, Timestamp::now()).render(output))
}

/// 3 where a person must act.
pub(super) fn ending(reports: &[Report]) -> Exit {
    if reports.iter().any(wording::needs_person) {
        Exit::Person
    } else {
        Exit::Done
    }
}

fn table(reports: &[Report], now: Timestamp) -> Table {
    let mut table = Table::new(&["AGENT", "SERVER", "STATE", "FOR", "TOOLS", "NEXT"]);
    // The daemon's answer is in the order of the agents' names.
    let agents: Vec<_> = reports.chunk_by(|a, b| a.agent == b.agent).collect();
    for (place, of_agent) in agents.iter().enumerate() {
        if place > 0 {
            table.gap();
        }
        for (place, report) in of_agent.iter().enumerate() {
            let agent = if place == 0 { &*report.agent } else { "" };
            add(&mut table, agent, report, now);
        }
    }
    if agents.len() > 1 {
        table.gap();
        table.line(Cell::from(summary(reports, agents.len())));
    }
    table
}

fn add(table: &mut Table, agent: &str, report: &Report, now: Timestamp) {
    let look = match report.state.as_str() {
        _ if wording::needs_person(report) => Look::Bad,
        "connected" => Look::Good,
        "disabled" => Look::Dim,
        _ => Look::Warning,
    };
    let tools = report.tools.map(|tools| tools.to_string());
    table.row(vec![
        agent.into(),
        report.server.clone().into(),
        Cell::from(wording::state(report)).look(look),
        wording::age(report, now).into(),
        tools.unwrap_or_default().into(),
        wording::next(report, now).unwrap_or_default().into(),
    ]);
    for note in wording::notes(report) {
        let look = match note {
            Note::Fault(_) => Look::Plain,
            Note::Hint(_) | Note::Stream(_) => Look::Dim,
            Note::SignIn(_) => Look::Bold,
        };
        table.line(Cell::from(note.text()).look(look));
    }
}

/// All in one line: how many there are, and how they are.
fn summary(reports: &[Report], agents: usize) -> String {
    let count = |is_one: &dyn Fn(&Report) -> bool| reports.iter().filter(|it| is_one(it)).count();
    let connected = count(&|report| report.state == "connected");
    let mut text = format!(
        "{} connections of {agents} agents: {connected} connected",
        reports.len()
    );
    match count(&wording::needs_person) {
        0 => {}
        1 => text.push_str(", 1 needs a person"),
        several => text.push_str(&format!(", {several} need a person")),
    }
    text
}

type Connections = BTreeMap<(String, String), Value>;

fn key(connection: &Value) -> (String, String) {
    let text = |name: &str| connection[name].as_str().unwrap_or_default().to_owned();
    (text("agent"), text("server"))
}

async fn watch(output: Output, daemon: &Client, agent: Option<&str>) -> Result<Exit, Failure> {
    let mut events = Some(daemon.changes().await?);
    let mut connections = Connections::new();
    let mut stop = super::serve::Stop::new()?;
    loop {
        tokio::select! {
            () = stop.asked() => break,
            () = tokio::time::sleep(BEAT) => {
                if events.is_none() {
                    // The daemon may be back. What left meanwhile is not announced again.
                    events = daemon.changes().await.ok();
                    if events.is_some() {
                        connections.clear();
                    }
                }
                redraw(output, &connections, events.is_some())?;
            }
            event = next(&mut events) => match event {
                None => {
                    events = None;
                    redraw(output, &connections, false)?;
                }
                Some((name, connection))
                    if matches!(&*name, "connection" | "removed") && is_of(&connection, agent) =>
                {
                    changed(output, &mut connections, &name, connection)?;
                }
                Some(_) => {}
            }
        }
    }
    let connections: Vec<Value> = connections.into_values().collect();
    Ok(ending(&read_all(&connections)?))
}

async fn next(events: &mut Option<Events>) -> Option<(String, Value)> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

fn changed(
    output: Output,
    connections: &mut Connections,
    event: &str,
    connection: Value,
) -> Result<(), Failure> {
    let is_removed = event == "removed";
    if output.json {
        let mut told = connection.clone();
        if let (true, Some(told)) = (is_removed, told.as_object_mut()) {
            told.insert("state".to_owned(), "removed".into());
        }
        output.json_line(&told)?;
    } else if !output.terminal {
        output.line(change_line(&connection, is_removed))?;
    }
    let key = key(&connection);
    if is_removed {
        connections.remove(&key);
    } else {
        connections.insert(key, connection);
    }
    redraw(output, connections, true)
}

/// A change in one line, where there is no screen to draw on.
fn change_line(connection: &Value, is_removed: bool) -> String {
    let (agent, server) = key(connection);
    let text = |pointer: &str| {
        connection
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let state = if is_removed {
        "removed".to_owned()
    } else {
        text("/state").replace('_', " ")
    };
    let fault = match text("/fault/code") {
        code if code.is_empty() => String::new(),
        code => format!(
            " {code} {}",
            crate::output::printable(&text("/fault/message"))
        ),
    };
    let next = match text("/next/reason") {
        reason if reason.is_empty() => String::new(),
        reason => format!(" (next: {reason}, {})", text("/next/at")),
    };
    format!("{} {agent} {server} {state}{fault}{next}", text("/since"))
}

fn redraw(output: Output, connections: &Connections, is_live: bool) -> Result<(), Failure> {
    if output.json || !output.terminal {
        return Ok(());
    }
    let connections: Vec<Value> = connections.values().cloned().collect();
    let mut screen = String::from("\x1b[H\x1b[2J");
    screen.push_str(&table(&read_all(&connections)?, Timestamp::now()).render(output));
    if !is_live {
        screen
            .push_str(&output.paint(Look::Bad, "\nThe daemon does not answer; waiting for it.\n"));
    }
    output.raw(&screen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-30T10:00:00Z";

    fn plain(reports: &[Value]) -> String {
        let reports = read_all(reports).unwrap();
        table(&reports, NOW.parse().unwrap()).render(Output::new(false))
    }

    fn connected() -> Value {
        json!({
            "agent": "support", "server": "booking", "state": "connected", "since": "2026-11-30T06:47:00Z",
            "fault": null, "next": null, "revision": "2025-11-25", "era": "legacy", "session_age_s": 1,
            "tools": 12, "last_answer_at": null, "grant": {"state": "none"}, "sign_in_url": null
        })
    }

    fn broken() -> Value {
        let mut broken = connected();
        broken["server"] = "tickets".into();
        broken["state"] = "retrying".into();
        broken["since"] = "2026-11-30T09:59:18Z".into();
        broken["next"] = json!({"at": "2026-11-30T10:00:03Z", "kind": "reconnect", "reason": "reconnect, attempt 4"});
        broken["fault"] = json!({
            "code": "SF0021", "kind": "timeout", "message": "no headers within 10 s\u{1b}[2J",
            "hint": "Nothing to do.", "person_needed": false
        });
        broken
    }

    #[test]
    fn the_table_says_what_is_wrong_and_what_happens_next() {
        assert_eq!(
            plain(&[connected(), broken()]),
            "AGENT    SERVER   STATE      FOR     TOOLS  NEXT\n\
             support  booking  connected  3h 13m  12\n         \
             tickets  retrying   42s     12     reconnect, attempt 4 in 3s\n  \
             SF0021 timeout: no headers within 10 s\u{fffd}[2J\n  \
             hint: Nothing to do.\n"
        );
    }

    #[test]
    fn several_agents_are_groups_with_a_summary() {
        let mut other = connected();
        other["agent"] = "sales".into();
        let mut signed_out = broken();
        signed_out["agent"] = "sales".into();
        signed_out["state"] = "awaiting_sign_in".into();
        signed_out["fault"] = Value::Null;
        signed_out["next"] = Value::Null;
        assert_eq!(
            plain(&[other, signed_out, connected()]),
            "AGENT    SERVER   STATE             FOR     TOOLS  NEXT\n\
             sales    booking  connected         3h 13m  12\n         \
             tickets  awaiting sign in  42s     12\n\
             \n\
             support  booking  connected         3h 13m  12\n\
             \n  \
             3 connections of 2 agents: 2 connected, 1 needs a person\n"
        );
    }

    #[test]
    fn a_change_is_one_line() {
        assert_eq!(
            change_line(&broken(), false),
            "2026-11-30T09:59:18Z support tickets retrying SF0021 no headers within 10 s\u{fffd}[2J \
             (next: reconnect, attempt 4, 2026-11-30T10:00:03Z)"
        );
        assert!(change_line(&json!({"agent": "a", "server": "b"}), true).ends_with(" a b removed"));
    }

    #[test]
    fn what_waits_for_a_person_is_an_exit_code() {
        let ending =
            |connection: &Value| ending(&read_all(std::slice::from_ref(connection)).unwrap());
        assert_eq!(ending(&connected()), Exit::Done);
        assert_eq!(ending(&broken()), Exit::Done);
        for state in ["awaiting_sign_in", "misconfigured"] {
            let mut waiting = connected();
            waiting["state"] = state.into();
            assert_eq!(ending(&waiting), Exit::Person, "{state}");
        }
        let mut refused = broken();
        refused["fault"]["person_needed"] = true.into();
        assert_eq!(ending(&refused), Exit::Person);
    }
}
