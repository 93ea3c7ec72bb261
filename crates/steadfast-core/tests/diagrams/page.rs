//! Turns what a machine does into a page: a Mermaid diagram and a table.

use std::fmt::{Debug, Write as _};
use std::path::Path;

use steadfast_core::step::Outcome;
use steadfast_core::{AttemptId, Deadline, Jitter, Reason};

use crate::NOW;
use crate::common::{Machine, Moment};

/// A state to draw; the condition tells apart those of one name.
pub(crate) struct Drawn<T> {
    condition: &'static str,
    pub(crate) it: T,
}

pub(crate) fn drawn<T>(condition: &'static str, it: T) -> Drawn<T> {
    Drawn { condition, it }
}

/// What one event does in one state.
#[derive(Clone, PartialEq, Eq)]
struct Effect {
    to: &'static str,
    follows: String,
    wake_up: &'static str,
    ignored: bool,
}

fn effect<M: Machine>(state: &M::State, event: &M::Event, policy: &M::Policy) -> Effect {
    let moment = Moment {
        now: NOW,
        jitter: Jitter(1 << 31),
        attempt: AttemptId(2),
    };
    let step = M::step(state.clone(), event.clone(), moment, policy);
    let to = M::name(&step.state);
    let ignored = match step.outcome {
        Outcome::Used => false,
        Outcome::Ignored { .. } => true,
        Outcome::Violation { why } => panic!("{state:?}, {event:?}: {why}"),
    };
    let mut follows = match (ignored, to == M::name(state)) {
        (true, _) => "ignored".to_owned(),
        (false, true) => "stays".to_owned(),
        (false, false) => format!("→ `{to}`"),
    };
    for (position, action) in step.actions.iter().enumerate() {
        let separator = if position == 0 { ": " } else { ", " };
        write!(follows, "{separator}{}", variant(action)).unwrap();
    }
    Effect {
        to,
        follows,
        wake_up: wake_up(step.deadline),
        ignored,
    }
}

/// The name of an enum's variant.
pub(crate) fn variant(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    let end = text.find(|c: char| !c.is_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

fn wake_up(deadline: Option<Deadline>) -> &'static str {
    match deadline.map(|deadline| deadline.reason) {
        None => "none",
        Some(Reason::Reconnect) => "reconnect",
        Some(Reason::Turn) => "reconnect, in turn",
        Some(Reason::AttemptLimit) => "limit of the attempt",
        Some(Reason::CheckHealth) => "check health",
        Some(Reason::ReopenStream) => "reopen stream",
        Some(Reason::RenewStream) => "renew stream",
        Some(Reason::RecheckStream) => "recheck stream",
        Some(Reason::OpenLimit) => "limit of opening",
        Some(Reason::ResumeAnswer) => "resume answer",
        Some(Reason::Silence) => "limit of silence",
        Some(Reason::RenewGrant) => "renewal",
        Some(Reason::RetryRenewal) => "next try",
        Some(Reason::AwaitLease) => "lease of another daemon",
        Some(Reason::RenewalLimit) => "limit of the renewal",
        Some(Reason::RecheckGrant) => "one more try",
        Some(Reason::GrantEnds) => "its end",
        Some(Reason::RepeatCall) => "sent once more",
        Some(Reason::LookUp) => "lookup",
        Some(Reason::LookupLimit) => "limit of the lookup",
    }
}

pub(crate) fn article<M: Machine>(
    states: &[Drawn<M::State>],
    events: &[(&'static str, M::Event)],
    policy: &M::Policy,
) -> String {
    let mut page = format!(
        "# The machine `{0}`\n\n\
         <!-- Drawn by `cargo xtask diagrams` from crates/steadfast-core/tests/diagrams. Do not edit. -->\n\n\
         Every event in every state, as the code of `steadfast_core::{1}` answers it. Events of older\n\
         attempts, openings and sessions are always ignored, and not shown.\n\n",
        M::NAME,
        module(M::NAME),
    );
    let effects: Vec<Vec<Effect>> = states
        .iter()
        .map(|state| {
            let effects = events.iter();
            effects
                .map(|(_, event)| effect::<M>(&state.it, event, policy))
                .collect()
        })
        .collect();
    let names: Vec<&str> = states.iter().map(|state| M::name(&state.it)).collect();
    diagram(&mut page, &names, events, &effects);
    table::<M>(&mut page, states, &names, events, &effects);
    page
}

fn module(machine: &str) -> String {
    match machine {
        "listen" | "answer" => format!("stream::{machine}"),
        other => other.to_owned(),
    }
}

/// The order of first appearance, each once.
fn unique<T: PartialEq + Clone>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

fn diagram<E>(page: &mut String, names: &[&str], events: &[(&str, E)], effects: &[Vec<Effect>]) {
    page.push_str("```mermaid\nstateDiagram-v2\n");
    writeln!(page, "    [*] --> {}", names[0]).unwrap();
    for from in unique(names.iter().copied()) {
        let rows = || (0..names.len()).filter(move |row| names[*row] == from);
        for to in unique(names.iter().copied())
            .into_iter()
            .filter(|to| *to != from)
        {
            let labels: Vec<&str> = events
                .iter()
                .enumerate()
                .filter(|(column, _)| rows().any(|row| effects[row][*column].to == to))
                .map(|(_, (label, _))| *label)
                .collect();
            if !labels.is_empty() {
                let labels = labels.join("<br/>");
                writeln!(page, "    {from} --> {to}: {labels}").unwrap();
            }
        }
    }
    page.push_str("```\n\n");
}

fn table<M: Machine>(
    page: &mut String,
    states: &[Drawn<M::State>],
    names: &[&str],
    events: &[(&'static str, M::Event)],
    effects: &[Vec<Effect>],
) {
    page.push_str("| state | event | what follows | next wake-up |\n| --- | --- | --- | --- |\n");
    for name in unique(names.iter().copied()) {
        let rows: Vec<usize> = (0..names.len()).filter(|row| names[*row] == name).collect();
        let mut lines: Vec<(String, Effect, Vec<&str>)> = Vec::new();
        for (column, (label, _)) in events.iter().enumerate() {
            let of = |row: &usize| effects[*row][column].clone();
            let all = unique(rows.iter().map(of));
            for effect in &all {
                let states = if all.len() == 1 {
                    format!("`{name}`")
                } else {
                    let with = rows.iter().filter(|row| of(row) == *effect);
                    let conditions: Vec<&str> = with.map(|row| states[*row].condition).collect();
                    format!("`{name}`, {}", conditions.join(" or "))
                };
                let line = lines
                    .iter_mut()
                    .find(|line| line.0 == states && line.1 == *effect);
                match line {
                    Some((_, _, labels)) => labels.push(label),
                    None => lines.push((states, effect.clone(), vec![label])),
                }
            }
        }
        // What is used first, what is ignored last.
        lines.sort_by_key(|(_, effect, _)| effect.ignored);
        for (states, effect, labels) in lines {
            let Effect {
                follows, wake_up, ..
            } = effect;
            writeln!(
                page,
                "| {states} | {} | {follows} | {wake_up} |",
                labels.join(" · ")
            )
            .unwrap();
        }
    }
}

pub(crate) fn compare(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/machines/{name}.md"));
    if std::env::var_os("UPDATE_DIAGRAMS").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let on_disk = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        on_disk == page,
        "docs/machines/{name}.md is not what the machine does; run `cargo xtask diagrams`"
    );
}
