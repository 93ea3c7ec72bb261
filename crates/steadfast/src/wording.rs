//! How the state of a connection, and of an operation, is said: the same words on the terminal, for the model of an agent and
//! in the console.

use jiff::Timestamp;
use steadfast_core::effect::Executed;
use steadfast_store::{Moment, NoticeRecord};

use crate::operations::OperationReport;
use crate::report::Report;

/// A line about a connection, besides the one that says its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// What is wrong.
    Fault(String),
    /// What to do about it.
    Hint(String),
    /// What there is to say about the server's own stream.
    Stream(String),
    /// Where a person signs in.
    SignIn(String),
}

impl Note {
    /// The line.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Fault(text) | Self::Hint(text) | Self::Stream(text) | Self::SignIn(text) => text,
        }
    }
}

/// `awaiting sign in`.
#[must_use]
pub fn state(report: &Report) -> String {
    report.state.replace('_', " ")
}

/// `3h 13m`: how long it has been in that state.
#[must_use]
pub fn age(report: &Report, now: Timestamp) -> String {
    let since = report.since.parse::<Timestamp>();
    since.map_or_else(|_| String::new(), |since| length((now - since).as_secs()))
}

/// `reconnect, attempt 4 in 3s`.
#[must_use]
pub fn next(report: &Report, now: Timestamp) -> Option<String> {
    let next = report.next.as_ref()?;
    Some(format!("{} {}", next.reason, until(&next.at, now)))
}

/// The lines below the one with the state.
#[must_use]
pub fn notes(report: &Report) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(fault) = &report.fault {
        let kind = fault.kind.replace('_', " ");
        let text = format!("{} {kind}: {}", fault.code, fault.message);
        notes.push(Note::Fault(text));
        notes.push(Note::Hint(format!("hint: {}", fault.hint)));
    }
    if let Some(stream) = &report.stream {
        notes.push(Note::Stream(format!("stream: {stream}")));
    }
    if let Some(url) = &report.sign_in_url {
        notes.push(Note::SignIn(format!("sign in: {url}")));
    }
    notes
}

/// What a notice says.
#[must_use]
pub fn notice(notice: &NoticeRecord) -> String {
    let (agent, server) = (notice.agent.as_str(), notice.server.as_str());
    let fault = &notice.fault.message;
    format!("the server `{server}` of the agent `{agent}` needs you: {fault}")
}

/// What a message about a notice says; `link` is where a person signs in.
#[must_use]
pub fn told(of: &NoticeRecord, moment: Moment, link: Option<&str>) -> String {
    match moment {
        Moment::Opened => {
            let code = of.fault.kind.code();
            let reloading = if of.fault.person_needed() {
                " Reloading does not help."
            } else {
                ""
            };
            let link = link.map_or_else(String::new, |link| format!(" Sign in: {link}"));
            format!(
                "Steadfast: {} ({code}). {}{reloading}{link}",
                notice(of),
                code.hint
            )
        }
        Moment::Cleared => {
            let (agent, server) = (of.agent.as_str(), of.server.as_str());
            format!("Steadfast: the server `{server}` of the agent `{agent}` needs you no more.")
        }
    }
}

/// Whether only a person can help.
#[must_use]
pub fn needs_person(report: &Report) -> bool {
    matches!(report.state.as_str(), "awaiting_sign_in" | "misconfigured")
        || report
            .fault
            .as_ref()
            .is_some_and(|fault| fault.person_needed)
}

/// How one operation stands, in one sentence.
#[must_use]
pub fn operation(operation: &OperationReport) -> String {
    let mut sentence = format!(
        "{}: {} of {} at {} is {}, {}",
        operation.id,
        operation.tool,
        operation.agent,
        operation.server,
        operation_state(&operation.state),
        executed(operation),
    );
    if let Some(next) = operation_next(operation) {
        sentence.push_str("; ");
        sentence.push_str(&next);
    }
    sentence
}

/// The state of an operation, in words.
#[must_use]
pub fn operation_state(state: &str) -> String {
    state.replace('_', " ")
}

/// Whether an operation ran, as far as it is known.
#[must_use]
pub const fn executed(operation: &OperationReport) -> &'static str {
    match operation.executed {
        Executed::Yes => "and was executed",
        Executed::No => "and was not executed",
        Executed::Unknown => "and nobody knows whether it was executed",
    }
}

/// What happens next to an operation, or why a person must decide; `None` where nothing does.
#[must_use]
pub fn operation_next(operation: &OperationReport) -> Option<String> {
    match (&operation.next, &operation.next_at, &operation.why) {
        (Some(next), Some(at), _) => Some(format!("next: {next}, at {at}")),
        (Some(next), None, _) => Some(format!("next: {next}")),
        (None, _, Some(why)) => Some(format!("a person must decide: {why}")),
        (None, _, None) => None,
    }
}

/// The connections of one agent in one paragraph each.
#[must_use]
pub fn paragraphs(reports: &[Report], now: Timestamp) -> String {
    if reports.is_empty() {
        return "This agent has no servers.".to_owned();
    }
    let paragraph = |report: &Report| {
        let mut text = format!(
            "{}: {} for {}",
            report.server,
            state(report),
            age(report, now)
        );
        if let Some(tools) = report.tools {
            text.push_str(&format!(", {tools} tools"));
        }
        if let Some(next) = next(report, now) {
            text.push_str(&format!(", next: {next}"));
        }
        for note in notes(report) {
            text.push_str("\n  ");
            text.push_str(note.text());
        }
        text
    };
    let paragraphs: Vec<_> = reports.iter().map(paragraph).collect();
    paragraphs.join("\n")
}

/// How far ahead a time is.
#[must_use]
pub fn until(at: &str, now: Timestamp) -> String {
    match at.parse::<Timestamp>().map(|at| (at - now).as_secs()) {
        Ok(seconds) if seconds > 0 => format!("in {}", length(seconds)),
        Ok(_) => "now".to_owned(),
        Err(_) => String::new(),
    }
}

/// Seconds as people say them, in the two largest units.
#[must_use]
pub fn length(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        (_, _, _) => format!("{days}d {}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_paragraph_says_what_is_wrong_and_what_happens_next() {
        let report = json!({
            "agent": "support", "server": "tickets", "state": "awaiting_sign_in",
            "since": "2026-11-30T06:47:00Z", "revision": "2025-11-25", "era": "legacy",
            "session_age_s": null, "tools": 12, "last_answer_at": null, "stream": "reopening",
            "fault": {"code": "SF0031", "kind": "sign_in_required", "message": "401 without a grant",
                      "hint": "Sign in.", "person_needed": true},
            "next": {"at": "2026-11-30T10:00:03Z", "kind": "reconnect", "reason": "reconnect, attempt 4"},
            "grant": {"state": "none"}, "sign_in_url": "https://as.example.com/x"
        });
        let report: Report = serde_json::from_value(report).unwrap();
        let now = "2026-11-30T10:00:00Z".parse().unwrap();
        assert!(needs_person(&report));
        assert_eq!(
            paragraphs(&[report], now),
            "tickets: awaiting sign in for 3h 13m, 12 tools, next: reconnect, attempt 4 in 3s\n  \
             SF0031 sign in required: 401 without a grant\n  hint: Sign in.\n  stream: reopening\n  \
             sign in: https://as.example.com/x"
        );
        assert_eq!(paragraphs(&[], now), "This agent has no servers.");
    }

    #[test]
    fn lengths_have_two_units() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m 1s"),
            (3_600, "1h 0m"),
            (90_000, "1d 1h"),
            (-5, "0s"),
        ] {
            assert_eq!(length(seconds), text);
        }
    }
}
