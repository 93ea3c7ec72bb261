//! What only one may do at a time, across tasks and daemons.

use std::time::{Duration, Instant};

use steadfast_core::Wall;
use steadfast_store::{Error, Lease, LeaseKey, Problem, Taken};

use super::Grants;
use crate::clock;

/// How often a lease that somebody else holds is asked for.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How many times the length of a lease it is waited for: a renewal under way may take several requests, and makes
/// its lease longer with each.
const PATIENCE: u32 = 3;

impl Grants {
    /// When a lease ends that is taken or renewed now.
    pub(super) fn lease_end(&self, now: Wall) -> Wall {
        Wall(now.0.saturating_add_unsigned(self.settings.lease.0.0))
    }

    /// Takes a lease for this daemon, if nobody has it.
    pub(super) async fn take_lease(&self, key: &LeaseKey) -> Result<Taken, Error> {
        let now = clock::wall();
        let until = self.lease_end(now);
        self.store.take_lease(key, &self.holder, now, until).await
    }

    /// The same, as soon as nobody has it.
    ///
    /// # Errors
    ///
    /// Where somebody else keeps it, and where the store refuses.
    pub(super) async fn await_lease(&self, key: &LeaseKey) -> Result<Lease, Error> {
        let patience = self.settings.lease.duration() * PATIENCE;
        let began = Instant::now();
        loop {
            match self.take_lease(key).await? {
                Taken::Yes(lease) => return Ok(lease),
                Taken::No { holder, .. } if began.elapsed() >= patience => {
                    return Err(held(key, &holder, patience));
                }
                Taken::No { .. } => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
    }
}

fn held(key: &LeaseKey, holder: &str, patience: Duration) -> Error {
    let place = match key {
        LeaseKey::Renewal { agent, server } => {
            format!("the lease to renew or give back the grant of {agent} for {server}")
        }
        LeaseKey::Registration { issuer, .. } => {
            format!("the lease to register a client at {issuer}")
        }
    };
    let seconds = patience.as_secs();
    let detail = format!("the daemon of {holder} has held it for {seconds} s");
    Error::new(Problem::Leased, place, detail)
}
