//! Agents of both eras want consequential things done by servers of both eras, while bytes are cut at every place of
//! request and answer, agents give up and call again, and the gateway is killed. The rows of the providers are the judge.
//!
//! Rounds stand alone: each has a seed of its own, a gateway of its own and servers of its own. One that fails leaves a file
//! that replays it. Two thousand calls run with all other tests; `cargo xtask soak operations` sets the variables below and
//! runs more than twenty thousand.

#![allow(clippy::print_stderr, reason = "a failing run says what went wrong")]

mod judge;
mod lanes;
mod plan;
mod provider;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use testkit::daemon::Builder;
use testkit::{Daemon, PATIENCE};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::operating::until;
use judge::{Seen, Tally};
use lanes::{Lane, Life, Story};
use plan::Random;
use provider::Provider;

const SERVERS: usize = 4;
const AGENTS: usize = 4;
/// How many calls are under way at a time.
const LANES: usize = 16;
/// Calls of one round.
const ROUND: usize = 250;
/// How many rounds run at a time: they wait more than they work.
const AT_ONCE: usize = 4;
/// How often a round's gateway is killed, on average, is its calls divided by this.
const LIFE: usize = 60;

/// What makes a round happen again.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Replay {
    seed: u64,
    calls: usize,
    /// What went wrong.
    #[serde(default)]
    what: String,
}

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect(name))
}

/// Nothing may be given up for the number of faults alone, and every wait is short.
fn quick(builder: Builder) -> Builder {
    builder
        .set("retry.session_rebuilds", "1000")
        .set("retry.max", "\"100ms\"")
        .set("retry.request_timeout", "\"1s\"")
        .set("retry.silence_timeout", "\"2s\"")
        .set("retry.call_timeout", "\"4s\"")
        .set("repeat.again_first", "\"20ms\"")
        .set("repeat.lookup_first", "\"30ms\"")
        .set("repeat.lookup_max", "\"200ms\"")
        .set("repeat.lookup_limit", "\"2s\"")
        .set("repeat.lookup_tries", "4")
        .env("STEADFAST_LOG", "warn")
}

struct Round {
    providers: Vec<Provider>,
    daemon: Daemon,
    lanes: Vec<Lane>,
    stories: Vec<Story>,
    arrivals: watch::Sender<u64>,
    random: Random,
    kills: usize,
}

fn server_name(number: usize) -> String {
    format!("server{number}")
}

fn agent_name(number: usize) -> String {
    format!("agent{number}")
}

impl Round {
    async fn start(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let arrivals = watch::Sender::new(0);
        let mut builder = quick(Daemon::builder(env!("CARGO_BIN_EXE_steadfast")));
        let mut providers = Vec::new();
        for number in 0..SERVERS {
            let provider = Provider::start(number, &arrivals).await;
            builder = provider.configure(&server_name(number), builder);
            providers.push(provider);
        }
        for number in 0..AGENTS {
            builder = builder.agent(&agent_name(number));
        }
        let daemon = builder.start().await.unwrap();
        connected(&daemon).await;
        let servers: Vec<String> = (0..SERVERS).map(server_name).collect();
        let mut lanes = Vec::new();
        for number in 0..LANES {
            let agent = agent_name(number / 2 % AGENTS);
            let random = random.split();
            lanes.push(Lane::open(number, &daemon, &agent, &servers, random).await);
        }
        Self {
            providers,
            daemon,
            lanes,
            stories: Vec::new(),
            arrivals,
            random,
            kills: 0,
        }
    }

    /// One life of the gateway; how many of the calls that were left were made.
    async fn live(&mut self, left: usize) -> usize {
        let (kill, killed) = watch::channel(false);
        let life = Life {
            killed,
            answers: watch::Sender::new(0),
        };
        let mut running = JoinSet::new();
        for (number, lane) in self.lanes.drain(..).enumerate() {
            let share = left / LANES + usize::from(number < left % LANES);
            running.spawn(lane.run(share, life.clone()));
        }
        let until_killed = until_killed(&self.arrivals, &life.answers, self.random.split());
        let disturbed = disturb(&self.providers, &self.arrivals, self.random.split());
        let all = gather(running);
        tokio::pin!(all);
        let (lanes, unused, stories) = tokio::select! {
            all = &mut all => all,
            () = disturbed => return 0,
            () = until_killed, if left > LIFE => {
                kill.send_replace(true);
                self.daemon.kill9().await.unwrap();
                self.kills += 1;
                let all = all.await;
                self.daemon.restart().await.unwrap();
                connected(&self.daemon).await;
                all
            }
        };
        self.lanes = lanes;
        self.stories.extend(stories);
        left - unused
    }

    /// Waits until nothing happens by itself any more; everything on record then.
    async fn settled(&self) -> Vec<Value> {
        for state in ["intended", "sent", "not_observed", "reconciling"] {
            let path = format!("/api/v1/operations?state={state}");
            until("no operation is under way", async || {
                let (_, all) = self.daemon.get(&path).await.unwrap();
                all["operations"].as_array().is_some_and(Vec::is_empty)
            })
            .await;
        }
        let (_, all) = self
            .daemon
            .get("/api/v1/operations?limit=1000")
            .await
            .unwrap();
        let mut operations = Vec::new();
        for operation in all["operations"].as_array().unwrap() {
            let path = format!("/api/v1/operations/{}", operation["id"].as_str().unwrap());
            operations.push(self.daemon.get(&path).await.unwrap().1);
        }
        operations
    }

    fn seen(&self) -> Vec<Seen> {
        let providers = self.providers.iter().enumerate();
        providers
            .map(|(number, provider)| {
                let log = provider.server.log();
                let calls = log
                    .matching(|request| request.tool().and_then(plan::Contract::of_tool).is_some());
                Seen {
                    name: server_name(number),
                    rows: provider.server.ledger().rows().unwrap(),
                    calls: calls
                        .iter()
                        .map(|call| {
                            let key = call.arguments()["key"].as_str().unwrap();
                            (call.rpc_id().unwrap().clone(), key.to_owned())
                        })
                        .collect(),
                }
            })
            .collect()
    }
}

/// At each point of a call: some call came to its server, or some agent has its answer, and so many microseconds passed.
async fn until_killed(
    arrivals: &watch::Sender<u64>,
    answers: &watch::Sender<u64>,
    mut random: Random,
) {
    let more = 1 + random.below(LIFE) as u64;
    let by = if random.percent(70) {
        arrivals
    } else {
        answers
    };
    let pause = Duration::from_micros(random.below(4_000) as u64);
    let mut count = by.subscribe();
    let target = *count.borrow() + more;
    let _ = count.wait_for(|count| *count >= target).await;
    tokio::time::sleep(pause).await;
}

/// Something happens to a server or its network, after some more calls each time. Never ends.
async fn disturb(providers: &[Provider], arrivals: &watch::Sender<u64>, mut random: Random) {
    let mut count = arrivals.subscribe();
    loop {
        let target = *count.borrow() + 1 + random.below(12) as u64;
        let _ = count.wait_for(|count| *count >= target).await;
        let provider = &providers[random.below(providers.len())];
        provider.disturb(&mut random).await;
    }
}

async fn gather(mut running: JoinSet<(Lane, usize, Vec<Story>)>) -> (Vec<Lane>, usize, Vec<Story>) {
    let (mut lanes, mut unused, mut stories) = (Vec::new(), 0, Vec::new());
    while let Some(ended) = running.join_next().await {
        let (lane, left, done) = ended.unwrap();
        lanes.push(lane);
        unused += left;
        stories.extend(done);
    }
    lanes.sort_by_key(Lane::number);
    (lanes, unused, stories)
}

async fn connected(daemon: &Daemon) {
    let began = std::time::Instant::now();
    loop {
        let (_, all) = daemon.get("/api/v1/connections").await.unwrap();
        let all = all["connections"].as_array().unwrap();
        let others: Vec<_> = all.iter().filter(|it| it["state"] != "connected").collect();
        if all.len() == AGENTS * SERVERS && others.is_empty() {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "not connected: {others:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn play(seed: u64, calls: usize) -> Result<Tally, String> {
    let mut round = Round::start(seed).await;
    let mut left = calls;
    while left > 0 {
        left -= round.live(left).await;
    }
    let pending: Vec<_> = round.lanes.drain(..).filter_map(Lane::finish).collect();
    round.stories.extend(pending);
    let operations = round.settled().await;
    if std::env::var_os("SOAK_SHOW").is_some() {
        show(&round.daemon, &operations).await;
    }
    let mut tally = judge::judge(&round.seen(), &operations, &round.stories)?;
    tally.kills = round.kills;
    Ok(tally)
}

/// Prints one operation of each kind of story, as a person reads it.
async fn show(daemon: &Daemon, operations: &[Value]) {
    let mut shown = std::collections::BTreeSet::new();
    for operation in operations {
        let evidence = operation["evidence"].as_array().unwrap();
        let kinds: Vec<_> = evidence.iter().map(|it| it["kind"].as_str()).collect();
        if shown.insert(format!("{kinds:?} {}", operation["state"])) {
            let id = operation["id"].as_str().unwrap();
            let output = daemon.command(&["operations", "show", id]).await.unwrap();
            eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

/// Plays a round; where it fails, a file is left that replays it.
fn play_or_keep(seed: u64, calls: usize) -> Result<Tally, PathBuf> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let played = AssertUnwindSafe(|| runtime.block_on(play(seed, calls)));
    let what = match std::panic::catch_unwind(played) {
        Ok(Ok(tally)) => return Ok(tally),
        Ok(Err(what)) => what,
        Err(_) => "it panicked".to_owned(),
    };
    eprintln!("seed {seed}, {calls} calls: {what}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("operations-{seed}.json"));
    let replay = Replay { seed, calls, what };
    std::fs::write(&file, serde_json::to_vec_pretty(&replay).unwrap()).unwrap();
    Err(file)
}

/// The rounds to play: those of a file, or as many as the calls need.
fn rounds() -> Vec<(u64, usize)> {
    if let Some(file) = std::env::var_os("SOAK_REPLAY") {
        let replay = std::fs::read(&file).expect("the file can be read");
        let Replay { seed, calls, .. } = serde_json::from_slice(&replay).expect("it is a replay");
        return vec![(seed, calls)];
    }
    let calls = usize::try_from(setting("SOAK_CALLS", 2_000)).unwrap();
    let seed = setting("SOAK_SEED", 20_261_130);
    eprintln!("{calls} calls, seed {seed}");
    let mut random = Random::new(seed);
    let rounds = calls.div_ceil(ROUND);
    (0..rounds)
        .map(|_| (random.below(usize::MAX) as u64, ROUND))
        .collect()
}

#[test]
fn soak_operations() {
    let rounds = Mutex::new(rounds().into_iter());
    let played = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((seed, calls)) = { rounds.lock().unwrap().next() } {
                    let round = play_or_keep(seed, calls);
                    played.lock().unwrap().push(round);
                }
            });
        }
    });
    let (mut tally, mut failed) = (Tally::default(), Vec::new());
    let played = played.into_inner().unwrap();
    let count = played.len();
    for round in played {
        match round {
            Ok(round) => tally.add(&round),
            Err(file) => failed.push(file),
        }
    }
    eprintln!("{count} rounds: {tally:#?}");
    assert!(failed.is_empty(), "replay with SOAK_REPLAY={failed:?}");
    if count > 1 {
        assert_everything_happened(&tally);
    }
}

/// What never happens is not tested.
fn assert_everything_happened(tally: &Tally) {
    for end in ["observed", "confirmed", "no_effect", "held"] {
        assert!(
            tally.ends.contains_key(end),
            "nothing ended {end}: {tally:?}"
        );
    }
    for (what, count) in [
        ("kills", tally.kills),
        ("interrupted", tally.interrupted),
        ("repeated", tally.repeated),
        ("given", tally.given),
        ("kept back", tally.kept_back),
    ] {
        assert!(count > 0, "nothing was {what}: {tally:?}");
    }
    let few = tally.operations / 50;
    assert!(tally.crossed <= few, "{} of {tally:?}", tally.crossed);
}
