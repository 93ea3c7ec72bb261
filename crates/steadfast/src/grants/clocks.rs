//! The clocks, looked at before each step of a grant: whether the machine slept, so that the provider is not blamed
//! for it, and whether somebody set the wall clock back, so that no renewal is put off.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use steadfast_core::grant::Event;
use steadfast_core::now::{Millis, Now, Wall};
use steadfast_core::sleep::{self, Policy, Slept};
use steadfast_store::{GrantRecord, Version};
use tokio::sync::mpsc;

use super::{Along, Grants, Owner};
use crate::clock;

/// The machine slept.
#[derive(Clone, Debug)]
pub(crate) struct Woke {
    pub(crate) slept: Slept,
    /// Whose access token ended meanwhile: nobody was there to renew it.
    pub(crate) missed: BTreeSet<Owner>,
}

/// What is known of the clocks.
#[derive(Debug)]
pub(super) struct Clocks {
    policy: Policy,
    seen: Mutex<Seen>,
    woke: mpsc::UnboundedSender<Woke>,
}

#[derive(Debug)]
struct Seen {
    /// The last look.
    last: Now,
    /// The last sleep.
    slept: Option<Slept>,
    /// How far the wall clock was set back, as far as no grant knows yet.
    back: Millis,
}

impl Clocks {
    /// Each sleep is told once.
    pub(super) fn new(policy: Policy) -> (Self, mpsc::UnboundedReceiver<Woke>) {
        let (woke, told) = mpsc::unbounded_channel();
        let seen = Seen {
            last: clock::now(),
            slept: None,
            back: Millis::ZERO,
        };
        let clocks = Self {
            policy,
            seen: Mutex::new(seen),
            woke,
        };
        (clocks, told)
    }
}

/// The clocks by which the times on record were told: not yet those of now, where it is the event that says so.
pub(super) fn told_by(event: &Event, now: Now) -> Now {
    match event {
        Event::ClockSetBack { by } => Now {
            wall: Wall(now.wall.0.saturating_add_unsigned(by.0)),
            ..now
        },
        Event::Loaded { .. }
        | Event::Wanted { .. }
        | Event::Removed
        | Event::Due
        | Event::Reload
        | Event::Turn { .. }
        | Event::Leased { .. }
        | Event::Renewed { .. }
        | Event::Failed { .. }
        | Event::Rediscovered { .. }
        | Event::TokenRefused { .. }
        | Event::Suspected { .. }
        | Event::TokenAccepted { .. } => now,
    }
}

impl Grants {
    /// Now, and the last sleep of the machine. Whoever looks first after a sleep tells of it, before anything follows
    /// from the time that passed.
    pub(crate) fn look_at_clocks(&self) -> (Now, Option<Slept>) {
        let mut seen = self.clocks.seen.lock();
        let now = clock::now();
        if let Some(by) = sleep::set_back(seen.last, now) {
            seen.back.0 += by.0;
            self.look.notify_one();
        }
        if let Some(slept) = sleep::slept(seen.last, now, &self.clocks.policy) {
            seen.slept = Some(slept);
            let missed = self.that_ended_in(slept);
            let _ = self.clocks.woke.send(Woke { slept, missed });
            self.look.notify_one();
        }
        seen.last = now;
        (now, seen.slept)
    }

    /// Whose access token ended in a sleep.
    fn that_ended_in(&self, slept: Slept) -> BTreeSet<Owner> {
        let slots = self.slots.read();
        let missed = slots.iter().filter(|(_, slot)| {
            let held = slot.held();
            let tokens = held.state.tokens();
            tokens.is_some_and(|tokens| slept.covers(tokens.expires_at))
        });
        missed.map(|(owner, _)| owner.clone()).collect()
    }

    /// Tells all grants anew what was told by a clock that was set back since. Several daemons see the same clock: each
    /// speaks for what nobody has written since it looked last.
    pub(super) async fn follow_the_clock(&self) {
        let by = std::mem::take(&mut self.clocks.seen.lock().back);
        if by == Millis::ZERO {
            return;
        }
        tracing::warn!(by_ms = by.0, "the clock of this machine was set back");
        let known: Vec<(Owner, Version)> = {
            let slots = self.slots.read();
            let known = slots.iter();
            known
                .map(|(owner, slot)| (owner.clone(), slot.version()))
                .collect()
        };
        for (owner, version) in known {
            let event = |record: Option<&GrantRecord>| match record {
                Some(record) if record.version == version => Event::ClockSetBack { by },
                Some(_) | None => Event::Due,
            };
            if let Err(error) = self.feed(&owner, event, Along::default()).await {
                tracing::warn!(%error, "a grant cannot be written");
            }
        }
    }
}
