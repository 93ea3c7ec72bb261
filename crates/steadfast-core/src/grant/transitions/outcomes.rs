//! What the outcome of a renewal means. Every path leaves a next wake-up, or a person who was told
//! (architecture, grants 2), and none deletes anything.

use super::super::{
    Action, Context, Failure, Found, Recheck, SCOPE_NARROWED, Stage, State, Step, Strikes, Tokens,
};
use super::{
    again, clocks, enter, give_up, hold, ignored, is_fresh, is_older, refusal, renewing, spent,
    wait,
};
use crate::fault::{Fault, Kind, Verdict};
use crate::identity::AttemptId;
use crate::now::Millis;

/// The tokens and strikes of the renewal that this attempt is; nothing for a stale one.
fn ours(state: &State, attempt: AttemptId) -> Option<(Tokens, Strikes, Stage)> {
    match state {
        State::Renewing {
            tokens,
            attempt: present,
            stage,
            strikes,
            ..
        } if *present == attempt => Some((tokens.clone(), *strikes, *stage)),
        State::None
        | State::Valid { .. }
        | State::Due { .. }
        | State::Renewing { .. }
        | State::Delayed { .. }
        | State::Suspect { .. }
        | State::Refused { .. }
        | State::Unrenewable { .. } => None,
    }
}

pub(super) fn renewed(state: State, attempt: AttemptId, tokens: Tokens, cx: &Context<'_>) -> Step {
    let is_ours = ours(&state, attempt);
    // Also of an attempt that was given up: a rotated token that is on disk is never lost again.
    if is_older(&state, tokens.generation) || state == State::None {
        return ignored(state, "not newer than what is held", Vec::new(), cx);
    }
    let strikes = Strikes {
        fresh: is_ours.map_or(0, |(_, strikes, _)| strikes.fresh),
        ..Strikes::default()
    };
    let generation = tokens.generation;
    let actions = vec![Action::LetGo, Action::Use { generation }];
    let held = state.tokens();
    let reason = if held.is_some_and(|held| tokens.are_narrower_than(held)) {
        SCOPE_NARROWED
    } else {
        "renewed"
    };
    hold(tokens, strikes, actions, reason, cx)
}

pub(super) fn failed(state: State, attempt: AttemptId, failure: Failure, cx: &Context<'_>) -> Step {
    let Some((tokens, mut strikes, stage)) = ours(&state, attempt) else {
        return ignored(state, "not the present attempt", Vec::new(), cx);
    };
    strikes.tries = strikes.tries.saturating_add(1);
    strikes.suspected = false;
    match (failure, stage) {
        (Failure::Temporary(fault) | Failure::OutcomeLost(fault), _)
        | (Failure::Moved(fault), Stage::Rediscovering | Stage::AskingElsewhere) => {
            delayed(tokens, strikes, fault, cx)
        }
        (Failure::Moved(fault), Stage::Asking) => {
            let stage = Stage::Rediscovering;
            let state = renewing(attempt, (tokens, strikes), stage, Some(fault), cx);
            enter(
                state,
                vec![Action::Rediscover { attempt }],
                "no token endpoint there",
                cx,
            )
        }
        (Failure::Grant(fault), _) => refused(tokens, strikes, fault, cx),
        (Failure::Client(fault), _) => client_refused(tokens, strikes, fault, cx),
        (Failure::Structured(fault), _) => {
            strikes.structured = strikes.structured.saturating_add(1);
            if strikes.structured >= cx.policy.refused_after {
                return refused(tokens, strikes, fault, cx);
            }
            let state = State::Suspect {
                due: cx.now.mono + wait(&strikes, &fault, cx),
                tokens,
                fault,
                strikes,
            };
            enter(state, vec![Action::LetGo], "refused, not for good yet", cx)
        }
    }
}

fn delayed(tokens: Tokens, strikes: Strikes, fault: Fault, cx: &Context<'_>) -> Step {
    let mut actions = vec![Action::LetGo];
    // The grant is kept and tried on, but a person may be the only one who can mend it.
    if fault.verdict() == Verdict::Person {
        actions.push(Action::Tell {
            fault: fault.clone(),
        });
    }
    let state = State::Delayed {
        due: cx.now.mono + wait(&strikes, &fault, cx),
        tokens,
        fault,
        strikes,
    };
    enter(state, actions, "delayed", cx)
}

/// Only a structured refusal comes here. Nothing is deleted, and a token that is still good stays in use
/// (architecture, grants 5).
fn refused(tokens: Tokens, strikes: Strikes, fault: Fault, cx: &Context<'_>) -> Step {
    let is_good = tokens.good(cx.now.wall);
    let recheck = match probe(&strikes, cx) {
        _ if is_good && cx.policy.recheck_at_expiry => Recheck::AtExpiry,
        // The end of the access token comes first, and is an event of its own.
        Some(_) if is_good && ends_before(&tokens, probe_after(cx), cx) => Recheck::Never,
        Some(probe) => probe,
        None => Recheck::Never,
    };
    let fault = clocks::told(fault, &strikes);
    let refused = refusal(tokens, strikes, fault, recheck, cx);
    give_up(refused, vec![Action::LetGo], "refused", cx)
}

/// The next probe, where one is left.
pub(super) fn probe(strikes: &Strikes, cx: &Context<'_>) -> Option<Recheck> {
    let due = cx.now.mono + probe_after(cx);
    (strikes.probed < cx.policy.probes).then_some(Recheck::Probe { due })
}

fn probe_after(cx: &Context<'_>) -> Millis {
    cx.policy.probe_every.max(cx.policy.retry_first)
}

fn ends_before(tokens: &Tokens, wait: Millis, cx: &Context<'_>) -> bool {
    tokens.expires_at.0 < cx.now.wall.0.saturating_add_unsigned(wait.0)
}

/// The registration is gone. A refresh token belongs to the client that it was issued to (RFC 6749 section 6), so
/// the next sign-in gets a new client, and the old token is not tried again.
fn client_refused(tokens: Tokens, mut strikes: Strikes, fault: Fault, cx: &Context<'_>) -> Step {
    let mut actions = vec![Action::LetGo];
    if !strikes.registered {
        actions.push(Action::Register);
    }
    strikes.registered = true;
    let never = refusal(tokens, strikes, fault, Recheck::Never, cx);
    give_up(never, actions, "refused", cx)
}

pub(super) fn rediscovered(
    state: State,
    attempt: AttemptId,
    found: Found,
    cx: &Context<'_>,
) -> Step {
    let Some((tokens, strikes, Stage::Rediscovering)) = ours(&state, attempt) else {
        return ignored(state, "not the present attempt", Vec::new(), cx);
    };
    match found {
        Found::Elsewhere => {
            let fault = state.fault().cloned();
            let stage = Stage::AskingElsewhere;
            let state = renewing(attempt, (tokens, strikes), stage, fault, cx);
            enter(
                state,
                vec![Action::Renew { attempt }],
                "found elsewhere",
                cx,
            )
        }
        Found::Same => {
            let fault = Fault::new(
                Kind::TokenEndpointMoved,
                "there is no token endpoint at the address that the provider names",
            );
            delayed(tokens, strikes, fault, cx)
        }
        Found::Nothing(fault) => delayed(tokens, strikes, fault, cx),
    }
}

/// A renewal that succeeds and is not accepted, again and again, is a dead grant and no reason to renew
/// (architecture, grants 6).
pub(super) fn refused_by_server(tokens: Tokens, mut strikes: Strikes, cx: &Context<'_>) -> Step {
    strikes.fresh = if is_fresh(&tokens, cx) {
        strikes.fresh.saturating_add(1)
    } else {
        0
    };
    let tokens = spent(tokens, cx);
    if strikes.fresh >= cx.policy.fresh_token_refusals {
        let message = format!(
            "the server refused {} tokens in a row that had just been issued",
            strikes.fresh
        );
        let fault = Fault::new(Kind::FreshTokenRefused, message);
        let never = refusal(tokens, strikes, fault, Recheck::Never, cx);
        return give_up(never, Vec::new(), "fresh tokens are refused", cx);
    }
    let fault = Fault::new(Kind::RenewalDelayed, "the server refused the access token");
    again(
        tokens,
        strikes,
        Some(fault),
        "the server refused the token",
        cx,
    )
}
