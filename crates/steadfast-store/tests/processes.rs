//! What several processes, a kill and a full disk do to one file. Each test starts this program again as
//! its child, which runs nothing but `child` or `saver`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use steadfast_core::grant::{State, Tokens};
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::client::Auth;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::{AgentName, ServerName, Wall};
use steadfast_store::vault::{Key, KeyRing};
use steadfast_store::{
    ClientOrigin, ExposeSecret as _, GrantClient, GrantRecord, GrantSecrets, Grants as _,
    KeySource, Problem, Records as _, SecretString, SqliteOptions, SqliteRecords, Swap, Transition,
    Vault, Version,
};

const FILE: &str = "STEADFAST_STORE_TEST_FILE";
const TAG: &str = "STEADFAST_STORE_TEST_TAG";
const COUNT: &str = "STEADFAST_STORE_TEST_COUNT";

/// How many tasks of a child write at the same time.
const TASKS: usize = 4;
/// How many rows each write appends.
const ROWS: i64 = 3;

/// The child: appends without a pause, from several tasks, and says what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is what the other tests run as their child"]
async fn child() {
    let file = std::env::var(FILE).expect("the other tests of this file start it");
    let tag = std::env::var(TAG).unwrap();
    let count: i64 = std::env::var(COUNT).unwrap().parse().unwrap();
    // The test harness has begun a line.
    println!();
    let records = SqliteRecords::open(file, SqliteOptions::default());
    let records = Arc::new(records.await.unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let records = Arc::clone(&records);
        let tag = tag.clone();
        tasks.spawn(async move {
            for number in 0..count {
                let rows = [number; ROWS as usize].map(|number| Transition {
                    at: Wall(number),
                    agent: tag.as_str().into(),
                    server: server(task),
                    from: "connected".to_owned(),
                    to: "retrying".to_owned(),
                    fault: None,
                    reason: "r".repeat(200),
                });
                match records.append_history(&rows).await {
                    Ok(()) => println!("acked {task} {number}"),
                    Err(error) => {
                        println!("failed {error}");
                        return;
                    }
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    records.close().await;
}

fn server(task: usize) -> ServerName {
    ServerName::new(format!("server-{task}"))
}

struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    acked: BTreeMap<usize, i64>,
    failures: Vec<String>,
}

impl Running {
    /// Starts a child by way of a shell that first runs `before`.
    fn start(before: &str, file: &Path, tag: &str, count: i64) -> Self {
        Self::start_as("child", before, file, tag, count)
    }

    fn start_as(what: &str, before: &str, file: &Path, tag: &str, count: i64) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{before} exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", what, "--nocapture"])
            .env(FILE, file)
            .env(TAG, tag)
            .env(COUNT, count.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            lines,
            acked: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// Reads until `enough` more writes were acknowledged, or to the end.
    fn read(&mut self, enough: usize) {
        let mut seen = 0;
        while seen < enough
            && let Some(line) = self.lines.next()
        {
            // A killed child may leave half a line, which says nothing.
            let line = line.unwrap_or_default();
            if let Some(failure) = line.strip_prefix("failed ") {
                self.failures.push(failure.to_owned());
            }
            let mut words = line.split(' ');
            if let (Some("acked"), Some(task), Some(number), None) =
                (words.next(), words.next(), words.next(), words.next())
            {
                seen += 1;
                self.acked
                    .insert(task.parse().unwrap(), number.parse().unwrap());
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.read(usize::MAX);
        self.child.wait().unwrap();
    }

    fn finish(&mut self) {
        self.read(usize::MAX);
        assert!(self.child.wait().unwrap().success());
    }
}

/// A child that outlives its test would hold the file.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every acknowledged write is there, and every write is there as a whole or not at all.
async fn assert_kept(records: &SqliteRecords, tag: &str, acked: &BTreeMap<usize, i64>) {
    let agent = AgentName::from(tag);
    for task in 0..TASKS {
        let history = records.history(&agent, &server(task), usize::MAX).await;
        let mut rows = BTreeMap::<i64, i64>::new();
        for entry in history.unwrap() {
            *rows.entry(entry.at.0).or_default() += 1;
        }
        let last = acked.get(&task).copied().unwrap_or(-1);
        for number in 0..=last {
            assert!(
                rows.contains_key(&number),
                "{tag}, {task}: {number} of {last} is lost"
            );
        }
        let torn: Vec<_> = rows.iter().filter(|(_, count)| **count != ROWS).collect();
        assert!(torn.is_empty(), "{tag}, {task}: {torn:?}");
    }
}

async fn open(file: &Path) -> SqliteRecords {
    let records = SqliteRecords::open(file, SqliteOptions::default()).await;
    records.unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steadfast.db");
    let mut rounds = Vec::new();
    for round in 0..6 {
        let mut random = [0];
        getrandom::fill(&mut random).unwrap();
        let tag = format!("round {round}, killed after {}", random[0]);
        let mut running = Running::start("", &file, &tag, i64::MAX);
        running.read(usize::from(random[0]) + 1);
        running.kill();
        assert!(!running.acked.is_empty());
        rounds.push((tag, running.acked.clone()));
        let records = open(&file).await;
        for (tag, acked) in &rounds {
            assert_kept(&records, tag, acked).await;
        }
        // Without closing it: the next child finds what a second process holds open.
    }
}

#[tokio::test]
async fn two_processes_share_a_file_from_its_first_moment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data/steadfast.db");
    let mut both = ["one", "two"].map(|tag| Running::start("", &file, tag, 25));
    for running in &mut both {
        running.finish();
        assert_eq!(running.failures, [""; 0]);
    }
    let records = open(&file).await;
    for (tag, running) in ["one", "two"].iter().zip(&both) {
        assert_eq!(running.acked, (0..TASKS).map(|task| (task, 24)).collect());
        assert_kept(&records, tag, &running.acked).await;
    }
    records.close().await;
    let names: Vec<_> = std::fs::read_dir(file.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["steadfast.db"], "nothing is left over");
}

#[tokio::test]
async fn only_the_owner_may_read_whatever_the_umask_says() {
    let folder = tempfile::tempdir().unwrap();
    for umask in ["000", "277"] {
        let data = folder.path().join(umask);
        let file = data.join("steadfast.db");
        let mut running = Running::start(&format!("umask {umask};"), &file, "a", i64::MAX);
        running.read(1);
        assert_eq!(mode(&data), 0o700);
        for name in ["steadfast.db", "steadfast.db-wal", "steadfast.db-shm"] {
            assert_eq!(mode(&data.join(name)), 0o600, "{name} with umask {umask}");
        }
        running.kill();
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steadfast.db");
    open(&file).await.close().await;
    // No file may grow beyond 1000 blocks, and reaching that is an error of the write, not a signal.
    let limit = "trap '' XFSZ; ulimit -f 1000;";
    let mut running = Running::start(limit, &file, "a", i64::MAX);
    running.finish();
    assert_eq!(running.failures.len(), TASKS);
    for failure in &running.failures {
        assert!(failure.contains("steadfast.db"), "{failure}");
        assert!(failure.contains("Nothing was changed."), "{failure}");
    }
    assert!(!running.acked.is_empty());
    let records = open(&file).await;
    assert_kept(&records, "a", &running.acked).await;
    records.put_meta("room", "again").await.unwrap();
}

/// A vault that parent and children have in common.
fn vault() -> Vault {
    let key = Key::parse(&"5a".repeat(32)).unwrap();
    Vault::new(KeyRing::of(key), KeySource::Nowhere)
}

/// What the tokens of this generation are: long, so that a row has more than one page.
fn token(server: &str, generation: u64) -> SecretString {
    format!("{server} {generation} ").repeat(1_000).into()
}

fn next(present: Option<GrantRecord>, server: &str) -> GrantRecord {
    let generation = present.as_ref().map_or(1, |grant| grant.generation.0 + 1);
    GrantRecord {
        agent: "a".into(),
        server: server.into(),
        version: present.map_or(Version::NONE, |grant| grant.version),
        generation: GrantGeneration(generation),
        state: State::Unrenewable {
            tokens: Tokens {
                generation: GrantGeneration(generation),
                issued_at: Wall(0),
                expires_at: Wall(1),
                renewable: false,
                scopes: Vec::new(),
            },
        },
        wake_at: Some(Wall(1)),
        issuer: "https://as.example".to_owned(),
        resource: None,
        token_endpoint: None,
        client: GrantClient::new("c".to_owned(), Auth::None, ClientOrigin::MetadataDocument),
        last_renewal: None,
        step_up: StepUp::default(),
        sealed: None,
    }
}

/// The child: saves the grant of one server again and again, each time with new tokens.
#[tokio::test]
#[ignore = "it is what the other tests run as their child"]
async fn saver() {
    let file = std::env::var(FILE).expect("the other tests of this file start it");
    let server = std::env::var(TAG).unwrap();
    let count: i64 = std::env::var(COUNT).unwrap().parse().unwrap();
    println!();
    let (records, vault) = (open(Path::new(&file)).await, vault());
    for _ in 0..count {
        let present = records.grant(&"a".into(), &server.as_str().into()).await;
        let mut grant = next(present.unwrap(), &server);
        let secrets = GrantSecrets {
            access_token: token(&server, grant.generation.0),
            refresh_token: None,
            client_secret: None,
        };
        vault.seal_grant(&mut grant, &secrets).unwrap();
        match records.swap_grant(&grant).await {
            Ok(Swap::Stored(_)) => println!("acked 0 {}", grant.generation.0),
            Ok(Swap::Lost(present)) => panic!("nobody else saves it: {present:?}"),
            Err(error) => {
                println!("failed {error}");
                return;
            }
        }
    }
    records.close().await;
}

/// Reads a grant, which is one that was saved as a whole. Its generation.
async fn saved(records: &SqliteRecords, server: &str) -> u64 {
    let found = records.grant(&"a".into(), &server.into()).await.unwrap();
    let Some(grant) = found else { return 0 };
    let secrets = vault().open_grant(&grant).unwrap().unwrap();
    let expected = token(server, grant.generation.0);
    assert_eq!(
        secrets.access_token.expose_secret(),
        expected.expose_secret()
    );
    assert_eq!(
        grant.state.tokens().unwrap().generation,
        grant.generation,
        "tokens and state of one save"
    );
    grant.generation.0
}

fn acked(running: &Running) -> u64 {
    let last = running.acked.get(&0).copied().unwrap_or_default();
    u64::try_from(last).unwrap()
}

#[tokio::test]
async fn rt_05_saves_of_several_processes_lose_nothing_and_tear_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steadfast.db");
    let records = open(&file).await;
    let mut both = ["crm", "mail"].map(|tag| Running::start_as("saver", "", &file, tag, 200));
    let mut before = [0; 3];
    for _ in 0..6 {
        let mut random = [0];
        getrandom::fill(&mut random).unwrap();
        let mut third = Running::start_as("saver", "", &file, "killed", i64::MAX);
        third.read(usize::from(random[0]) % 40 + 1);
        third.kill();
        let mut now = [0; 3];
        for (place, server) in ["crm", "mail", "killed"].iter().enumerate() {
            now[place] = saved(&records, server).await;
            assert!(now[place] >= before[place], "{server} went back");
        }
        assert!(now[2] >= acked(&third), "{now:?} after {}", acked(&third));
        before = now;
    }
    for (running, server) in both.iter_mut().zip(["crm", "mail"]) {
        running.finish();
        assert_eq!(running.failures, [""; 0]);
        assert_eq!(acked(running), 200);
        assert_eq!(saved(&records, server).await, 200);
    }
    assert_eq!(mode(&file), 0o600);
    records.close().await;

    // A disk that fills up while a third one saves.
    let blocks = std::fs::metadata(&file).unwrap().len() / 512 + 200;
    let limit = format!("trap '' XFSZ; ulimit -f {blocks};");
    let mut full = Running::start_as("saver", &limit, &file, "full", i64::MAX);
    full.finish();
    assert_eq!(full.failures.len(), 1);
    assert!(
        full.failures[0].contains("steadfast.db"),
        "{:?}",
        full.failures
    );
    let records = open(&file).await;
    let expected = [200, 200, before[2], acked(&full)];
    for (server, expected) in ["crm", "mail", "killed", "full"].iter().zip(expected) {
        assert_eq!(saved(&records, server).await, expected, "{server}");
    }
    records.close().await;
}

#[tokio::test]
async fn rt_05_a_store_that_was_cut_in_half_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steadfast.db");
    Running::start_as("saver", "", &file, "crm", 20).finish();
    Running::start_as("saver", "", &file, "mail", 20).finish();
    let whole = std::fs::read(&file).unwrap();
    let half = &whole[..whole.len() / 2];
    std::fs::write(&file, half).unwrap();
    let opened = SqliteRecords::open(&file, SqliteOptions::default()).await;
    let error = opened.unwrap_err();
    assert_eq!(error.problem(), Problem::Damaged, "{error}");
    assert!(
        error.to_string().contains(&file.display().to_string()),
        "{error}"
    );
    assert!(std::fs::read(&file).unwrap() == half, "a byte was changed");
    // With the copy that a person kept, everything is there again.
    std::fs::write(&file, &whole).unwrap();
    let records = open(&file).await;
    for server in ["crm", "mail"] {
        assert_eq!(saved(&records, server).await, 20);
    }
}
