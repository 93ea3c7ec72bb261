//! The search for due grants reads the index and nothing else, however many grants there are.

use std::time::{Duration, Instant};

use steadfast_core::Wall;

use super::super::grants::{DUE, NEXT_WAKE};
use super::*;
use crate::grants::{DueSearch, Grants as _};
use crate::suite::fill_grants;
use crate::suite::samples::grant;

const ISSUERS: usize = 50;

/// As many grants of each issuer, which wake up one after the other.
async fn filled_with_grants(count: usize) -> (Arc<SqliteRecords>, TempDir) {
    let (folder, path) = place();
    let records = Arc::new(open(&path).await.unwrap());
    let store: SharedStore = records.clone();
    // A row for each issuer comes through the front door; the others are copies of it, which is faster.
    let seeds = (0..ISSUERS).map(|number| {
        let mut seed = grant(&format!("seed-{number}"), "crm");
        seed.issuer = format!("https://as-{number:03}.example");
        seed
    });
    fill_grants(&store, seeds).await.unwrap();
    let copies = i64::try_from(count / ISSUERS - 1).unwrap();
    let copied = records.writer.write(move |db| {
        Box::pin(async move {
            sqlx::query(
                "WITH RECURSIVE copies (n) AS \
                   (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < ?1) \
                 INSERT INTO grants (agent, server, version, generation, state, wake_at, issuer, \
                   resource, token_endpoint, client, last_renewal, sealed) \
                 SELECT agent || '-' || n, server, version, generation, state, wake_at + n, issuer, \
                   resource, token_endpoint, client, last_renewal, sealed FROM grants, copies",
            )
            .bind(copies)
            .execute(&mut *db)
            .await
        })
    });
    copied.await.unwrap();
    (records, folder)
}

#[tokio::test]
async fn the_search_for_due_grants_reads_only_the_index() {
    let (records, _folder) = filled_with_grants(1_000).await;
    for sql in [DUE, NEXT_WAKE] {
        let plan = plan(&records, sql).await;
        let of_grants: Vec<_> = plan
            .iter()
            // Of the table itself, or of one of its two names in the statement.
            .filter(|step| {
                let words: Vec<_> = step.split(' ').collect();
                matches!(words[..], ["SCAN" | "SEARCH", "grants" | "d" | "g", ..])
            })
            .collect();
        assert!(of_grants.len() >= 3, "{plan:#?}");
        for step in of_grants {
            let by_row = step.contains("USING INTEGER PRIMARY KEY (rowid=?)");
            // Of one issuer, or from one issuer to the next; never through all grants that are due.
            let by_issuer = step.contains("INDEX grants_due (issuer");
            let first_issuer = step.starts_with("SEARCH") && step.ends_with("INDEX grants_due");
            let by_index = by_issuer || first_issuer;
            assert!(by_row || by_index, "{step} in {plan:#?}");
        }
    }
}

/// How long the fastest of a few searches took.
async fn time(records: &SqliteRecords, now: Wall) -> Duration {
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let begun = Instant::now();
        let servers = [steadfast_core::ServerName::from("crm")];
        let search = DueSearch {
            servers: &servers,
            except: &[],
            now,
            per_issuer: 4,
            limit: 1_000,
        };
        let due = records.due_grants(search).await.unwrap();
        records.next_wake().await.unwrap();
        fastest = fastest.min(begun.elapsed());
        assert_eq!(due.len(), ISSUERS * 4);
    }
    fastest
}

/// Prints what it measures, and asserts what does not depend on the machine: what is found.
#[tokio::test]
async fn the_search_finds_the_same_among_a_thousand_and_a_hundred_thousand() {
    for count in [1_000, 100_000] {
        let (records, _folder) = filled_with_grants(count).await;
        // The first four of each issuer are due, whatever comes later.
        let now = Wall(grant("a", "crm").wake_at.unwrap().0 + 3);
        let took = time(&records, now).await;
        let total: i64 = sqlx::query_scalar("SELECT count(*) FROM grants")
            .fetch_one(&records.readers)
            .await
            .unwrap();
        assert_eq!(total, i64::try_from(count).unwrap());
        println!("{count} grants: searched in {took:?}");
    }
}
