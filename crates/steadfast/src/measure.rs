//! What is counted, by the `metrics` facade: nothing of it costs anything until a program installs a recorder. Labels
//! are names of configured servers and words of Steadfast's own, never anything that a peer or an agent chose, so that
//! their number is bounded. `docs/metrics.md` says what each of them means.

use std::time::Instant;

use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use steadfast_core::effect::Executed;
use steadfast_core::operation::Fact;
use steadfast_core::{ServerName, connection};

use crate::call::{Answer, Failure, Message};
use crate::trace;

const TRANSITIONS: &str = "steadfast_connection_transitions_total";
const FAULTS: &str = "steadfast_connection_faults_total";
const RENEWALS: &str = "steadfast_grant_renewals_total";
const OPERATIONS: &str = "steadfast_operation_facts_total";
const CALLS: &str = "steadfast_calls_total";
const CALL_DURATION: &str = "steadfast_call_duration_seconds";

/// Tells the recorder what each of them means.
pub fn describe() {
    let of_count = [
        (TRANSITIONS, "States that connections entered"),
        (
            FAULTS,
            "Faults with which connections entered a state, by kind",
        ),
        (
            RENEWALS,
            "Renewals of grants that ended, by outcome: renewed, or the kind of the fault",
        ),
        (
            OPERATIONS,
            "Facts that were put on record of operations, by the state that they led to",
        ),
        (CALLS, "Requests of agents to a server, by how they ended"),
    ];
    for (name, text) in of_count {
        describe_counter!(name, Unit::Count, text);
    }
    describe_histogram!(
        CALL_DURATION,
        Unit::Seconds,
        "From the request of an agent to the end of its answer, where there is one"
    );
}

fn label(server: &ServerName) -> String {
    server.as_str().to_owned()
}

/// A connection entered a state.
pub(crate) fn transition(server: &ServerName, to: &connection::State) {
    counter!(TRANSITIONS, "server" => label(server), "to" => to.name()).increment(1);
    if let Some(fault) = to.fault() {
        counter!(FAULTS, "server" => label(server), "kind" => fault.kind.as_str()).increment(1);
    }
}

/// A renewal ended. `outcome` is `renewed`, or the kind of its fault.
pub(crate) fn renewal(server: &ServerName, outcome: &'static str) {
    counter!(RENEWALS, "server" => label(server), "outcome" => outcome).increment(1);
}

/// Facts of an operation are on record.
pub(crate) fn operation(server: &ServerName, facts: &[Fact]) {
    for fact in facts {
        counter!(OPERATIONS, "server" => label(server), "state" => fact.state.name()).increment(1);
    }
}

/// One request of an agent under way. Dropped before its end, its caller has gone away.
#[derive(Debug)]
pub(crate) struct Timed {
    server: ServerName,
    began: Instant,
    has_ended: bool,
    span: Option<trace::Open>,
}

impl Timed {
    pub(crate) fn start(server: &ServerName, span: Option<trace::Open>) -> Self {
        Self {
            server: server.clone(),
            began: Instant::now(),
            has_ended: false,
            span,
        }
    }

    /// Ends with its answer; one that streams goes on until its last message.
    pub(crate) fn answered(mut self, answer: &mut Answer) {
        match answer {
            Answer::Whole { .. } => self.end("answered"),
            Answer::Failed(failure) => self.end(how(failure)),
            Answer::Stream(stream) => stream.time(self),
        }
    }

    /// Ends with the last message of a stream.
    pub(crate) fn message(&mut self, message: &Message) {
        match message {
            Message::Response(_) => self.end("answered"),
            Message::Failed(failure) => self.end(how(failure)),
            Message::Notification(_) | Message::Request(_) => {}
        }
    }

    fn end(&mut self, outcome: &'static str) {
        self.has_ended = true;
        if let Some(span) = self.span.take() {
            span.end(outcome, outcome != "answered");
        }
        counter!(CALLS, "server" => label(&self.server), "outcome" => outcome).increment(1);
        if outcome == "answered" {
            let seconds = self.began.elapsed().as_secs_f64();
            histogram!(CALL_DURATION, "server" => label(&self.server)).record(seconds);
        }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end("left");
        }
    }
}

fn how(failure: &Failure) -> &'static str {
    match failure {
        Failure::Unavailable(_) => "unavailable",
        Failure::NoSuchTool(_) => "no_such_tool",
        Failure::NotObserved(known) if known.executed == Executed::No => "not_executed",
        Failure::NotObserved(_) => "not_observed",
        Failure::KeptBack(_) => "kept_back",
        Failure::Cancelled => "cancelled",
    }
}
