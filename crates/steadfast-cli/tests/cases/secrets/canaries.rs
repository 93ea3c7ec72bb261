//! No log line, status or error shows a secret, at the most verbose level and whatever goes wrong.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use testkit::reply::{content, json_rpc_error, status};
use testkit::script::{any, call, get, post};
use testkit::{Behaviour, Daemon, Reply, Server};

use crate::common::{agents_of_both_eras, daemon_at};
use crate::operating::until;

const HEADER: &str = "hK7zQ2wXv9LmR4tYb8NcJ5pD";
const QUERY: &str = "qV3xT8mZr6WkB1nHs7GfL4yC";
const VAULTED: &str = "vF6nP9cXj3ZtS8wDq5KbM2gR";
const SESSION: &str = "sP5dJ9bXc2RvM7qKt3WzN8hF";

/// What must not be seen: every eight characters in a row of each canary, and which one that is.
#[derive(Clone, Default)]
pub(super) struct Canaries(HashMap<[u8; 8], &'static str>);

impl Canaries {
    pub(super) fn add(&mut self, what: &'static str, canary: &str) {
        for slice in canary.as_bytes().windows(8) {
            self.0.insert(slice.try_into().unwrap(), what);
        }
    }

    /// Only those whose name begins so.
    fn of(&self, what: &str) -> Self {
        let mut some = self.0.clone();
        some.retain(|_, named| named.starts_with(what));
        Self(some)
    }

    /// The first slice of a canary in these bytes.
    pub(super) fn found(&self, bytes: &[u8]) -> Option<(&'static str, String)> {
        bytes.windows(8).find_map(|slice| {
            let what = self.0.get(slice)?;
            Some((*what, String::from_utf8_lossy(slice).into_owned()))
        })
    }
}

/// No line of a text has a canary in it.
pub(super) fn assert_clean(place: &str, text: &str, canaries: &Canaries) {
    for line in text.lines() {
        let found = canaries.found(line.as_bytes());
        assert!(found.is_none(), "{place}: {found:?} in {line}");
    }
}

/// What the configuration holds.
fn configured() -> Canaries {
    let mut canaries = Canaries::default();
    canaries.add("configured header", HEADER);
    canaries.add("query string", QUERY);
    canaries.add("vault", VAULTED);
    canaries
}

/// A server that issues sessions with a canary in them, and says everything that it was told.
async fn talkative(behaviour: Behaviour) -> Server {
    let server = Server::start(behaviour).await;
    server.change(|behaviour| SESSION.clone_into(&mut behaviour.session_prefix));
    server
}

async fn start(server: &Server) -> Daemon {
    let daemon = daemon_at(&format!("{}?key={QUERY}&v=1", server.url()))
        .set_text("servers.fake.headers.X-Api-Key", HEADER)
        .set_text("servers.fake.headers.X-Vaulted", "Key ${vault:VAULTED}")
        .set("retry.health_every", "\"200ms\"")
        .set("retry.request_timeout", "\"200ms\"")
        .set("retry.session_rebuilds", "1000")
        .set("gateway.config_check", "\"20ms\"")
        .read_tool("fake", "echo")
        .env("STEADFAST_LOG", "trace")
        .start()
        .await
        .unwrap();
    let secret = json!({ "value": VAULTED });
    let put = daemon.admin("PUT", "/api/v1/vault/VAULTED", Some(&secret));
    assert_eq!(put.await.unwrap().0, 201);
    daemon
}

/// Refusals and failures in which the server repeats what it was told.
fn faults() -> Vec<Reply> {
    let told = format!(
        "key {QUERY}, X-Api-Key: {HEADER}, X-Vaulted: Key {VAULTED}, session {SESSION}1, Bearer {HEADER}, ?key={QUERY}"
    );
    let error = |status: u16, code: i64| json_rpc_error(status, code, &told);
    vec![
        error(200, -32000),
        error(400, -32602),
        error(404, -32001),
        error(500, -32603),
        status(503).body(told.clone()),
        content(403, "text/plain", told.clone()),
        content(401, "text/plain", told.clone())
            .header("www-authenticate", &format!("Bearer error=\"{HEADER}\"")),
        content(502, "text/html", format!("<title>{told}</title>")),
        content(200, "text/html", format!("<title>{told}</title>")),
        content(200, "application/json", told.clone()),
        content(200, "text/event-stream", format!("data: {told}\n\n")),
        status(302).header("location", &format!("/mcp?key={QUERY}")),
        status(307).header(
            "location",
            &format!("http://127.0.0.2:1/{QUERY}?key={QUERY}"),
        ),
        status(200)
            .header("mcp-session-id", &format!("{SESSION}9"))
            .body(told),
        Reply::new().rst(),
        Reply::new().black_hole(),
    ]
}

/// Everything that a run does, and everything that can go wrong in it.
async fn play(server: &Server, daemon: &mut Daemon) -> Canaries {
    let agents = agents_of_both_eras(daemon).await;
    let mut canaries = configured();
    canaries.add("upstream session", SESSION);
    canaries.add("agent key", &daemon.agent_key("dev").await.unwrap());
    canaries.add("admin token", &daemon.admin_token().unwrap());
    canaries.add("agent session", &agents[0].1.session().unwrap());
    let listening = agents[0].1.open_get(None).await.unwrap();
    for reply in faults() {
        for rule in [call("add_row"), call("echo")] {
            server.script().on(rule.times(1)).reply(reply.clone());
        }
        for (era, agent) in &agents {
            for tool in ["add_row", "echo"] {
                let answer = agent.call(tool, json!({ "x": 1 })).await.unwrap();
                // What the server said to the agent is the agent's; what we say ourselves is clean.
                let ours = &answer.result()["_meta"];
                assert_clean(&format!("{era} {tool}"), &ours.to_string(), &canaries);
                if !ours.is_null() {
                    assert_clean(&format!("{era} {tool}"), answer.text(), &canaries);
                }
            }
        }
        daemon_settles(daemon).await;
    }
    // The same for what the keeper asks itself.
    for reply in faults() {
        let rules = [
            post("initialize"),
            post("server/discover"),
            post("ping"),
            post("tools/list"),
            get(),
        ];
        let rules = rules.map(|rule| server.script().on(rule).reply(reply.clone()));
        let path = "/api/v1/connections/dev/fake/reload";
        let (_, connection) = daemon.post(path, &Value::Null).await.unwrap();
        assert_clean("connection", &connection.to_string(), &canaries);
        for (era, agent) in &agents {
            let answer = agent.call("add_row", json!({})).await.unwrap();
            assert_clean(era, &answer.message.to_string(), &canaries);
            let answer = agent.request("resources/list", json!({})).await.unwrap();
            assert_clean(era, &answer.message.to_string(), &canaries);
        }
        for rule in rules {
            rule.remove();
        }
        daemon_settles(daemon).await;
    }
    drop(listening);
    canaries
}

/// The connection is up again, by a reload where it would take long or wait for a person.
async fn daemon_settles(daemon: &Daemon) {
    until("it is connected", async || {
        let path = "/api/v1/connections/dev/fake/reload";
        daemon.connection("dev", "fake").await.unwrap()["state"] == "connected"
            || daemon.post(path, &Value::Null).await.unwrap().1["state"] == "connected"
    })
    .await;
}

async fn says_no_secret(behaviour: Behaviour) {
    let server = talkative(behaviour).await;
    let mut daemon = start(&server).await;
    let canaries = play(&server, &mut daemon).await;
    // Credentials that are wrong by a little, and in the wrong places.
    let key = daemon.agent_key("dev").await.unwrap();
    for (path, authorization) in [
        ("/mcp/fake", format!("Bearer {key}x")),
        ("/mcp/fake", format!("Basic {key}")),
        (&*format!("/mcp/fake?key={key}"), String::new()),
        ("/api/v1/connections", format!("Bearer {key}")),
        (&*format!("/{key}"), String::new()),
    ] {
        let headers = [
            ("Authorization", authorization.as_str()),
            ("Content-Type", "application/json"),
        ];
        let sent = testkit::client::send(daemon.address(), "POST", path, &headers, b"{}")
            .await
            .unwrap();
        let body = sent.response().await.unwrap().bytes().await.unwrap();
        assert_clean(path, &String::from_utf8_lossy(&body), &canaries);
    }
    // A crash, a start with what is on record, and an end.
    daemon.kill9().await.unwrap();
    server.forget_sessions();
    daemon.restart().await.unwrap();
    daemon_settles(&daemon).await;
    let history = daemon
        .get("/api/v1/connections/dev/fake/history?limit=1000")
        .await
        .unwrap()
        .1;
    assert!(
        history["transitions"]
            .as_array()
            .is_some_and(|all| all.len() > 20),
        "{history}"
    );
    assert_clean("history", &history.to_string(), &canaries);
    let status = daemon.command(&["status", "--json"]).await.unwrap();
    assert_clean(
        "status",
        &String::from_utf8_lossy(&status.stdout),
        &canaries,
    );
    assert_clean(
        "status",
        &String::from_utf8_lossy(&status.stderr),
        &canaries,
    );
    let (_, metrics) = daemon.get("/metrics").await.unwrap();
    assert_clean("metrics", &metrics.to_string(), &canaries);
    server.script().on(any()).reply(testkit::reply::status(500));
    daemon.terminate().await.unwrap();

    let log = daemon.stderr();
    assert!(log.contains("TRACE"), "the most verbose level was on");
    assert!(log.lines().count() > 100);
    assert_clean("log", &log, &canaries);
    let printed = daemon.stdout();
    let shown_once = printed
        .lines()
        .filter(|line| !line.starts_with("admin token"));
    for line in shown_once {
        assert_clean("output", line, &canaries);
    }
    kept_hashed(daemon.data(), &canaries);
}

/// Keys and sessions of agents are on disk as hashes only, and what is in the vault is sealed.
fn kept_hashed(data: &Path, canaries: &Canaries) {
    let mut hidden = canaries.of("agent");
    assert!(!hidden.0.is_empty());
    hidden.0.extend(canaries.of("vault").0);
    for file in std::fs::read_dir(data).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let found = hidden.found(&std::fs::read(&path).unwrap());
            assert!(found.is_none(), "{}: {found:?}", path.display());
        }
    }
}

#[tokio::test]
async fn no_secret_is_shown_with_a_legacy_server() {
    says_no_secret(Behaviour::legacy("2025-11-25")).await;
}

#[tokio::test]
async fn no_secret_is_shown_with_a_modern_server() {
    says_no_secret(Behaviour::modern()).await;
}

/// A file with an error is quoted nowhere.
#[tokio::test]
async fn no_secret_is_shown_of_a_file_with_an_error() {
    let server = talkative(Behaviour::modern()).await;
    let mut daemon = start(&server).await;
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let canaries = configured();
    let good = std::fs::read_to_string(daemon.config()).unwrap();
    let url = format!("\"{}?key={QUERY}&v=1\"", server.url());
    let header = format!("\"{HEADER}\"");
    for broken in [
        good.replace(&header, &format!("\"{HEADER}")),
        good.replace(&header, HEADER),
        good.replace(&header, &format!("\"{HEADER}\\n\"")),
        good.replace(&header, &format!("\"${{vault:{HEADER}\"")),
        good.replace(&url, &format!("{url}\nheaders = {header}")),
        good.replace(&url, &format!("{url}\nenabled = {header}")),
        good.replace(&url, &format!("{url}\noauth = {header}")),
        good.replace(&url, &format!("\"http://[{QUERY}\"")),
        good.replace(&url, &format!("\"127.0.0.1/mcp?key={QUERY}\"")),
        good.replace(&url, &format!("\"ftp://127.0.0.1/mcp?key={QUERY}\"")),
        good.replace(&url, &format!("\"http://user:{HEADER}@127.0.0.1/mcp\"")),
        good.replace(
            &url,
            &format!("\"http://127.0.0.1:{QUERY}/mcp?key={QUERY}\""),
        ),
        good.replace(&url, &format!("[\"http://127.0.0.1/mcp?key={QUERY}\"]")),
    ] {
        assert_ne!(broken, good);
        std::fs::write(daemon.config(), &broken).unwrap();
        let error = async || daemon.get("/api/v1/config").await.unwrap().1["error"].clone();
        until(&format!("an error of {broken}"), async || {
            error().await.is_string()
        })
        .await;
        assert_clean("config", &error().await.to_string(), &canaries);
        let config = daemon.config().display().to_string();
        let applied = daemon
            .command(&["apply", &config, "--dry-run"])
            .await
            .unwrap();
        assert!(!applied.status.success(), "{applied:?}");
        assert_clean(
            "apply",
            &String::from_utf8_lossy(&applied.stderr),
            &canaries,
        );
        std::fs::write(daemon.config(), &good).unwrap();
        until("the error is gone", async || error().await.is_null()).await;
    }
    daemon.terminate().await.unwrap();
    assert_clean("log", &daemon.stderr(), &canaries);
}
