//! The store before and after: filled with grants, and searched for those that were not renewed.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steadfast::clock;
use steadfast_core::Wall;
use steadfast_core::identity::GrantGeneration;
use steadfast_store::suite::fill_grants;
use steadfast_store::{
    DueSearch, GrantSecrets, KeySource, SharedStore, SqliteOptions, SqliteRecords, Vault,
};

use super::issuers::{access_token, refresh_token};
use super::plan::{Plan, servers};
use crate::Outcome;

/// How often each search is repeated; the fastest counts.
const SEARCHES: usize = 50;
/// What the supervisor asks for at a time: of each issuer, and in all.
const AT_ONCE: (usize, usize) = (16, 256);

pub(super) async fn open(data: &Path) -> Outcome<(SharedStore, Arc<Vault>)> {
    let records = SqliteRecords::open(data.join("steadfast.db"), SqliteOptions::default()).await?;
    let store: SharedStore = Arc::new(records);
    let vault = Vault::open(&*store, KeySource::choose(None, data)).await?;
    Ok((store, Arc::new(vault)))
}

/// Fills a data directory, in steps; how long the search for due grants took at each.
pub(super) async fn fill(
    plan: &Plan,
    data: &Path,
    address: SocketAddr,
) -> Outcome<Vec<(usize, Duration)>> {
    let (store, vault) = open(data).await?;
    let mut searched = Vec::new();
    let mut filled = 0;
    for share in [100, 10, 1] {
        let until = plan.options.grants / share;
        let mut grants = Vec::with_capacity(until - filled);
        for number in filled..until {
            let mut grant = plan.grant(number, address);
            let secrets = GrantSecrets {
                access_token: access_token(number, 1).into(),
                refresh_token: Some(refresh_token(number, 1).into()),
                client_secret: None,
            };
            vault.seal_grant(&mut grant, &secrets)?;
            grants.push(grant);
        }
        fill_grants(&store, grants).await?;
        filled = until;
        searched.push((filled, search(&store, plan).await?));
    }
    store.close().await;
    Ok(searched)
}

/// Whether so many grants are as many as one look asks for.
pub(super) fn fill_a_look(plan: &Plan, grants: usize) -> bool {
    let (of_each, in_all) = AT_ONCE;
    grants >= in_all && grants >= of_each * plan.options.issuers
}

/// One look of the supervisor, where more is due than it takes up at a time.
async fn search(store: &SharedStore, plan: &Plan) -> Outcome<Duration> {
    let mut fastest = Duration::MAX;
    for _ in 0..SEARCHES {
        let begun = Instant::now();
        let (of_each, in_all) = AT_ONCE;
        let search = DueSearch {
            servers: &servers(),
            except: &[],
            now: plan.ends(),
            per_issuer: of_each,
            limit: in_all,
        };
        store.due_grants(search).await?;
        store.next_wake().await?;
        fastest = fastest.min(begun.elapsed());
    }
    Ok(fastest)
}

/// How many grants were never renewed, and how many have an access token that is good no more.
pub(super) async fn neglected(store: &SharedStore, now: Wall) -> Outcome<(usize, usize)> {
    const PAGE: usize = 1_000;
    let (mut never, mut expired) = (0, 0);
    let mut after = None;
    loop {
        let last = after.as_ref().map(|(agent, server)| (agent, server));
        let page = store.grants(last, PAGE).await?;
        for grant in &page {
            never += usize::from(grant.generation <= GrantGeneration(1));
            let is_good = grant.state.tokens().is_some_and(|tokens| tokens.good(now));
            expired += usize::from(!is_good);
        }
        match page.last() {
            Some(last) => after = Some((last.agent.clone(), last.server.clone())),
            None => return Ok((never, expired)),
        }
    }
}

/// Until this moment.
pub(super) async fn wait_until(at: Wall) {
    let left = at.0.saturating_sub(clock::wall().0).max(0);
    tokio::time::sleep(Duration::from_millis(left.unsigned_abs())).await;
}
