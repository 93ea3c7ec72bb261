//! A ledger of many operations: how long a page of the list, everything on record of one, and the check for repeats take.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use steadfast_core::operation::{Contract, Evidence, Fact, Said, State, Trail};
use steadfast_core::{AgentName, OperationId, ServerName, Wall};
use steadfast_store::suite::fill_operations;
use steadfast_store::{
    Digest, KeySource, OperationFilter, OperationRecord, OperationSecrets, SharedStore,
    SqliteOptions, SqliteRecords, Vault, Version, make_operation_id,
};

use crate::Outcome;
use crate::bounds::Bounds;

const AGENTS: usize = 50;
const SERVERS: usize = 20;
/// How many are made before they are written.
const TOGETHER: usize = 10_000;
/// One in so many waits for a person.
const HELD: usize = 1_000;
/// One in so many is the same call as many others: a note that is written every minute.
const SAME: usize = 10;
/// How many operations the list and the check for repeats look at, as the gateway asks for them.
const LISTED: usize = 100;
const EARLIER: usize = 16;
/// How often each is measured.
const LOOKS: usize = 200;

/// The bound that the project has set itself.
const WITHIN: Duration = Duration::from_millis(10);

pub(super) async fn measure(operations: usize, bounds: &mut Bounds) -> Outcome {
    let folder = tempfile::Builder::new()
        .prefix("steadfast-bench-")
        .tempdir()?;
    let (store, vault) = open(folder.path()).await?;
    let began = Instant::now();
    let ids = fill(&store, &vault, operations).await?;
    println!(
        "ledger of {operations} operations, filled in {:.0} s",
        began.elapsed().as_secs_f64()
    );
    for (what, times) in looks(&store, &ids).await? {
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let (median, most) = (at(0.5), at(0.99));
        println!(
            "{what}: median {:.2} ms, 99 of 100 within {:.2} ms",
            median.as_secs_f64() * 1e3,
            most.as_secs_f64() * 1e3
        );
        bounds.keep(what, most < WITHIN);
    }
    store.close().await;
    Ok(())
}

async fn open(data: &Path) -> Outcome<(SharedStore, Vault)> {
    let records = SqliteRecords::open(data.join("steadfast.db"), SqliteOptions::default()).await?;
    let store: SharedStore = Arc::new(records);
    let vault = Vault::open(&*store, KeySource::choose(None, data)).await?;
    Ok((store, vault))
}

/// Fills it; the ids of all.
async fn fill(store: &SharedStore, vault: &Vault, operations: usize) -> Outcome<Vec<OperationId>> {
    let mut ids = Vec::with_capacity(operations);
    while ids.len() < operations {
        let until = operations.min(ids.len() + TOGETHER);
        let mut filled = Vec::with_capacity(TOGETHER);
        for number in ids.len()..until {
            let id = make_operation_id(Wall(i64::try_from(number)?))?;
            ids.push(id.clone());
            filled.push(operation(number, id, vault)?);
        }
        fill_operations(store, filled).await?;
    }
    Ok(ids)
}

fn agent(number: usize) -> AgentName {
    AgentName::from(format!("agent{}", number % AGENTS).as_str())
}

fn server(number: usize) -> ServerName {
    ServerName::from(format!("server{}", number / AGENTS % SERVERS).as_str())
}

/// What identical calls have in common.
fn call(number: usize) -> Digest {
    let mut digest = [0; 32];
    let number = if number.is_multiple_of(SAME) {
        0
    } else {
        number
    };
    digest[..8].copy_from_slice(
        &(number as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes(),
    );
    digest
}

fn operation(
    number: usize,
    id: OperationId,
    vault: &Vault,
) -> Outcome<(OperationRecord, Vec<Fact>)> {
    let at = Wall(i64::try_from(number)?);
    let params = r#"{"name":"create_booking","arguments":{"room":"4","guest":"A. Lovelace"}}"#;
    let secrets = OperationSecrets {
        params: params.to_owned().into(),
        operation_key: None,
        provider_key: None,
    };
    let sealed = vault.seal_operation(&id, &secrets)?;
    let trail = Trail {
        attempts: 1,
        first_sent: Some(at),
        last_sent: Some(at),
        ..Trail::default()
    };
    let sent = State::Sent {
        trail: trail.clone(),
    };
    let (state, evidence) = if number.is_multiple_of(HELD) {
        let why = "no contract says how to find out, or that a repeat is safe".to_owned();
        let evidence = "the stream ended before the response".to_owned();
        (
            State::Held { trail, why },
            Evidence::Lost {
                bytes_sent: 412,
                evidence,
            },
        )
    } else {
        let (said, late) = (Said::Result, false);
        (
            State::Observed { trail, said, late },
            Evidence::Answered { said, late },
        )
    };
    let fact = |evidence, state: &State, decision: &str| Fact {
        at,
        evidence,
        state: state.clone(),
        decision: decision.to_owned(),
    };
    let rpc_id = number.to_string();
    let leaving = Evidence::Leaving { attempt: 1, rpc_id };
    let facts = vec![
        fact(leaving, &sent, "it is on record, and leaves"),
        fact(evidence, &state, "its result was observed"),
    ];
    let record = OperationRecord {
        id,
        version: Version::NONE,
        agent: agent(number),
        server: server(number),
        tool: "create_booking".to_owned(),
        digest: call(number),
        call_digest: call(number),
        key_hash: None,
        leg_hash: None,
        contract: Contract::default(),
        state,
        undelivered: false,
        driver: None,
        wake_at: None,
        intended_at: at,
        changed_at: at,
        sealed,
        result: None,
    };
    Ok((record, facts))
}

/// How long each took, the shortest first.
async fn looks(
    store: &SharedStore,
    ids: &[OperationId],
) -> Outcome<Vec<(&'static str, Vec<Duration>)>> {
    let place = |look: usize| (look * 7_919 + 13) % ids.len();
    let filters: [fn(usize) -> OperationFilter; 4] = [
        |_| OperationFilter::default(),
        |_| OperationFilter {
            state: Some("held".to_owned()),
            ..OperationFilter::default()
        },
        |look| OperationFilter {
            agent: Some(agent(look)),
            ..OperationFilter::default()
        },
        |look| OperationFilter {
            agent: Some(agent(look)),
            server: Some(server(look)),
            ..OperationFilter::default()
        },
    ];
    let (mut list, mut show, mut check) = (Vec::new(), Vec::new(), Vec::new());
    for look in 0..LOOKS {
        let number = place(look);
        let mut filter = filters[look % filters.len()](number);
        // Somewhere in the middle of it: a page of an export.
        filter.before = (look % 2 == 0).then(|| ids[number].clone());
        let began = Instant::now();
        store.operations(&filter, LISTED).await?;
        list.push(began.elapsed());

        let began = Instant::now();
        let shown = store.operation(&ids[number]).await?;
        let facts = store.operation_facts(&ids[number]).await?;
        show.push(began.elapsed());
        if shown.is_none() || facts.len() != 2 {
            return Err(format!("operation {number} is not on record as it was").into());
        }

        let began = Instant::now();
        // Also of the call that is made again and again.
        let same = if look % 2 == 0 { 0 } else { number };
        store
            .similar_operations(&agent(number), &server(number), &call(same), None, EARLIER)
            .await?;
        check.push(began.elapsed());
    }
    for times in [&mut list, &mut show, &mut check] {
        times.sort();
    }
    Ok(vec![
        ("a page of the list", list),
        ("all that is on record of one", show),
        ("the check for repeats", check),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The run that is measured, smaller.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_ledger_is_filled_and_looked_at() {
        // How long it takes is for a release build on a quiet machine to say.
        measure(3_000, &mut Bounds::default()).await.unwrap();
    }
}
