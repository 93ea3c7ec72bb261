//! What the clocks do to a grant besides making it due: the machine slept, or somebody set the wall clock back.

use super::super::{Context, State, Step, Strikes, Tokens};
use super::{enter, ignored};
use crate::fault::Fault;
use crate::now::{Millis, Wall};

/// Takes note of the sleep in which the access token ended: nobody was there to renew it in time.
pub(super) fn with_missed_window(
    mut strikes: Strikes,
    tokens: &Tokens,
    cx: &Context<'_>,
) -> Strikes {
    let missed = cx.slept.filter(|slept| slept.covers(tokens.expires_at));
    strikes.slept = strikes.slept.or(missed);
    strikes
}

/// What is said of a refusal: many providers forget a grant that is not renewed in time, and after a sleep that is
/// what happened.
pub(super) fn told(mut fault: Fault, strikes: &Strikes) -> Fault {
    if let Some(slept) = strikes.slept {
        fault.message = format!("{slept}, renewal window missed; {}", fault.message);
    }
    fault
}

/// Delays are counted on the other clock and stay as they are.
pub(super) fn set_back(mut state: State, by: Millis, cx: &Context<'_>) -> Step {
    let back = |at: &mut Wall| at.0 = at.0.saturating_sub_unsigned(by.0);
    match &mut state {
        State::None => return ignored(state, "nothing is told by the clock", Vec::new(), cx),
        State::Valid {
            tokens, renew_at, ..
        } => {
            tokens_back(tokens, back);
            back(renew_at);
        }
        State::Due { tokens, since, .. } => {
            tokens_back(tokens, back);
            back(since);
        }
        State::Refused { tokens, at, .. } => {
            tokens_back(tokens, back);
            back(at);
        }
        State::Renewing { tokens, .. }
        | State::Delayed { tokens, .. }
        | State::Suspect { tokens, .. }
        | State::Unrenewable { tokens } => tokens_back(tokens, back),
    }
    enter(state, Vec::new(), "the clock was set back", cx)
}

fn tokens_back(tokens: &mut Tokens, back: impl Fn(&mut Wall)) {
    back(&mut tokens.issued_at);
    back(&mut tokens.expires_at);
}
