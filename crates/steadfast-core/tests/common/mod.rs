//! The machines behind one trait, so that what holds for all of them is said once.

#![allow(dead_code)] // Each test binary uses a part of it.

use std::fmt::Debug;

use steadfast_core::step::Step;
use steadfast_core::stream::{self, answer, listen, subscription};
use steadfast_core::{
    AttemptId, Deadline, Jitter, Mono, Now, Wall, catalog, connection, grant, operation, session,
};

/// What a step may look at, for every machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Mono,
    pub(crate) jitter: Jitter,
    pub(crate) attempt: AttemptId,
}

impl Moment {
    pub(crate) fn clocks(self) -> Now {
        Now {
            mono: self.now,
            wall: Wall(1_700_000_000_000 + self.now.0 as i64),
        }
    }
}

pub(crate) trait Machine {
    const NAME: &'static str;
    type State: Clone + PartialEq + Debug;
    type Event: Clone + Debug;
    type Action: Clone + Debug;
    type Fact: Debug;
    type Policy: Debug;

    fn initial() -> Self::State;
    fn step(
        state: Self::State,
        event: Self::Event,
        moment: Moment,
        policy: &Self::Policy,
    ) -> Step<Self::State, Self::Fact, Self::Action>;
    fn deadline(state: &Self::State, now: Now, policy: &Self::Policy) -> Option<Deadline>;
    fn replay(state: Self::State, fact: &Self::Fact) -> Self::State;
    fn name(state: &Self::State) -> &'static str;
    /// The states that may go without a wake-up, and no others do.
    fn sleeps(state: &Self::State, policy: &Self::Policy) -> bool;
}

macro_rules! machine {
    ($machine:ident = $($module:ident)::+, $policy:ty, $initial:expr, $context:expr, $sleeps:expr) => {
        machine!(
            $machine = $($module)::+, $policy, $initial, $context, $sleeps,
            |state, _, policy| $($module)::+::deadline(state, policy),
            |state| state.name()
        );
    };
    (
        $machine:ident = $($module:ident)::+, $policy:ty, $initial:expr, $context:expr, $sleeps:expr,
        $deadline:expr, $name:expr
    ) => {
        #[derive(Debug)]
        pub(crate) struct $machine;

        impl Machine for $machine {
            const NAME: &'static str = machine!(@last $($module)+);
            type State = $($module)::+::State;
            type Event = $($module)::+::Event;
            type Action = $($module)::+::Action;
            type Fact = $($module)::+::Fact;
            type Policy = $policy;

            fn initial() -> Self::State {
                $initial
            }

            fn step(
                state: Self::State,
                event: Self::Event,
                moment: Moment,
                policy: &Self::Policy,
            ) -> Step<Self::State, Self::Fact, Self::Action> {
                let context: fn(Moment, &Self::Policy) -> $($module)::+::Context<'_> = $context;
                $($module)::+::step(state, event, &context(moment, policy))
            }

            fn deadline(state: &Self::State, now: Now, policy: &Self::Policy) -> Option<Deadline> {
                let deadline: fn(&Self::State, Now, &Self::Policy) -> Option<Deadline> = $deadline;
                deadline(state, now, policy)
            }

            fn replay(state: Self::State, fact: &Self::Fact) -> Self::State {
                $($module)::+::replay(state, fact)
            }

            fn name(state: &Self::State) -> &'static str {
                let name: fn(&Self::State) -> &'static str = $name;
                name(state)
            }

            fn sleeps(state: &Self::State, policy: &Self::Policy) -> bool {
                let sleeps: fn(&Self::State, &Self::Policy) -> bool = $sleeps;
                sleeps(state, policy)
            }
        }
    };
    (@last $only:ident) => { stringify!($only) };
    (@last $first:ident $($rest:ident)+) => { machine!(@last $($rest)+) };
}

machine!(
    Connection = connection,
    connection::Policy,
    connection::State::Disabled,
    |moment, policy| connection::Context {
        now: moment.clocks(),
        jitter: moment.jitter,
        attempt: moment.attempt,
        policy,
    },
    |state, policy| match state {
        connection::State::Disabled
        | connection::State::Misconfigured { .. }
        | connection::State::AwaitingSignIn { .. } => true,
        connection::State::Connected { .. } => policy.health_every.0 == 0,
        connection::State::Connecting { .. } | connection::State::Retrying { .. } => false,
    }
);

machine!(
    Session = session,
    session::Policy,
    session::State::None { lost: Vec::new() },
    |moment, policy| session::Context {
        now: moment.clocks(),
        policy,
    },
    // Its connection wakes up for it.
    |_, _| true
);

machine!(
    Listen = listen,
    stream::Policy,
    listen::State::Off(listen::Memory::default()),
    |moment, policy| listen::Context {
        now: moment.clocks(),
        jitter: moment.jitter,
        attempt: moment.attempt,
        policy,
    },
    |state, _| match state {
        listen::State::Off(_)
        // It may be silent for days; the connection's health check watches the server.
        | listen::State::Open { .. }
        // Until the next session.
        | listen::State::NotOffered { recheck: None, .. } => true,
        listen::State::Opening { .. }
        | listen::State::Waiting { .. }
        | listen::State::NotOffered { recheck: Some(_), .. } => false,
    }
);

machine!(
    Subscription = subscription,
    stream::Policy,
    subscription::State::Off(subscription::Memory::default()),
    |moment, policy| subscription::Context {
        now: moment.clocks(),
        jitter: moment.jitter,
        attempt: moment.attempt,
        policy,
    },
    |state, _| match state {
        // Until the connection opens again, or something is wanted.
        subscription::State::Off(_)
        | subscription::State::Idle(_)
        | subscription::State::NotOffered(_)
        // It may be silent for days; the connection's health check watches the server.
        | subscription::State::Open { renew_at: None, .. } => true,
        subscription::State::Opening { .. }
        | subscription::State::Open { renew_at: Some(_), .. }
        | subscription::State::Waiting { .. }
        | subscription::State::Resting { .. } => false,
    }
);

machine!(
    Answer = answer,
    stream::Policy,
    answer::State::Reading {
        memory: answer::Memory::default(),
        heard: Mono(0),
    },
    |moment, policy| answer::Context {
        now: moment.clocks(),
        jitter: moment.jitter,
        attempt: moment.attempt,
        policy,
    },
    |state, _| match state {
        answer::State::Answered | answer::State::NotObserved { .. } => true,
        answer::State::Reading { .. }
        | answer::State::Waiting { .. }
        | answer::State::Resuming { .. } => false,
    }
);

machine!(
    Catalog = catalog,
    catalog::Policy,
    catalog::State::default(),
    |moment, policy| catalog::Context {
        now: moment.clocks(),
        policy,
    },
    |_, _| true,
    // Lists are never polled.
    |_, _, _| None,
    |state| state.standing.name()
);

machine!(
    Grant = grant,
    grant::Policy,
    grant::State::None,
    |moment, policy| grant::Context {
        now: moment.clocks(),
        jitter: moment.jitter,
        attempt: moment.attempt,
        slept: None,
        policy,
    },
    |state, _| match state {
        grant::State::None
        | grant::State::Refused {
            recheck: grant::Recheck::Never,
            ended: true,
            ..
        } => true,
        grant::State::Valid { .. }
        | grant::State::Due { .. }
        | grant::State::Renewing { .. }
        | grant::State::Delayed { .. }
        | grant::State::Suspect { .. }
        | grant::State::Refused { .. }
        | grant::State::Unrenewable { .. } => false,
    },
    // Expiry is a matter of the other clock.
    |state, now, _| grant::deadline(state, now),
    |state| state.name()
);

/// What an operation's steps look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) policy: operation::Policy,
    pub(crate) contract: operation::Contract,
}

machine!(
    Operation = operation,
    Terms,
    operation::State::intended(),
    |moment, terms| operation::Context {
        now: moment.clocks(),
        jitter: moment.jitter,
        contract: &terms.contract,
        policy: &terms.policy,
    },
    |state, _| match state {
        // Its driver is at work on it, within the limits of a call.
        operation::State::Intended { .. }
        | operation::State::Sent { .. }
        // It is settled, or waits for a person.
        | operation::State::Observed { .. }
        | operation::State::Confirmed { .. }
        | operation::State::NoEffect { .. }
        | operation::State::Held { .. }
        | operation::State::Abandoned { .. } => true,
        operation::State::NotObserved { .. } | operation::State::Reconciling { .. } => false,
    },
    |state, _, _| operation::deadline(state),
    |state| state.name()
);
