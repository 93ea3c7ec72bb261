//! Grants: compare-and-swap, generations, and who is due.

use steadfast_core::grant::State;
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::{AgentName, ServerName, Wall};

use super::samples::{agent, grant, renewed, server};
use crate::grants::{ClientOrigin, DueSearch, GrantRecord, LastRenewal};
use crate::leases::{LeaseKey, Taken};
use crate::store::SharedStore;
use crate::swap::{Swap, Version};
use crate::vault::Sealed;

async fn find(store: &SharedStore, agent: &str, server: &str) -> Option<GrantRecord> {
    store.grant(&agent.into(), &server.into()).await.unwrap()
}

async fn put(store: &SharedStore, grant: &GrantRecord) -> Version {
    match store.swap_grant(grant).await.unwrap() {
        Swap::Stored(version) => version,
        Swap::Lost(present) => panic!("lost against {present:?}"),
    }
}

fn asked_for_more() -> StepUp {
    let mut step_up = StepUp::default();
    step_up.signed_in(&["a".to_owned(), "b".to_owned()], &["a".to_owned()]);
    step_up
}

/// Every field, with and without a value.
pub async fn grants_come_back_as_they_were_put(store: SharedStore) {
    assert_eq!(find(&store, "a", "crm").await, None);
    let mut first = grant("a", "crm");
    assert_eq!(put(&store, &first).await, Version(1));
    first.version = Version(1);
    assert_eq!(find(&store, "a", "crm").await, Some(first.clone()));

    first.generation = GrantGeneration(2);
    first.state = State::None;
    first.wake_at = None;
    first.resource = None;
    first.token_endpoint = None;
    first.client.origin = ClientOrigin::Imported;
    first.last_renewal = Some(LastRenewal {
        at: Wall(7),
        outcome: "renewed".to_owned(),
    });
    first.step_up = asked_for_more();
    first.sealed = None;
    assert_eq!(put(&store, &first).await, Version(2));
    first.version = Version(2);
    assert_eq!(find(&store, "a", "crm").await, Some(first));
    // The names are not simply joined.
    assert_eq!(find(&store, "crm", "a").await, None);
}

/// Expiry is absolute (EX-01): whoever reads a grant later reads the same time.
pub async fn the_expiry_of_a_grant_is_absolute(store: SharedStore) {
    let put = grant("a", "crm");
    let expires_at = put.state.tokens().unwrap().expires_at;
    store.swap_grant(&put).await.unwrap();
    for _ in 0..2 {
        let found = find(&store, "a", "crm").await.unwrap();
        assert_eq!(found.state.tokens().unwrap().expires_at, expires_at);
        assert_eq!(found.wake_at, put.wake_at);
    }
}

/// The loser changes nothing and gets the record of the winner (RT-02, RT-04).
pub async fn a_grant_is_written_by_whoever_read_the_latest_version(store: SharedStore) {
    let mut first = grant("a", "crm");
    first.version = put(&store, &first).await;
    let mut winner = renewed(&first, 2);
    let late = renewed(&first, 2);
    winner.version = put(&store, &winner).await;
    assert_eq!(winner.version, Version(2));
    for stale in [late, grant("a", "crm")] {
        let lost = store.swap_grant(&stale).await.unwrap();
        assert_eq!(lost, Swap::Lost(Some(Box::new(winner.clone()))));
    }
    assert_eq!(find(&store, "a", "crm").await, Some(winner));

    // Of what is not there, no version can be replaced.
    let mut absent = grant("b", "crm");
    absent.version = Version(4);
    let lost = store.swap_grant(&absent).await.unwrap();
    assert_eq!(lost, Swap::Lost(None));
    assert_eq!(find(&store, "b", "crm").await, None);
}

/// Of those that read the same version, one wins.
pub async fn one_of_many_concurrent_writers_of_a_grant_wins(store: SharedStore) {
    let mut first = grant("a", "crm");
    first.version = put(&store, &first).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let store = store.clone();
        let mut mine = renewed(&first, 2);
        mine.resource = Some(format!("https://crm.example/{number}"));
        tasks.spawn(async move {
            match store.swap_grant(&mine).await.unwrap() {
                Swap::Stored(_) => (mine.resource, true),
                Swap::Lost(present) => (present.unwrap().resource, false),
            }
        });
    }
    let mut winners = 0;
    let mut seen = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (resource, won) = done.unwrap();
        winners += usize::from(won);
        seen.push(resource);
    }
    assert_eq!(winners, 1);
    let stored = find(&store, "a", "crm").await.unwrap();
    assert_eq!(stored.version, Version(2));
    // The losers saw the winner, and nothing between.
    assert!(seen.iter().all(|resource| *resource == stored.resource));
}

/// Not even with the right version.
pub async fn the_generation_of_a_grant_never_goes_back(store: SharedStore) {
    let mut present = renewed(&grant("a", "crm"), 5);
    present.version = put(&store, &present).await;
    let behind = renewed(&present, 4);
    let lost = store.swap_grant(&behind).await.unwrap();
    assert_eq!(lost, Swap::Lost(Some(Box::new(present.clone()))));
    assert_eq!(find(&store, "a", "crm").await, Some(present));
}

/// A change of the state does not bring an old set of tokens back, and a new set replaces the old one as a whole.
pub async fn what_is_sealed_belongs_to_its_generation(store: SharedStore) {
    let mut present = grant("a", "crm");
    present.version = put(&store, &present).await;
    let kept = present.sealed.clone();
    present.state = State::None;
    present.sealed = Some(Sealed::from(b"of another time".to_vec()));
    present.version = put(&store, &present).await;
    let found = find(&store, "a", "crm").await.unwrap();
    assert_eq!(found.sealed, kept);
    assert_eq!(found.state, State::None);

    let next = renewed(&found, 2);
    put(&store, &next).await;
    let found = find(&store, "a", "crm").await.unwrap();
    assert_eq!(found.sealed, next.sealed);
    assert_ne!(found.sealed, kept);
}

/// Removing is for those who know what they remove; what is left has no tokens, and its numbers go on.
pub async fn a_removed_grant_leaves_its_numbers_and_no_tokens(store: SharedStore) {
    let (a, crm) = (AgentName::from("a"), ServerName::from("crm"));
    let lost = store.remove_grant(&a, &crm, Version(1)).await.unwrap();
    assert_eq!(lost, Swap::Lost(None));
    let mut present = renewed(&grant("a", "crm"), 3);
    present.step_up = asked_for_more();
    present.version = put(&store, &present).await;
    present.version = put(&store, &present).await;
    // A sign-in that came between was not revoked.
    let lost = store.remove_grant(&a, &crm, Version(1)).await.unwrap();
    assert_eq!(lost, Swap::Lost(Some(Box::new(present.clone()))));
    assert_eq!(find(&store, "a", "crm").await, Some(present.clone()));

    let removed = store.remove_grant(&a, &crm, Version(2)).await.unwrap();
    assert_eq!(removed, Swap::Stored(Version(3)));
    let left = find(&store, "a", "crm").await.unwrap();
    assert_eq!(left.sealed, None);
    assert_eq!(left.state, State::None);
    assert_eq!(left.wake_at, None);
    assert_eq!(left.step_up, StepUp::default());
    assert_eq!(left.generation, GrantGeneration(3));
    assert_eq!(store.grants(None, 9).await.unwrap(), []);
    assert_eq!(store.next_wake().await.unwrap(), None);

    // Whoever slept through it can bring nothing back, neither as a new grant nor as the old one.
    let mut slept = present.clone();
    for version in [Version::NONE, Version(2)] {
        slept.version = version;
        assert!(!store.swap_grant(&slept).await.unwrap().is_stored());
    }
    slept.version = Version(3);
    put(&store, &slept).await;
    assert_eq!(find(&store, "a", "crm").await.unwrap().sealed, None);
    // A new sign-in takes the next generation.
    let mut next = renewed(&present, 4);
    next.version = Version(4);
    put(&store, &next).await;
    let found = find(&store, "a", "crm").await.unwrap();
    assert_eq!(found.sealed, next.sealed);
}

/// It must be revoked first, and is found among the grants for that.
pub async fn a_grant_outlives_its_agent_and_its_server(store: SharedStore) {
    store.put_agent(&agent("a")).await.unwrap();
    store.put_server(&server("crm")).await.unwrap();
    let mut present = grant("a", "crm");
    present.version = put(&store, &present).await;
    assert!(store.remove_agent(&"a".into()).await.unwrap());
    assert!(store.remove_server(&"crm".into()).await.unwrap());
    assert_eq!(store.grants(None, 9).await.unwrap(), [present]);
}

/// In the order of their names, a part at a time.
pub async fn grants_are_listed_in_parts(store: SharedStore) {
    let names = [("a", "crm"), ("a", "mail"), ("b", "crm"), ("b", "mail")];
    for (agent, server) in names.iter().rev() {
        put(&store, &grant(agent, server)).await;
    }
    let mut seen = Vec::new();
    let mut after: Option<(AgentName, ServerName)> = None;
    loop {
        let from = after.as_ref().map(|(agent, server)| (agent, server));
        let part = store.grants(from, 3).await.unwrap();
        let Some(last) = part.last() else { break };
        after = Some((last.agent.clone(), last.server.clone()));
        seen.extend(part.into_iter().map(|grant| (grant.agent, grant.server)));
    }
    let expected = names.map(|(agent, server)| (AgentName::from(agent), ServerName::from(server)));
    assert_eq!(seen, expected);
}

async fn put_due(store: &SharedStore, agent: &str, issuer: &str, wake_at: Option<i64>) {
    let mut due = grant(agent, "crm");
    due.issuer = issuer.to_owned();
    due.wake_at = wake_at.map(Wall);
    put(store, &due).await;
}

/// A search for all grants of `servers` by this time.
fn all_of(servers: &[ServerName], now: i64) -> DueSearch<'_> {
    DueSearch {
        servers,
        except: &[],
        now: Wall(now),
        per_issuer: 9,
        limit: 9,
    }
}

async fn due(store: &SharedStore, now: i64, per_issuer: usize, limit: usize) -> Vec<String> {
    let servers = [ServerName::from("crm")];
    let search = DueSearch {
        per_issuer,
        limit,
        ..all_of(&servers, now)
    };
    let due = store.due_grants(search).await.unwrap();
    assert!(due.iter().all(|grant| grant.wake_at <= Wall(now)));
    due.iter().map(|grant| grant.agent.to_string()).collect()
}

/// Those whose time has come, and no others; the earliest of all is known.
pub async fn due_grants_are_those_whose_time_has_come(store: SharedStore) {
    assert_eq!(store.next_wake().await.unwrap(), None);
    put_due(&store, "later", "https://as.example", Some(31)).await;
    put_due(&store, "never", "https://as.example", None).await;
    put_due(&store, "now", "https://as.example", Some(30)).await;
    put_due(&store, "before", "https://as.example", Some(-5)).await;
    put_due(&store, "other", "https://other.example", Some(20)).await;
    assert_eq!(due(&store, 30, 9, 9).await, ["before", "other", "now"]);
    assert_eq!(due(&store, 30, 9, 2).await, ["before", "other"]);
    assert_eq!(due(&store, 30, 0, 9).await, [""; 0]);
    assert_eq!(due(&store, -6, 9, 9).await, [""; 0]);
    assert_eq!(store.next_wake().await.unwrap(), Some(Wall(-5)));
    let crm = [ServerName::from("crm")];
    let all = store.due_grants(all_of(&crm, 30)).await.unwrap();
    assert_eq!(all[1].issuer, "https://other.example");
    assert_eq!(all[1].server, ServerName::from("crm"));
}

/// The grants of a server that is switched off have been due for long; they do not take the places of others.
pub async fn due_grants_are_those_of_the_servers_that_are_asked_for(store: SharedStore) {
    for number in 0..9 {
        let mut off = grant(&format!("a-{number}"), "off");
        off.wake_at = Some(Wall(number));
        put(&store, &off).await;
    }
    put_due(&store, "a-0", &grant("a-0", "off").issuer, Some(20)).await;
    assert_eq!(due(&store, 30, 2, 3).await, ["a-0"]);
    let none = store.due_grants(all_of(&[], 30)).await.unwrap();
    assert!(none.is_empty());
}

/// Whoever can do nothing about a grant says so, and finds those behind it.
pub async fn due_grants_that_are_left_out_take_no_places(store: SharedStore) {
    for number in 0..4 {
        let agent = format!("a-{number}");
        put_due(&store, &agent, "https://as.example", Some(number)).await;
    }
    let (crm, other) = (ServerName::from("crm"), ServerName::from("other"));
    let except = [
        ("a-0".into(), crm.clone()),
        ("a-2".into(), crm.clone()),
        // The same agent's grant for another server is another one.
        ("a-1".into(), other),
    ];
    let servers = [crm];
    let search = DueSearch {
        except: &except,
        per_issuer: 2,
        ..all_of(&servers, 30)
    };
    let found = store.due_grants(search).await.unwrap();
    let found: Vec<_> = found.iter().map(|grant| grant.agent.as_str()).collect();
    assert_eq!(found, ["a-1", "a-3"]);
}

/// The many grants of one issuer do not hold up the few of another: at most so many of each, in turns.
pub async fn due_grants_come_in_turns_from_all_issuers(store: SharedStore) {
    for number in 0..50 {
        let agent = format!("big-{number:02}");
        put_due(&store, &agent, "https://big.example", Some(number)).await;
    }
    put_due(&store, "small-0", "https://small.example", Some(100)).await;
    put_due(&store, "small-1", "https://small.example", Some(100)).await;
    put_due(&store, "tiny-0", "https://tiny.example", Some(90)).await;
    assert_eq!(
        due(&store, 100, 3, 99).await,
        ["big-00", "tiny-0", "small-0", "big-01", "small-1", "big-02"]
    );
    assert_eq!(
        due(&store, 100, 3, 4).await,
        ["big-00", "tiny-0", "small-0", "big-01"]
    );
}

/// Somebody is at it already; the next one in line takes its place in the search.
pub async fn a_leased_grant_is_not_due_until_the_lease_ends(store: SharedStore) {
    for number in 0..3 {
        let agent = format!("a-{number}");
        put_due(&store, &agent, "https://as.example", Some(number)).await;
    }
    let key = LeaseKey::Renewal {
        agent: "a-0".into(),
        server: "crm".into(),
    };
    let taken = store.take_lease(&key, "one", Wall(10), Wall(40)).await;
    assert!(matches!(taken.unwrap(), Taken::Yes(_)));
    assert_eq!(due(&store, 39, 2, 9).await, ["a-1", "a-2"]);
    assert_eq!(due(&store, 40, 2, 9).await, ["a-0", "a-1"]);
}
