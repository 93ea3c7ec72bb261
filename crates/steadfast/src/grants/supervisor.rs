//! Finds what is due, by the clock: also when nobody calls, and while servers are down (architecture, grants 2).

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use steadfast_core::grant::Event;
use steadfast_store::{DueGrant, DueSearch};
use tokio::task::JoinHandle;

use super::{Grants, Owner};
use crate::clock;

/// How many grants are taken up at a time; the next ones follow as soon as these have their turn.
const AT_ONCE: usize = 256;
/// The shortest pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// The pause where what is due is not for us: another daemon is at it, or its server is switched off.
const OTHERS: Duration = Duration::from_secs(1);

/// Starts the supervisor. It ends with the grants.
pub(crate) fn start(grants: &Arc<Grants>) -> JoinHandle<()> {
    tokio::spawn(supervise(Arc::downgrade(grants)))
}

async fn supervise(grants: Weak<Grants>) {
    let mut caught_up = Instant::now();
    let mut aside = BTreeSet::new();
    loop {
        let wait = match grants.upgrade() {
            Some(grants) => {
                if caught_up.elapsed() >= grants.settings.check_every.duration() {
                    grants.catch_up().await;
                    caught_up = Instant::now();
                }
                grants.take_up_what_is_due(&mut aside).await
            }
            None => return,
        };
        let Some(present) = grants.upgrade() else {
            return;
        };
        // No path leads past this: whatever went wrong, the clock is looked at again.
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = present.look.notified() => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Grants {
    /// Takes up what is due. How long until something will be, and no longer than the clock may be trusted for. `aside` are
    /// those that were found and cannot be taken up: they keep no others from being found.
    async fn take_up_what_is_due(self: &Arc<Self>, aside: &mut BTreeSet<Owner>) -> Duration {
        self.look_at_clocks();
        self.follow_the_clock().await;
        let longest = self.settings.check_every.duration().max(PAUSE);
        let due = match self.find_due(aside).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "grants that are due cannot be found");
                return longest;
            }
        };
        let mut stood = 0;
        for grant in &due {
            let owner = (grant.agent.clone(), grant.server.clone());
            let stands = self.in_line.lock().contains_key(&owner);
            // One that is about to be given back, or that another daemon knows of already, is not renewed. And where the
            // issuer is not known yet, those in line for one server must not keep out those of all others.
            if !self.configured.has(&owner) || (stands && grant.issuer.is_empty()) {
                aside.insert(owner);
            } else if stands {
                stood += 1;
            } else {
                self.tell(&owner, Event::Due).await;
            }
        }
        if due.len() > stood {
            return PAUSE;
        }
        match self.store.next_wake().await {
            Ok(Some(at)) if due.is_empty() => {
                let left = at.0.saturating_sub(clock::wall().0).max(0).unsigned_abs();
                let shortest = if left == 0 { OTHERS } else { PAUSE };
                Duration::from_millis(left).clamp(shortest, longest.max(shortest))
            }
            Ok(Some(_) | None) => longest.min(Duration::from_secs(1)),
            Err(_) => longest,
        }
    }

    async fn find_due(
        &self,
        aside: &mut BTreeSet<Owner>,
    ) -> Result<Vec<DueGrant>, steadfast_store::Error> {
        let standing = {
            let in_line = self.in_line.lock();
            aside.retain(|owner| in_line.contains_key(owner) || !self.configured.has(owner));
            in_line.len()
        };
        let except: Vec<Owner> = aside.iter().cloned().collect();
        let concurrency = self.settings.per_issuer_concurrency.max(1) as usize;
        let search = DueSearch {
            servers: &self.configured.enabled(),
            except: &except,
            now: clock::wall(),
            per_issuer: concurrency * 4,
            // Those in line at issuers that do not answer are found again each time.
            limit: AT_ONCE + standing,
        };
        self.store.due_grants(search).await
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::grant::{State, Tokens};
    use steadfast_core::identity::GrantGeneration;
    use steadfast_store::{Grants as _, MemoryRecords, Vault};

    use super::*;
    use crate::config;
    use crate::configured::Configured;
    use crate::grants::import;
    use crate::perform::dial::Dialer;
    use crate::secrets::Secrets;

    /// Grants that are due at these issuers, the first of them for the longest time; all but the last stand in line.
    async fn all_but_the_last_in_line(issuers: &[String]) -> (Arc<Grants>, Owner) {
        let store = Arc::new(MemoryRecords::new());
        let configured = Arc::<Configured>::default();
        let server = config::Server::at("http://127.0.0.1:9/mcp".parse().unwrap());
        configured.servers.lock().insert("s".into(), server);
        let vault = Arc::new(Vault::ephemeral().unwrap());
        let secrets = Secrets::load(store.clone(), vault).await.unwrap();
        let settings = config::Settings::default();
        let dialer = Dialer::new(&settings.network, Duration::from_secs(1)).unwrap();
        let (secrets, dialer) = (Arc::new(secrets), Arc::new(dialer));
        let (grants, _) = Grants::new(secrets, &settings, dialer, Arc::clone(&configured));
        let mut last = None;
        for (number, issuer) in issuers.iter().enumerate() {
            let owner: Owner = (format!("agent-{number:04}").as_str().into(), "s".into());
            let agent = config::Agent::with_servers(["s"]);
            configured.agents.lock().insert(owner.0.clone(), agent);
            let mut record = import::blank(&owner);
            let mut due = clock::wall();
            due.0 -= 60_000 - i64::try_from(number).unwrap();
            record.generation = GrantGeneration(1);
            record.issuer = issuer.clone();
            record.wake_at = Some(due);
            record.state = State::Valid {
                tokens: Tokens::none_yet(record.generation, due),
                renew_at: due,
                strikes: Default::default(),
            };
            store.swap_grant(&record).await.unwrap();
            grants.in_line.lock().insert(owner.clone(), false);
            last = Some(owner);
        }
        let last = last.unwrap();
        grants.in_line.lock().remove(&last);
        (grants, last)
    }

    async fn is_taken_up(grants: &Arc<Grants>, owner: &Owner) -> bool {
        let mut aside = BTreeSet::new();
        for _ in 0..20 {
            grants.take_up_what_is_due(&mut aside).await;
            if grants.in_line.lock().contains_key(owner) {
                return true;
            }
        }
        false
    }

    #[tokio::test]
    async fn those_in_line_for_servers_keep_out_no_others_whose_issuer_is_not_known() {
        let (grants, last) = all_but_the_last_in_line(&vec![String::new(); 40]).await;
        assert!(is_taken_up(&grants, &last).await);
    }

    #[tokio::test]
    async fn those_in_line_at_many_issuers_keep_out_no_others() {
        let issuers: Vec<_> = (0..=AT_ONCE)
            .map(|number| format!("https://as-{number}.test"))
            .collect();
        let (grants, last) = all_but_the_last_in_line(&issuers).await;
        assert!(is_taken_up(&grants, &last).await);
    }

    /// At one issuer there are only so many turns: the line is where they wait.
    #[tokio::test]
    async fn those_in_line_at_one_issuer_come_first() {
        let issuer = "https://as.test".to_owned();
        let (grants, last) = all_but_the_last_in_line(&vec![issuer; 40]).await;
        assert!(!is_taken_up(&grants, &last).await);
    }
}
