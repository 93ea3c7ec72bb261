//! What an outcome means: an attempt that was refused, lost or answered, and a lookup.

use super::{enter, ignored, unanswered};
use crate::backoff;
use crate::now::Millis;
use crate::operation::{Action, Context, Decider, Evidence, Finding, Said, State, Step, Trail};

/// The attempt under way was not executed.
pub(super) fn refused(state: State, bytes_sent: u64, proof: String, cx: &Context<'_>) -> Step {
    let State::Sent { mut trail } = state else {
        return ignored(state, "nothing is under way");
    };
    trail.bytes_sent = bytes_sent;
    let evidence = Evidence::Refused { bytes_sent, proof };
    if trail.unknown > 0 {
        // That this attempt was refused proves nothing about the one before it.
        return go_on(trail, evidence, None, cx);
    }
    if trail.asked {
        // The legs before it were answered.
        let state = State::Observed {
            trail,
            said: Said::InputRequired,
            late: false,
        };
        let decision = "this leg was not executed: it may be sent again";
        return enter(state, evidence, Vec::new(), decision, cx);
    }
    let decision = "it was not executed: it may be sent again";
    enter(
        State::Intended { trail },
        evidence,
        Vec::new(),
        decision,
        cx,
    )
}

/// The answer was not observed: that is not "it failed".
pub(super) fn lost(
    state: State,
    bytes_sent: u64,
    what: String,
    retry_after: Option<Millis>,
    cx: &Context<'_>,
) -> Step {
    let State::Sent { trail } = state else {
        return ignored(state, "nothing is under way");
    };
    let trail = unanswered(trail, bytes_sent);
    let evidence = Evidence::Lost {
        bytes_sent,
        evidence: what,
    };
    go_on(trail, evidence, retry_after, cx)
}

/// An attempt may have been executed: it is sent once more where the contract covers that, else looked into.
fn go_on(trail: Trail, evidence: Evidence, retry_after: Option<Millis>, cx: &Context<'_>) -> Step {
    match again(&trail, retry_after, cx) {
        Ok(state) => {
            let decision = "the duplicate-prevention contract covers a repeat: it is sent again with the same key";
            enter(state, evidence, vec![Action::Repeat], decision, cx)
        }
        Err(why) => find_out(trail, evidence, why, cx),
    }
}

/// Whether it may be sent once more by itself; else why not, where there is a contract that might have said so.
fn again(
    trail: &Trail,
    retry_after: Option<Millis>,
    cx: &Context<'_>,
) -> Result<State, Option<&'static str>> {
    let key = cx.contract.duplicate_key.as_ref().ok_or(None)?;
    let repeats = trail.unknown.saturating_sub(1);
    if repeats >= cx.policy.again_limit {
        return Err(Some("it was sent again often enough"));
    }
    if trail.task.is_some() {
        return Err(Some("the server made a task of it"));
    }
    let max = cx.policy.again_first.0.saturating_mul(8);
    let delay = backoff::delay(cx.policy.again_first, Millis(max), repeats + 1, cx.jitter);
    let delay = backoff::honour(delay, retry_after, cx.policy.again_first, cx.jitter);
    let then = crate::now::Wall(cx.now.wall.0.saturating_add_unsigned(delay.0));
    key.covers(trail.first_sent, then).map_err(Some)?;
    Ok(State::NotObserved {
        trail: trail.clone(),
        due: cx.now.mono + delay,
        repeats,
    })
}

/// What can be done about an answer that is lost, short of sending it again.
pub(super) fn find_out(
    trail: Trail,
    evidence: Evidence,
    why_not_again: Option<&'static str>,
    cx: &Context<'_>,
) -> Step {
    // The server's own handle on this very call says more than any record.
    let way = match &cx.contract.lookup {
        _ if trail.task.is_some() => Some((
            Millis::ZERO,
            "the result was not observed: the task is followed",
        )),
        Some(lookup) => Some((
            lookup.settle_after,
            "the result was not observed: it is looked up at the provider",
        )),
        None => None,
    };
    if let Some((delay, decision)) = way {
        let state = State::Reconciling {
            trail,
            due: cx.now.mono + delay,
            tries: 0,
            asking: false,
        };
        return enter(state, evidence, Vec::new(), decision, cx);
    }
    let why = match why_not_again {
        Some(why) => format!("no lookup contract, and {why}"),
        None => "no contract says how to find out, or that a repeat is safe".to_owned(),
    };
    hold(trail, evidence, why, cx)
}

fn hold(trail: Trail, evidence: Evidence, why: String, cx: &Context<'_>) -> Step {
    let decision = format!("held for a person: {why}");
    let state = State::Held { trail, why };
    enter(state, evidence, vec![Action::Tell], decision, cx)
}

/// An answer that carries its id: observed, whatever it says, and whenever it comes. The provider's own word is
/// better evidence than any record or person.
pub(super) fn answered(state: State, said: Said, awaited: bool, cx: &Context<'_>) -> Step {
    match state {
        State::Sent { trail } => observe(trail, said, !awaited, cx),
        State::NotObserved { trail, .. }
        | State::Reconciling { trail, .. }
        | State::Confirmed { trail, .. }
        | State::NoEffect { trail, .. }
        | State::Held { trail, .. }
        | State::Abandoned { trail, .. } => observe(trail, said, true, cx),
        State::Intended { .. } => ignored(state, "nothing has left that could be answered"),
        State::Observed { .. } => ignored(state, "it was answered before"),
    }
}

fn observe(mut trail: Trail, said: Said, late: bool, cx: &Context<'_>) -> Step {
    trail.asked |= said == Said::InputRequired;
    let state = State::Observed { trail, said, late };
    let evidence = Evidence::Answered { said, late };
    let decision = match (said, late) {
        (Said::Result, false) => "its result was observed",
        (Said::Result, true) => "its result was observed late",
        (Said::ToolError, false) => "the tool answered with an error",
        (Said::ToolError, true) => "the tool answered with an error, late",
        (Said::RpcError, false) => "the server answered with an error",
        (Said::RpcError, true) => "the server answered with an error, late",
        (Said::InputRequired, _) => "the server asks for input: a further leg may follow",
    };
    enter(state, evidence, vec![Action::Settled], decision, cx)
}

/// Asks the provider now.
pub(super) fn ask(trail: Trail, tries: u32, cx: &Context<'_>) -> Step {
    let state = State::Reconciling {
        trail,
        due: cx.now.mono + cx.policy.lookup_limit,
        tries,
        asking: true,
    };
    let evidence = Evidence::LookingUp { tries };
    let decision = "the provider is asked";
    enter(
        state,
        evidence,
        vec![Action::LookUp { tries }],
        decision,
        cx,
    )
}

/// What a lookup came to.
pub(super) fn looked_up(state: State, tries: u32, finding: Finding, cx: &Context<'_>) -> Step {
    let trail = match state {
        State::Reconciling {
            trail,
            tries: asked,
            asking: true,
            ..
        } if asked == tries => trail,
        State::Intended { .. }
        | State::Sent { .. }
        | State::Observed { .. }
        | State::NotObserved { .. }
        | State::Reconciling { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => return ignored(state, "not the lookup that is under way"),
    };
    let evidence = Evidence::LookedUp {
        tries,
        finding: finding.clone(),
    };
    let unproven = match finding {
        Finding::Found { .. } => {
            let by = Decider::Lookup;
            let state = State::Confirmed { trail, by };
            let decision = "the provider has a record of exactly this call: it had its effect";
            return enter(state, evidence, vec![Action::Settled], decision, cx);
        }
        Finding::Absent if is_definitive(&trail, cx) => {
            let state = State::NoEffect {
                trail,
                by: Decider::Lookup,
                repeat: false,
            };
            let decision = "the provider has no record, and documents that this is definitive: it had no effect";
            return enter(state, evidence, vec![Action::Settled], decision, cx);
        }
        Finding::Working { again_after } => {
            return still_at_work(trail, evidence, tries, again_after, cx);
        }
        Finding::Absent => "there is no record, which proves nothing here".to_owned(),
        Finding::Unclear { why } => why,
        Finding::Unreachable { fault } => fault.message,
    };
    if tries + 1 >= cx.policy.lookup_tries {
        return hold(
            trail,
            evidence,
            format!("lookups proved nothing: {unproven}"),
            cx,
        );
    }
    let delay = backoff::delay(
        cx.policy.lookup_first,
        cx.policy.lookup_max,
        tries + 1,
        cx.jitter,
    );
    let state = State::Reconciling {
        trail,
        due: cx.now.mono + delay,
        tries: tries + 1,
        asking: false,
    };
    let decision = format!("{unproven}: it is looked up again");
    enter(state, evidence, Vec::new(), decision, cx)
}

/// A task under way is no lookup that proved nothing: it is followed for as long as its server is at work on it (SEP-2663,
/// "Polling": clients SHOULD respect `pollIntervalMs`), the longer it takes the less often.
fn still_at_work(
    trail: Trail,
    evidence: Evidence,
    tries: u32,
    again_after: Option<Millis>,
    cx: &Context<'_>,
) -> Step {
    let elapsed = trail
        .last_sent
        .map_or(Millis::ZERO, |sent| cx.now.wall.until(sent));
    let asked = again_after.unwrap_or(cx.policy.lookup_first);
    let delay = asked.max(Millis(elapsed.0 / 8)).max(cx.policy.lookup_first);
    let state = State::Reconciling {
        trail,
        due: cx.now.mono + delay.min(cx.policy.lookup_max),
        tries,
        asking: false,
    };
    let decision = "the server is still at work on its task: it is asked again";
    enter(state, evidence, Vec::new(), decision, cx)
}

/// Whether "not found" means "did not happen": only where the provider documents it, and when it says that its
/// records have settled since the call last left.
fn is_definitive(trail: &Trail, cx: &Context<'_>) -> bool {
    let Some(lookup) = &cx.contract.lookup else {
        return false;
    };
    let settled = trail.last_sent.is_some_and(|sent| {
        let elapsed = cx.now.wall.0.saturating_sub(sent.0);
        u64::try_from(elapsed).is_ok_and(|elapsed| elapsed >= lookup.settle_after.0)
    });
    lookup.absent_is_definitive && settled
}

/// The daemon that drove it is gone. Nothing is sent again after a restart; lookups only read.
pub(super) fn interrupted(state: State, cx: &Context<'_>) -> Step {
    match state {
        State::Intended { trail } => {
            let decision = if trail.attempts == 0 {
                "Steadfast ended before anything left"
            } else {
                "Steadfast ended before it was sent again, and what had left was refused"
            };
            let state = State::NoEffect {
                trail,
                by: Decider::Wire,
                repeat: false,
            };
            enter(
                state,
                Evidence::Interrupted,
                vec![Action::Settled],
                decision,
                cx,
            )
        }
        State::Sent { trail } => {
            let bytes = trail.bytes_sent;
            find_out(
                unanswered(trail, bytes),
                Evidence::Interrupted,
                RESTARTED,
                cx,
            )
        }
        State::NotObserved { trail, .. } => find_out(trail, Evidence::Interrupted, RESTARTED, cx),
        State::Reconciling {
            trail,
            tries,
            asking: true,
            ..
        } => {
            let state = State::Reconciling {
                trail,
                due: cx.now.mono,
                tries,
                asking: false,
            };
            let decision = "Steadfast ended during a lookup: it is asked again";
            enter(state, Evidence::Interrupted, Vec::new(), decision, cx)
        }
        State::Observed { .. }
        | State::Reconciling { .. }
        | State::Confirmed { .. }
        | State::NoEffect { .. }
        | State::Held { .. }
        | State::Abandoned { .. } => ignored(state, "nobody was driving it"),
    }
}

/// Why a call that was interrupted is not sent again.
const RESTARTED: Option<&str> = Some("nothing is sent by itself after a restart");
