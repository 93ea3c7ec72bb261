//! OP-02 and OP-04: many connections at once, some of them to servers that are slow, stuck or gone.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::net::SilentAddress;
use testkit::reply::status;
use testkit::script::{any, post};
use testkit::{Behaviour, Daemon, Net, PATIENCE, Reply, Server, Step};
use tokio::task::JoinSet;

use super::agents;
use crate::common::{LIMIT, daemon};

const KEEPERS: usize = 20;

/// Twenty keepers are refused in the same moment by a server that then takes three in each window. Each
/// waits half of `retry.first` and a random share of the other half.
#[tokio::test]
async fn op_02_many_keepers_do_not_come_back_in_lock_step() {
    const FIRST: Duration = Duration::from_millis(1_000);
    let server = Server::start(Behaviour::modern()).await;
    let volley = Reply::new().wait_for("volley").step(Step::Status(503));
    server
        .script()
        .on(post("server/discover").times(KEEPERS as u64))
        .reply(volley);
    let taken = Mutex::new(Vec::<Instant>::new());
    let busy = post("server/discover").when(move |_| {
        let mut taken = taken.lock().unwrap();
        taken.retain(|at| at.elapsed() < Duration::from_millis(100));
        let busy = taken.len() >= 3;
        if !busy {
            taken.push(Instant::now());
        }
        busy
    });
    server.script().on(busy).reply(status(503));

    let mut starting = JoinSet::new();
    for keeper in 0..KEEPERS {
        let builder = Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
            .server("fake", &format!("{}?keeper={keeper}", server.url()))
            .agent("dev")
            .set("retry.first", "\"1s\"")
            .set("retry.max", "\"2s\"")
            .set("retry.request_timeout", "\"20s\"");
        starting.spawn(builder.start());
    }
    let mut keepers = Vec::new();
    while let Some(started) = starting.join_next().await {
        keepers.push(started.unwrap().unwrap());
    }
    server.gates().arrived("volley", KEEPERS).await;
    let refused = server.log().now();
    server.open("volley");
    for keeper in &keepers {
        keeper.wait_state("dev", "fake", "connected").await.unwrap();
    }

    // The first time that each of them came back.
    let attempts = server.log().posts("server/discover");
    let mut came_back: Vec<Duration> = (0..KEEPERS)
        .map(|keeper| {
            let path = format!("/mcp?keeper={keeper}");
            let again = attempts
                .iter()
                .filter(|attempt| attempt.path == path)
                .nth(1);
            again.unwrap().at - refused
        })
        .collect();
    came_back.sort();
    let earliest = FIRST / 2 - Duration::from_millis(20);
    assert!(
        came_back[0] >= earliest,
        "before half of the step was over: {came_back:?}"
    );
    let most_in_a_tenth = came_back
        .iter()
        .map(|start| {
            let tenth = *start..*start + FIRST / 10;
            came_back.iter().filter(|at| tenth.contains(*at)).count()
        })
        .max();
    assert!(
        most_in_a_tenth <= Some(KEEPERS / 2 + 2),
        "in lock step: {came_back:?}"
    );
    let each = attempts.len() / KEEPERS;
    assert!(
        each <= 8,
        "{} attempts of {KEEPERS} keepers",
        attempts.len()
    );
}

/// Unavailable is not absent: the tool stays listed, and a call says which server, why and what is next.
#[tokio::test]
async fn op_02_the_tools_of_a_server_that_is_down_are_unavailable_and_not_unknown() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = Server::start(behaviour).await;
        let daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let agents = agents(&daemon, "fake").await;
        server.stop().await;
        // Somebody notices: by the stream that broke, or by this call.
        let (_, agent) = &agents[0];
        agent.call("add_row", json!({})).await.unwrap();
        daemon.wait_state("dev", "fake", "retrying").await.unwrap();
        for (era, agent) in &agents {
            let called = agent.call("add_row", json!({ "key": era })).await.unwrap();
            let connection = &called.result()["_meta"]["dev.steadfast/connection"];
            assert!(called.is_error(), "{era}: {called:?}");
            assert_eq!(connection["server"], "fake", "{era}: {called:?}");
            assert_eq!(connection["fault"]["kind"], "network", "{era}: {called:?}");
            assert_eq!(
                connection["fault"]["person_needed"], false,
                "{era}: {called:?}"
            );
            let may_be_trying = connection["state"] == "connecting";
            assert!(
                may_be_trying || connection["state"] == "retrying",
                "{era}: {called:?}"
            );
            let next = &connection["next"];
            assert!(
                may_be_trying || next["kind"] == "reconnect",
                "{era}: {called:?}"
            );
            assert!(may_be_trying || next["at"].is_string(), "{era}: {called:?}");
            assert!(
                called.text().contains("`fake` is not available"),
                "{era}: {called:?}"
            );
            assert!(
                called.took < Duration::from_secs(2),
                "{era}: it is answered at once"
            );

            let unknown = agent.call("no_such_tool", json!({})).await.unwrap();
            assert_eq!(unknown.error_code(), Some(-32602), "{era}: {unknown:?}");
            assert!(
                unknown.message.to_string().contains("Unknown tool"),
                "{era}: {unknown:?}"
            );

            let listed = agent.request("tools/list", json!({})).await.unwrap();
            let tools = listed.result()["tools"].as_array().unwrap();
            let is_listed = tools.iter().any(|tool| tool["name"] == "add_row");
            assert!(is_listed, "{era}: {listed:?}");
        }
        server.resume();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        for (era, agent) in &agents {
            let called = agent.call("add_row", json!({ "key": era })).await.unwrap();
            assert_eq!(called.text(), "done", "{era}: {called:?}");
        }
        assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 2);
    }
}

/// Ten servers, four of which are no good, and how long anything may take for the stuck ones.
struct Fleet {
    healthy: Vec<Server>,
    slow: Server,
    _silent: SilentAddress,
    _mute: Net,
    dripping: Server,
    daemon: Daemon,
    started: Instant,
}

const HEALTHY: usize = 6;
const STUCK: [&str; 3] = ["silent", "mute", "dripping"];

impl Fleet {
    async fn start() -> Self {
        let mut healthy = Vec::new();
        for number in 0..HEALTHY {
            let behaviour = if number % 2 == 0 {
                Behaviour::modern()
            } else {
                Behaviour::legacy("2025-11-25")
            };
            healthy.push(Server::start(behaviour).await);
        }
        // A cold start, scaled from 25 s.
        let slow = Server::start(Behaviour::legacy("2025-11-25")).await;
        slow.script()
            .on(post("initialize"))
            .reply(Reply::new().wait_for("warm").run());
        let dripping = Server::start(Behaviour::modern()).await;
        let drip = status(200)
            .header("content-type", "application/json")
            .head();
        let drip = drip.repeat(" ", Duration::from_millis(100), None);
        dripping.script().on(any()).reply(drip);
        // Accepts and never answers.
        let mute = Net::to(dripping.address()).unwrap();
        mute.change(|conditions| conditions.black_hole = true);
        // Never even accepts.
        let silent = SilentAddress::new().unwrap();

        let mut builder = Daemon::builder(env!("CARGO_BIN_EXE_steadfast")).agent("dev");
        for (number, server) in healthy.iter().enumerate() {
            builder = builder.server(&format!("healthy{number}"), &server.url());
        }
        let builder = builder
            .server("slow", &slow.url())
            .server("dripping", &dripping.url())
            .server("mute", &mute.url("/mcp"))
            .server("silent", &format!("http://{}/mcp", silent.address()))
            // Whoever waited for one of the stuck servers would wait for this long.
            .set("retry.connect_timeout", "\"10s\"")
            .set("retry.request_timeout", "\"10s\"");
        let daemon = builder.start().await.unwrap();
        let started = Instant::now();
        Self {
            healthy,
            slow,
            _silent: silent,
            _mute: mute,
            dripping,
            daemon,
            started,
        }
    }

    async fn wait_healthy(&self) {
        for number in 0..HEALTHY {
            let name = format!("healthy{number}");
            self.daemon
                .wait_state("dev", &name, "connected")
                .await
                .unwrap();
        }
    }
}

#[tokio::test]
async fn op_04_stuck_servers_hold_up_nobody() {
    let mut fleet = Fleet::start().await;
    fleet.wait_healthy().await;
    let ready = fleet.started.elapsed();
    assert!(
        ready < Duration::from_secs(5),
        "six healthy servers took {ready:?}"
    );
    let server = &fleet.healthy[0];
    let agent = fleet.daemon.modern_agent("dev", "healthy0").await.unwrap();
    let answer = agent.call("add_row", json!({})).await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");
    assert_eq!(server.ledger().rows().unwrap().len(), 1);
    for stuck in STUCK {
        let connection = fleet.daemon.connection("dev", stuck).await.unwrap();
        assert_eq!(connection["state"], "connecting", "{stuck}: {connection}");
    }

    // The slow one joins, and who has asked for it is told.
    let legacy = fleet.daemon.legacy_agent("dev", "slow").await.unwrap();
    legacy.initialize().await.unwrap();
    let mut listening = legacy.open_get(None).await.unwrap();
    fleet.slow.open("warm");
    let told = async {
        loop {
            let message = listening
                .message()
                .await
                .unwrap()
                .expect("the stream stays open");
            if message["method"] == "notifications/tools/list_changed" {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, told).await.unwrap();
    let answer = legacy.call("add_row", json!({})).await.unwrap();
    assert_eq!(answer.text(), "done", "{answer:?}");

    assert!(!fleet.dripping.log().requests().is_empty());
    let (ended, took) = fleet.daemon.terminate().await.unwrap();
    assert!(ended.success(), "{ended}");
    assert!(took < Duration::from_secs(3), "it took {took:?} to stop");
}

/// Each stuck server ends up waiting for its next attempt, with its fault, and can be asked for again.
#[tokio::test]
async fn op_04_a_stuck_server_times_out_and_is_tried_again() {
    let server = Server::start(Behaviour::modern()).await;
    let drip = status(200)
        .header("content-type", "application/json")
        .head();
    let drip = drip.repeat(" ", Duration::from_millis(50), None);
    server.script().on(any()).reply(drip);
    let mute = Net::to(server.address()).unwrap();
    mute.change(|conditions| conditions.black_hole = true);
    let silent = SilentAddress::new().unwrap();
    let mut daemon = Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
        .agent("dev")
        .server("dripping", &server.url())
        .server("mute", &mute.url("/mcp"))
        .server("silent", &format!("http://{}/mcp", silent.address()))
        .set("retry.connect_timeout", "\"300ms\"")
        .set("retry.request_timeout", "\"400ms\"")
        .start()
        .await
        .unwrap();
    for stuck in STUCK {
        let waits = |connection: &serde_json::Value| connection["state"] == "retrying";
        let connection = daemon
            .wait_connection("dev", stuck, PATIENCE, waits)
            .await
            .unwrap();
        assert_eq!(
            connection["fault"]["kind"], "timeout",
            "{stuck}: {connection}"
        );
        assert_eq!(
            connection["next"]["kind"], "reconnect",
            "{stuck}: {connection}"
        );
        for (era, agent) in &agents(&daemon, stuck).await {
            let listed = agent.request("tools/list", json!({})).await.unwrap();
            let data = &listed.message["error"]["data"]["connection"];
            assert_eq!(data["server"], *stuck, "{era}: {listed:?}");
        }
    }
    let (ended, took) = daemon.terminate().await.unwrap();
    assert!(ended.success(), "{ended}");
    assert!(took < Duration::from_secs(3), "it took {took:?} to stop");
}

/// A server that swallows everything, with many calls that wait for it, costs the calls of others nothing.
#[tokio::test]
async fn op_04_a_black_hole_does_not_slow_down_the_calls_of_others() {
    let steady = Server::start(Behaviour::modern()).await;
    let swallowed = Server::start(Behaviour::legacy("2025-11-25")).await;
    let net = Net::to(swallowed.address()).unwrap();
    let daemon = Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
        .agent("dev")
        .server("steady", &steady.url())
        .server("swallowed", &net.url("/mcp"))
        .start()
        .await
        .unwrap();
    for server in ["steady", "swallowed"] {
        daemon.wait_state("dev", server, "connected").await.unwrap();
    }
    net.change(|conditions| conditions.black_hole = true);
    let [(_, legacy), (_, modern)] = agents(&daemon, "swallowed").await;
    let mut waiting = Vec::new();
    for _ in 0..40 {
        for agent in [&legacy, &modern] {
            let params = json!({ "name": "add_row", "arguments": {} });
            waiting.push(agent.start("tools/call", params).await.unwrap());
        }
    }
    let agent = daemon.modern_agent("dev", "steady").await.unwrap();
    let mut took = Vec::new();
    for _ in 0..50 {
        let answer = agent.call("echo", json!({})).await.unwrap();
        assert!(!answer.is_error(), "{answer:?}");
        took.push(answer.took);
    }
    took.sort();
    assert!(took[25] < Duration::from_millis(500), "{took:?}");
    assert!(took[49] < Duration::from_secs(3), "{took:?}");
    assert!(swallowed.log().calls("add_row").is_empty());
    drop(waiting);
}
