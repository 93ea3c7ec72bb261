//! What the server of a grant says of its access token, by refusing or taking it.

use super::super::{Context, Recheck, State, Step, Strikes};
use super::{again, ended, enter, gone, ignored, is_fresh, outcomes, spent};
use crate::fault::{Fault, Kind};
use crate::identity::GrantGeneration;

/// The server refused the access token with 401. It counts as expired from now on, so that no further call
/// goes out with it.
pub(super) fn token_refused(state: State, generation: GrantGeneration, cx: &Context<'_>) -> Step {
    if state.tokens().map(|tokens| tokens.generation) != Some(generation) {
        return ignored(state, "not the present token", Vec::new(), cx);
    }
    match state {
        State::Valid {
            tokens, strikes, ..
        } => outcomes::refused_by_server(tokens, strikes, cx),
        State::Unrenewable { tokens } => {
            ended(spent(tokens, cx), Strikes::default(), Vec::new(), cx)
        }
        State::Refused {
            tokens,
            fault,
            recheck: Recheck::AtExpiry,
            strikes,
            ..
        } => again(
            spent(tokens, cx),
            strikes,
            Some(fault),
            "the token is refused",
            cx,
        ),
        State::Refused { ended: false, .. } => gone(state, cx),
        State::Delayed {
            ref tokens,
            ref fault,
            due,
            strikes,
        } if tokens.good(cx.now.wall) => {
            let state = State::Delayed {
                tokens: spent(tokens.clone(), cx),
                fault: fault.clone(),
                due,
                strikes,
            };
            enter(state, Vec::new(), "the token is refused", cx)
        }
        State::None
        | State::Due { .. }
        | State::Renewing { .. }
        | State::Delayed { .. }
        | State::Suspect { .. }
        | State::Refused { .. } => ignored(
            state,
            "it is being renewed, or was given up",
            Vec::new(),
            cx,
        ),
    }
}

/// A result says that the token is no good, although the server let the call pass (AU-03). Renewed once, ahead of
/// the next call; a token that was just renewed is not suspected again, or each failing tool would renew it.
pub(super) fn suspected(state: State, generation: GrantGeneration, cx: &Context<'_>) -> Step {
    match state {
        State::Valid {
            tokens,
            mut strikes,
            ..
        } if tokens.generation == generation && !is_fresh(&tokens, cx) => {
            let fault = Fault::new(
                Kind::RenewalDelayed,
                "a result says that the access token is no good",
            );
            strikes.suspected = true;
            let state = State::Suspect {
                tokens,
                fault,
                due: cx.now.mono,
                strikes,
            };
            enter(state, Vec::new(), "suspected", cx)
        }
        State::None
        | State::Valid { .. }
        | State::Due { .. }
        | State::Renewing { .. }
        | State::Delayed { .. }
        | State::Suspect { .. }
        | State::Refused { .. }
        | State::Unrenewable { .. } => ignored(state, "no reason to renew", Vec::new(), cx),
    }
}

pub(super) fn token_accepted(state: State, generation: GrantGeneration, cx: &Context<'_>) -> Step {
    match state {
        State::Valid {
            tokens,
            renew_at,
            mut strikes,
        } if tokens.generation == generation && strikes.fresh > 0 => {
            strikes.fresh = 0;
            let state = State::Valid {
                tokens,
                renew_at,
                strikes,
            };
            enter(state, Vec::new(), "the new token is accepted", cx)
        }
        State::None
        | State::Valid { .. }
        | State::Due { .. }
        | State::Renewing { .. }
        | State::Delayed { .. }
        | State::Suspect { .. }
        | State::Refused { .. }
        | State::Unrenewable { .. } => ignored(state, "no news", Vec::new(), cx),
    }
}
