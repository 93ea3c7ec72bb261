//! Fills a store with grants that must be renewed within an hour, and says how long the search for due ones takes:
//!
//! ```text
//! cargo run --release -p steadfast-store --features suite --example fill_grants -- DIR 100000 50
//! ```
//!
//! The arguments are the data directory, the number of grants and the number of issuers. Tokens are sealed with the key
//! of that directory, so that a daemon can renew them.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use steadfast_core::Wall;
use steadfast_core::grant::{State, Strikes, Tokens};
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::client::Auth;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_store::suite::fill_grants;
use steadfast_store::{
    ClientOrigin, GrantClient, GrantRecord, GrantSecrets, KeySource, SharedStore, SqliteOptions,
    SqliteRecords, Vault, Version,
};

const HOUR: i64 = 3_600_000;
/// The start of a renewal ahead of expiry: `renewal.window` of the configuration.
const WINDOW: i64 = HOUR / 3;

/// One of `count` grants, which expire evenly over the hour to come.
fn grant(
    number: usize,
    count: usize,
    issuers: usize,
    now: i64,
) -> Result<GrantRecord, Box<dyn Error>> {
    let share = i64::try_from(number)? * HOUR / i64::try_from(count)?;
    let expires_at = Wall(now + share + WINDOW);
    let renew_at = Wall(now + share);
    let tokens = Tokens {
        generation: GrantGeneration(1),
        issued_at: Wall(expires_at.0 - HOUR),
        expires_at,
        renewable: true,
        scopes: Vec::new(),
    };
    let issuer = format!("https://as-{}.example", number % issuers);
    Ok(GrantRecord {
        agent: format!("agent-{number}").as_str().into(),
        server: "booking".into(),
        version: Version::NONE,
        generation: tokens.generation,
        state: State::Valid {
            tokens,
            renew_at,
            strikes: Strikes::default(),
        },
        wake_at: Some(renew_at),
        resource: None,
        token_endpoint: Some(format!("{issuer}/token")),
        issuer,
        client: GrantClient::new("bench".to_owned(), Auth::None, ClientOrigin::Imported),
        last_renewal: None,
        step_up: StepUp::default(),
        sealed: None,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let data = PathBuf::from(arguments.next().ok_or("name a data directory")?);
    let count: usize = arguments.next().unwrap_or("100000".to_owned()).parse()?;
    let issuers: usize = arguments.next().unwrap_or("50".to_owned()).parse()?;
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;

    let records = SqliteRecords::open(data.join("steadfast.db"), SqliteOptions::default()).await?;
    let records = Arc::new(records);
    let store: SharedStore = records.clone();
    let vault = Vault::open(&*store, KeySource::choose(None, &data)).await?;
    let mut made = Vec::with_capacity(count);
    for number in 0..count {
        let mut grant = grant(number, count, issuers, now)?;
        let secrets = GrantSecrets {
            access_token: format!("access-{number}-1").into(),
            refresh_token: Some(format!("refresh-{number}-1").into()),
            client_secret: None,
        };
        vault.seal_grant(&mut grant, &secrets)?;
        made.push(grant);
    }

    let begun = Instant::now();
    fill_grants(&store, made).await?;
    let commits = records.commits();
    println!("{count} grants in {:?}, {commits} commits", begun.elapsed());
    let servers = ["booking".into()];
    for due in [0, HOUR / 2, HOUR] {
        let begun = Instant::now();
        let found = store.due_grants(&servers, Wall(now + due), 4, 1_000);
        let found = found.await?.len();
        println!("searched in {:?}: {found} due", begun.elapsed());
    }
    store.close().await;
    Ok(())
}
