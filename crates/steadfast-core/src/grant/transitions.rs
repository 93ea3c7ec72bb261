//! The transitions of a grant: what each event does in each state. What an outcome of a renewal means is
//! in [`outcomes`], what the server says of an access token in [`verdicts`], what sleep and a clock that was set
//! change in [`clocks`].

mod clocks;
mod outcomes;
mod verdicts;

use super::{Action, Context, Event, Fact, Recheck, Stage, State, Step, Strikes, Tokens, schedule};
use crate::backoff;
use crate::deadline::{Deadline, Reason};
use crate::fault::{Fault, Kind};
use crate::identity::{AttemptId, GrantGeneration};
use crate::now::{Millis, Mono, Now, Wall};
use crate::step::Outcome;

/// Feeds one event.
#[must_use]
pub fn step(state: State, event: Event, cx: &Context<'_>) -> Step {
    match event {
        Event::Loaded { tokens } => loaded(state, tokens, cx),
        Event::Wanted { generation } => wanted(state, generation, cx),
        Event::Removed => removed(state, cx),
        Event::Due => due(state, cx),
        Event::ClockSetBack { by } => clocks::set_back(state, by, cx),
        Event::Reload => reload(state, cx),
        Event::Turn { generation } => turn(state, generation, cx),
        Event::Leased { until } => leased(state, until, cx),
        Event::Renewed { attempt, tokens } => outcomes::renewed(state, attempt, tokens, cx),
        Event::Failed { attempt, failure } => outcomes::failed(state, attempt, failure, cx),
        Event::Rediscovered { attempt, found } => outcomes::rediscovered(state, attempt, found, cx),
        Event::TokenRefused { generation } => verdicts::token_refused(state, generation, cx),
        Event::Suspected { generation } => verdicts::suspected(state, generation, cx),
        Event::TokenAccepted { generation } => verdicts::token_accepted(state, generation, cx),
    }
}

/// When to feed [`Event::Due`], and why. Expiry is a matter of the wall clock, waiting one of the other:
/// where the wall clock jumps, ask again.
#[must_use]
pub fn deadline(state: &State, now: Now) -> Option<Deadline> {
    let at_wall = |wall: Wall, reason| Deadline {
        at: now.mono + wall.until(now.wall),
        reason,
    };
    let at = |at, reason| Deadline { at, reason };
    match state {
        State::None => None,
        State::Valid { renew_at, .. } => Some(at_wall(*renew_at, Reason::RenewGrant)),
        State::Due { ask_again, .. } => Some(at(*ask_again, Reason::AwaitLease)),
        State::Renewing { until, .. } => Some(at(*until, Reason::RenewalLimit)),
        State::Delayed { due, .. } | State::Suspect { due, .. } => {
            Some(at(*due, Reason::RetryRenewal))
        }
        State::Refused {
            tokens,
            ended,
            recheck,
            ..
        } => match recheck {
            Recheck::Never => (!ended).then(|| at_wall(tokens.expires_at, Reason::GrantEnds)),
            Recheck::AtExpiry => Some(at_wall(tokens.expires_at, Reason::RecheckGrant)),
            Recheck::Probe { due } => Some(at(*due, Reason::RecheckGrant)),
        },
        State::Unrenewable { tokens } => Some(at_wall(tokens.expires_at, Reason::GrantEnds)),
    }
}

/// Folds one recorded fact: it carries the whole state that was entered.
#[must_use]
pub fn replay(_state: State, fact: &Fact) -> State {
    fact.state.clone()
}

/// A state as another process, or this one before a restart, wrote it down. Its waits were counted on a clock that is
/// not ours; `wake_at` says when they end.
#[must_use]
pub fn restore(mut state: State, wake_at: Option<Wall>, now: Now) -> State {
    let wait = wake_at.map_or(Millis::ZERO, |at| at.until(now.wall));
    match &mut state {
        State::Delayed { due, .. }
        | State::Suspect { due, .. }
        | State::Refused {
            recheck: Recheck::Probe { due },
            ..
        }
        | State::Due { ask_again: due, .. }
        | State::Renewing { until: due, .. } => *due = now.mono + wait,
        State::None
        | State::Valid { .. }
        | State::Refused {
            recheck: Recheck::Never | Recheck::AtExpiry,
            ..
        }
        | State::Unrenewable { .. } => {}
    }
    state
}

/// When a state must be looked at again, on the clock that everybody shares.
#[must_use]
pub fn wake_at(state: &State, now: Now) -> Option<Wall> {
    deadline(state, now).map(|deadline| deadline.on_wall(now))
}

fn loaded(state: State, tokens: Tokens, cx: &Context<'_>) -> Step {
    if is_older(&state, tokens.generation) {
        return ignored(state, "not newer than what is held", Vec::new(), cx);
    }
    // A renewal of ours that is under way presents a token that is no longer the present one.
    let mut actions = let_go(&state);
    actions.push(Action::Use {
        generation: tokens.generation,
    });
    hold(tokens, Strikes::default(), actions, "tokens came in", cx)
}

/// Whether tokens of this generation are no news.
fn is_older(state: &State, generation: GrantGeneration) -> bool {
    state
        .tokens()
        .is_some_and(|held| generation <= held.generation)
}

fn let_go(state: &State) -> Vec<Action> {
    match state {
        State::Renewing { .. } | State::Due { .. } => vec![Action::LetGo],
        State::None
        | State::Valid { .. }
        | State::Delayed { .. }
        | State::Suspect { .. }
        | State::Refused { .. }
        | State::Unrenewable { .. } => Vec::new(),
    }
}

/// Where tokens belong by their times.
fn hold(
    tokens: Tokens,
    strikes: Strikes,
    mut actions: Vec<Action>,
    reason: &str,
    cx: &Context<'_>,
) -> Step {
    if !tokens.renewable {
        if tokens.good(cx.now.wall) {
            return enter(State::Unrenewable { tokens }, actions, reason, cx);
        }
        return ended(tokens, strikes, actions, cx);
    }
    let renew_at = schedule::renew_at(&tokens, cx.policy, cx.jitter);
    if renew_at <= cx.now.wall {
        let (state, action) = due_now(tokens, strikes, None, cx);
        actions.push(action);
        return enter(state, actions, reason, cx);
    }
    let state = State::Valid {
        tokens,
        renew_at,
        strikes,
    };
    enter(state, actions, reason, cx)
}

/// A grant without a refresh token has come to its end (SC-03).
fn ended(tokens: Tokens, strikes: Strikes, actions: Vec<Action>, cx: &Context<'_>) -> Step {
    let fault = Fault::new(
        Kind::SignInRequired,
        "the grant has ended, and there is no refresh token to renew it with",
    );
    let strikes = clocks::with_missed_window(strikes, &tokens, cx);
    let fault = clocks::told(fault, &strikes);
    let never = refusal(tokens, strikes, fault, Recheck::Never, cx);
    give_up(never, actions, "it has ended", cx)
}

/// The state in which only a person can help, unless it is checked again.
fn refusal(
    tokens: Tokens,
    strikes: Strikes,
    fault: Fault,
    recheck: Recheck,
    cx: &Context<'_>,
) -> State {
    State::Refused {
        ended: !tokens.good(cx.now.wall),
        tokens,
        fault,
        at: cx.now.wall,
        recheck,
        strikes,
    }
}

/// Enters it, and tells a person after everything else.
fn give_up(refusal: State, mut actions: Vec<Action>, reason: &str, cx: &Context<'_>) -> Step {
    let fault = refusal.fault().cloned();
    actions.extend(fault.map(|fault| Action::Tell { fault }));
    enter(refusal, actions, reason, cx)
}

fn due_now(
    tokens: Tokens,
    strikes: Strikes,
    fault: Option<Fault>,
    cx: &Context<'_>,
) -> (State, Action) {
    let generation = tokens.generation;
    let state = State::Due {
        strikes: clocks::with_missed_window(strikes, &tokens, cx),
        tokens,
        since: cx.now.wall,
        ask_again: cx.now.mono + cx.policy.attempt_limit,
        fault,
    };
    (state, Action::AwaitTurn { generation })
}

/// The first token of a client that asks for itself comes by the way of all renewals, so that it is asked for once,
/// by one daemon, and again until it is there.
fn wanted(state: State, generation: GrantGeneration, cx: &Context<'_>) -> Step {
    if is_older(&state, generation) {
        return ignored(state, "not newer than what is held", Vec::new(), cx);
    }
    let mut actions = let_go(&state);
    let tokens = Tokens::none_yet(generation, cx.now.wall);
    let (state, action) = due_now(tokens, Strikes::default(), None, cx);
    actions.push(action);
    enter(state, actions, "the client asks for itself", cx)
}

fn removed(state: State, cx: &Context<'_>) -> Step {
    if state == State::None {
        return ignored(state, "there is none", Vec::new(), cx);
    }
    let actions = let_go(&state);
    enter(State::None, actions, "removed", cx)
}

fn due(state: State, cx: &Context<'_>) -> Step {
    let has_come = deadline(&state, cx.now).is_some_and(|due| due.at <= cx.now.mono);
    if !has_come {
        return ignored(state, "nothing is due", Vec::new(), cx);
    }
    match state {
        State::None => ignored(State::None, "nothing is due", Vec::new(), cx),
        State::Valid {
            tokens, strikes, ..
        } => again(tokens, strikes, None, "ahead of expiry", cx),
        State::Due {
            tokens,
            strikes,
            fault,
            ..
        } => again(tokens, strikes, fault, "asks for its turn again", cx),
        State::Renewing { attempt, .. } => {
            let fault = Fault::new(
                Kind::RenewalOutcomeLost,
                "the renewal has taken too long, and its answer was not observed",
            );
            outcomes::failed(state, attempt, super::Failure::OutcomeLost(fault), cx)
        }
        State::Delayed {
            tokens,
            fault,
            strikes,
            ..
        }
        | State::Suspect {
            tokens,
            fault,
            strikes,
            ..
        } => again(tokens, strikes, Some(fault), "tried again", cx),
        State::Refused {
            recheck: Recheck::Never,
            ..
        } => gone(state, cx),
        State::Refused {
            tokens,
            fault,
            recheck,
            mut strikes,
            ..
        } => {
            strikes.probed += u32::from(matches!(recheck, Recheck::Probe { .. }));
            again(tokens, strikes, Some(fault), "one more try", cx)
        }
        State::Unrenewable { tokens } => ended(tokens, Strikes::default(), Vec::new(), cx),
    }
}

/// The access token of a refused grant is good no more: nothing works from now on, and nobody need call to find out.
fn gone(mut state: State, cx: &Context<'_>) -> Step {
    if let State::Refused {
        tokens,
        fault,
        ended,
        recheck,
        strikes,
        ..
    } = &mut state
    {
        tokens.expires_at = tokens.expires_at.min(cx.now.wall);
        *ended = true;
        // A client that is not known does not heal.
        let heals = fault.kind == Kind::GrantRefused;
        let probe = outcomes::probe(strikes, cx).filter(|_| heals);
        *recheck = probe.unwrap_or(Recheck::Never);
    }
    enter(state, Vec::new(), "its access token has ended", cx)
}

fn again(
    tokens: Tokens,
    strikes: Strikes,
    fault: Option<Fault>,
    reason: &str,
    cx: &Context<'_>,
) -> Step {
    let (state, action) = due_now(tokens, strikes, fault, cx);
    enter(state, vec![action], reason, cx)
}

/// "Due, suspect and refused renewals are tried once" (interface, reload).
fn reload(state: State, cx: &Context<'_>) -> Step {
    match state {
        State::None | State::Valid { .. } | State::Unrenewable { .. } => {
            ignored(state, "nothing is due", Vec::new(), cx)
        }
        State::Renewing { .. } => ignored(state, "a renewal is under way", Vec::new(), cx),
        State::Refused { ref tokens, .. } if !tokens.renewable => {
            ignored(state, "there is no refresh token", Vec::new(), cx)
        }
        State::Due {
            tokens,
            strikes,
            fault,
            ..
        } => again(tokens, strikes, fault, "reload", cx),
        State::Delayed {
            tokens,
            fault,
            strikes,
            ..
        }
        | State::Suspect {
            tokens,
            fault,
            strikes,
            ..
        }
        | State::Refused {
            tokens,
            fault,
            strikes,
            ..
        } => again(tokens, strikes, Some(fault), "reload", cx),
    }
}

/// A renewal that has come so far, from now on within the limit of an attempt.
fn renewing(
    attempt: AttemptId,
    (tokens, strikes): (Tokens, Strikes),
    stage: Stage,
    fault: Option<Fault>,
    cx: &Context<'_>,
) -> State {
    State::Renewing {
        tokens,
        attempt,
        until: cx.now.mono + cx.policy.attempt_limit,
        stage,
        strikes,
        fault,
    }
}

fn turn(state: State, generation: GrantGeneration, cx: &Context<'_>) -> Step {
    match state {
        State::Due {
            tokens,
            strikes,
            fault,
            ..
        } if tokens.generation == generation => {
            let attempt = cx.attempt;
            let state = renewing(attempt, (tokens, strikes), Stage::Asking, fault, cx);
            enter(state, vec![Action::Renew { attempt }], "its turn", cx)
        }
        State::Renewing { .. } => ignored(state, "a renewal is under way", Vec::new(), cx),
        State::None
        | State::Valid { .. }
        | State::Due { .. }
        | State::Delayed { .. }
        | State::Suspect { .. }
        | State::Refused { .. }
        | State::Unrenewable { .. } => ignored(state, "no longer due", vec![Action::LetGo], cx),
    }
}

fn leased(state: State, until: Mono, cx: &Context<'_>) -> Step {
    let State::Due {
        tokens,
        since,
        strikes,
        fault,
        ..
    } = state
    else {
        return ignored(state, "no longer due", Vec::new(), cx);
    };
    // Several daemons wait for the same lease: spread over a tenth of the wait.
    let wait = until.since(cx.now.mono);
    let state = State::Due {
        tokens,
        since,
        ask_again: until.max(cx.now.mono + Millis(1)) + cx.jitter.of(Millis(wait.0 / 10)),
        strikes,
        fault,
    };
    enter(state, Vec::new(), "another daemon renews it", cx)
}

/// The tokens, with an access token that is good no more.
fn spent(mut tokens: Tokens, cx: &Context<'_>) -> Tokens {
    tokens.expires_at = tokens.expires_at.min(cx.now.wall);
    tokens
}

/// Whether the access token was issued so recently that a refusal says more about the issuer than about its age.
fn is_fresh(tokens: &Tokens, cx: &Context<'_>) -> bool {
    let age = cx.now.wall.0.saturating_sub(tokens.issued_at.0).max(0);
    age.unsigned_abs() < cx.policy.fresh_token_window.0
}

/// The delay before the next try, not less than what the provider asked for.
fn wait(strikes: &Strikes, fault: &Fault, cx: &Context<'_>) -> Millis {
    let policy = cx.policy;
    let delay = backoff::delay(
        policy.retry_first,
        policy.retry_max,
        strikes.tries,
        cx.jitter,
    );
    backoff::honour(delay, fault.retry_after, policy.retry_first, cx.jitter)
}

fn enter(state: State, actions: Vec<Action>, reason: impl Into<String>, cx: &Context<'_>) -> Step {
    let fact = Fact {
        at: cx.now.wall,
        state: state.clone(),
        reason: reason.into(),
    };
    let deadline = deadline(&state, cx.now);
    Step::entered(state, fact, actions, deadline)
}

/// The state stays; where turn and lease are held for nothing, they are let go.
fn ignored(state: State, why: &'static str, actions: Vec<Action>, cx: &Context<'_>) -> Step {
    let deadline = deadline(&state, cx.now);
    Step {
        state,
        facts: Vec::new(),
        actions,
        deadline,
        outcome: Outcome::Ignored { why },
    }
}
