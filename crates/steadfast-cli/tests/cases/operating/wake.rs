//! OP-01: the machine sleeps, all its connections are cut meanwhile, and everything comes back when it wakes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use testkit::script::post;
use testkit::{Behaviour, Daemon, Net, PATIENCE, Reply, Server, Signal};

use super::until;

const FAKES: usize = 40;
/// How many may be opened at a time.
const AT_A_TIME: usize = 4;
/// How long a handshake takes: shorter than a place in the gate is lent for.
const HANDSHAKE: Duration = Duration::from_millis(100);
/// A pause longer than this is a sleep; a busy test machine does not stall for so long.
const ASLEEP_AFTER: Duration = Duration::from_secs(3);

/// Forty servers, every other one behind a network that lets in two connections per second.
struct Fakes {
    servers: Vec<Server>,
    nets: Vec<Net>,
    /// When handshakes began at the servers that are reached directly.
    handshakes: Arc<Mutex<Vec<Instant>>>,
}

impl Fakes {
    async fn start() -> Self {
        let (mut servers, mut nets) = (Vec::new(), Vec::new());
        let handshakes = Arc::<Mutex<Vec<Instant>>>::default();
        for number in 0..FAKES {
            let server = Server::start(Behaviour::legacy("2025-11-25")).await;
            let reply = Reply::new().delay(HANDSHAKE).run();
            let began = Arc::clone(&handshakes);
            let initialize = post("initialize").when(move |_| {
                if number % 2 == 1 {
                    began.lock().unwrap().push(Instant::now());
                }
                true
            });
            server.script().on(initialize).reply(reply);
            if number % 2 == 0 {
                nets.push(Net::to(server.address()).unwrap());
            }
            servers.push(server);
        }
        Self {
            servers,
            nets,
            handshakes,
        }
    }

    async fn daemon(&self) -> Daemon {
        let asleep_after = format!("\"{}s\"", ASLEEP_AFTER.as_secs());
        let mut builder = Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
            .agent("dev")
            .set("retry.asleep_after", &asleep_after)
            .set("retry.concurrent_reconnects", &AT_A_TIME.to_string());
        for (number, server) in self.servers.iter().enumerate() {
            let url = match number % 2 {
                0 => self.nets[number / 2].url("/mcp"),
                _ => server.url(),
            };
            builder = builder.server(&name(number), &url);
        }
        builder.start().await.unwrap()
    }

    /// What happens while the machine sleeps: every connection is cut, and every session forgotten.
    async fn cut(&self) {
        for net in &self.nets {
            net.change(|conditions| conditions.accepts_per_second = Some(2));
            net.reset_all();
        }
        for server in &self.servers {
            server.restart().await;
        }
        self.handshakes.lock().unwrap().clear();
    }

    /// Whether each server has a session again, and a stream in it.
    fn are_back(&self) -> bool {
        self.servers
            .iter()
            .all(|server| server.live_sessions() == 1 && server.open_streams() == 1)
    }
}

fn name(number: usize) -> String {
    format!("fake{number}")
}

async fn connected(daemon: &Daemon) -> usize {
    let (_, all) = daemon
        .get("/api/v1/connections?state=connected")
        .await
        .unwrap();
    all["connections"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_01_everything_comes_back_after_a_sleep_and_not_at_once() {
    let fakes = Fakes::start().await;
    let daemon = fakes.daemon().await;
    until("all are connected", async || {
        connected(&daemon).await == FAKES && fakes.are_back()
    })
    .await;

    daemon.signal(Signal::STOP).unwrap();
    fakes.cut().await;
    tokio::time::sleep(ASLEEP_AFTER + ASLEEP_AFTER / 2).await;
    daemon.signal(Signal::CONT).unwrap();
    let woke = Instant::now();
    until("all are back", async || {
        fakes.are_back() && connected(&daemon).await == FAKES
    })
    .await;
    assert!(woke.elapsed() < PATIENCE / 2, "{:?}", woke.elapsed());

    let handshakes = fakes.handshakes.lock().unwrap().clone();
    for pair in handshakes.windows(AT_A_TIME + 1) {
        let apart = pair[AT_A_TIME] - pair[0];
        // A little less than the handshake takes: they are noted when they arrive, not when they leave.
        assert!(apart > HANDSHAKE / 2, "too many at a time: {handshakes:?}");
    }
    for number in 0..FAKES {
        let history = daemon.history("dev", &name(number)).await.unwrap();
        let reasons: Vec<&str> = history
            .iter()
            .filter_map(|transition| transition["reason"].as_str())
            .collect();
        let sleeps = reasons
            .iter()
            .filter(|reason| reason.starts_with("asleep from "))
            .count();
        assert_eq!(sleeps, 1, "{number}: {reasons:?}");
        for transition in &history {
            let state = transition["to"].as_str().unwrap();
            assert!(
                matches!(state, "connecting" | "connected" | "retrying"),
                "{number}: {transition}"
            );
        }
    }
    let log = daemon.stderr();
    assert_eq!(log.matches("the machine slept").count(), 1, "one event");
}
