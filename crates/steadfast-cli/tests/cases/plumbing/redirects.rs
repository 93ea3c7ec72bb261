//! HT-01: redirects, and what goes along with them.

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::reply::status;
use testkit::script::{any, call};
use testkit::{Behaviour, Daemon, Reply, Server, Tls};

use crate::common::daemon_at;
use crate::rig::{BOTH, Era, PAIRINGS, Rig, agent_of, assert_unknown, fault};

const HOST: &str = "rs.test";
const OTHER: &str = "other.test";
const CREDENTIAL: &str = "Bearer upstream-credential";

fn redirect(code: u16, location: &str) -> Reply {
    status(code).header("location", location)
}

struct Secure {
    server: Server,
    tls: Tls,
    /// Keeps the authority's file.
    _directory: tempfile::TempDir,
    ca_file: String,
}

impl Secure {
    async fn start(mut behaviour: Behaviour, http2: bool) -> Self {
        behaviour.path = "/mcp/".to_owned();
        let tls = Tls::new(&[HOST, OTHER]).unwrap();
        let builder = Server::builder(behaviour).tls(&tls);
        let builder = if http2 { builder } else { builder.http1_only() };
        let directory = tempfile::TempDir::new().unwrap();
        let ca_file = tls.write_ca(directory.path()).unwrap();
        Self {
            server: builder.start().await,
            tls,
            ca_file: ca_file.to_str().unwrap().to_owned(),
            _directory: directory,
        }
    }

    /// An address of the server under this name.
    fn at(&self, scheme: &str, host: &str, path: &str) -> String {
        format!("{scheme}://{host}:{}{path}", self.server.address().port())
    }

    /// A daemon whose server is at `https://rs.test/mcp`, without the slash, with a credential.
    fn daemon(&self) -> Builder {
        daemon_at(&self.at("https", HOST, "/mcp"))
            .set_text("network.ca_file", &self.ca_file)
            .set(
                "network.resolve",
                &format!("{{ \"{HOST}\" = \"127.0.0.1\", \"{OTHER}\" = \"127.0.0.1\" }}"),
            )
            .set(
                "servers.fake.headers",
                &format!("{{ Authorization = \"{CREDENTIAL}\" }}"),
            )
    }

    /// No request left without the credential, and none went to a name that is not the server's own.
    fn assert_credential_kept(&self) {
        for request in self.server.log().requests() {
            let shown = format!("{request:?}");
            assert_eq!(request.header("authorization"), Some(CREDENTIAL), "{shown}");
            let host = request.header("host").unwrap_or(HOST);
            assert!(host.starts_with(HOST), "{shown}");
        }
    }
}

async fn assert_no_sign_in(daemon: &Daemon) {
    let connection = daemon.connection("dev", "fake").await.unwrap();
    assert_eq!(connection["sign_in_url"], json!(null), "{connection}");
    assert_eq!(connection["grant"]["state"], "none", "{connection}");
    assert_ne!(connection["state"], "awaiting_sign_in", "{connection}");
}

#[tokio::test]
async fn ht_01_a_redirect_within_the_origin_is_followed_whole_and_remembered() {
    for (server, http2) in [
        (Era::Legacy, true),
        (Era::Legacy, false),
        (Era::Modern, false),
        (Era::Modern, true),
    ] {
        for (code, relative) in [(308, false), (307, false), (307, true)] {
            let secure = Secure::start(server.behaviour(), http2).await;
            let absolute = secure.at("https", HOST, "/mcp/");
            let location = if relative { "/mcp/" } else { absolute.as_str() };
            let unslashed = any().path("/mcp");
            secure
                .server
                .script()
                .on(unslashed)
                .reply(redirect(code, location));
            let daemon = secure.daemon().start().await.unwrap();
            daemon.wait_state("dev", "fake", "connected").await.unwrap();
            let agent = agent_of(server, &daemon).await;
            let answer = agent.call("add_row", json!({})).await.unwrap();
            assert_eq!(answer.text(), "done", "{answer:?}");

            let log = secure.server.log();
            let requests = log.requests();
            assert!(
                requests.iter().all(|request| request.http2 == http2),
                "{log}"
            );
            let (first, second) = (&requests[0], &requests[1]);
            assert_eq!(
                (first.path.as_str(), second.path.as_str()),
                ("/mcp", "/mcp/")
            );
            assert_eq!(first.method, second.method, "{log}");
            assert_eq!(first.body, second.body, "{log}");
            // The new address is remembered: the old one is not asked again.
            let old = log.matching(|request| request.path == "/mcp");
            assert_eq!(old.len(), 1, "{log}");
            secure.assert_credential_kept();
            assert_no_sign_in(&daemon).await;
        }
    }
}

#[tokio::test]
async fn ht_01_a_redirect_in_mid_session_is_followed_whole() {
    for (agent, server) in PAIRINGS {
        for code in [307, 308] {
            let secure = Secure::start(server.behaviour(), false).await;
            let script = secure.server.script();
            script.on(any().path("/mcp")).reply(redirect(308, "/mcp/"));
            let daemon = secure.daemon().start().await.unwrap();
            daemon.wait_state("dev", "fake", "connected").await.unwrap();
            let agent = agent_of(agent, &daemon).await;
            // The server moves within its origin.
            let moved = any()
                .path("/mcp/")
                .when(|request| request.tool() == Some("add_row"));
            script.first_on(moved).reply(redirect(code, "/v2"));
            secure
                .server
                .change(|behaviour| behaviour.path = "/v2".to_owned());
            let answer = agent.call("add_row", json!({"n": 1})).await.unwrap();
            assert_eq!(answer.text(), "done", "{answer:?}");
            let calls = secure.server.log().calls("add_row");
            assert_eq!(calls.len(), 2);
            assert_eq!(calls[0].arguments(), calls[1].arguments());
            let answer = agent.call("add_row", json!({"n": 2})).await.unwrap();
            assert_eq!(answer.text(), "done", "{answer:?}");
            assert_eq!(secure.server.log().calls("add_row")[2].path, "/v2");
            let rows = secure.server.ledger().rows_of("add_row").unwrap();
            assert_eq!(rows.len(), 2);
            secure.assert_credential_kept();
        }
    }
}

#[tokio::test]
async fn ht_01_nothing_is_sent_in_clear_and_the_message_names_the_fix() {
    for code in [301, 302, 303, 307, 308] {
        let secure = Secure::start(Behaviour::legacy("2025-11-25"), false).await;
        let clear = Server::start(Behaviour::legacy("2025-11-25")).await;
        let location = clear.url_as(HOST);
        secure
            .server
            .script()
            .on(any())
            .reply(redirect(code, &location));
        let daemon = secure.daemon().start().await.unwrap();
        let fault = fault(&daemon, "redirected").await;
        let message = fault["message"].as_str().unwrap();
        let fix = location.replacen("http:", "https:", 1);
        assert!(message.contains(&fix), "{message}");
        assert_eq!(fault["person_needed"], true);
        assert_eq!(clear.log().requests().len(), 0, "{}", clear.log());
        // It is not tried again and again: a person must act.
        let connection = daemon.connection("dev", "fake").await.unwrap();
        assert_eq!(connection["state"], "misconfigured", "{connection}");
        assert_eq!(connection["next"], Value::Null, "{connection}");
        assert_no_sign_in(&daemon).await;
    }
}

#[tokio::test]
async fn ht_01_another_origin_is_not_followed_with_credentials() {
    let secure = Secure::start(Behaviour::legacy("2025-11-25"), false).await;
    let other = Server::builder(Behaviour::legacy("2025-11-25")).tls(&secure.tls);
    let other = other.http1_only().start().await;
    let elsewhere = [
        secure.at("https", OTHER, "/mcp"),
        other.url_as(HOST),
        other.url_as(OTHER),
        format!("//{OTHER}:{}/mcp", other.address().port()),
    ];
    for location in elsewhere {
        secure.server.script().clear();
        secure
            .server
            .script()
            .on(any())
            .reply(redirect(307, &location));
        let daemon = secure.daemon().start().await.unwrap();
        let fault = fault(&daemon, "redirected").await;
        let message = fault["message"].as_str().unwrap();
        let named = location.trim_start_matches("https:");
        assert!(
            message.contains(named),
            "{message} does not name {location}"
        );
        assert_no_sign_in(&daemon).await;
    }
    assert_eq!(other.log().requests().len(), 0, "{}", other.log());
    secure.assert_credential_kept();
}

#[tokio::test]
async fn ht_01_a_call_is_not_followed_to_another_origin() {
    for era in BOTH {
        let clear = Server::start(era.behaviour()).await;
        let rig = Rig::new(era, era.behaviour()).await;
        rig.server
            .script()
            .on(call("add_row"))
            .reply(redirect(307, &clear.url_as(OTHER)));
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert_unknown(&answer, "add_row", "redirected");
        assert_eq!((rig.rows("add_row"), rig.calls("add_row")), (0, 1));
        assert_eq!(clear.log().requests().len(), 0, "{}", clear.log());
        rig.works().await;
        assert_no_sign_in(&rig.daemon).await;
    }
}

#[tokio::test]
async fn ht_01_a_circle_of_redirects_ends() {
    for era in BOTH {
        let rig = Rig::new(era, era.behaviour()).await;
        let script = rig.server.script();
        script
            .on(call("add_row").path("/mcp"))
            .reply(redirect(307, "/a"));
        script
            .on(call("add_row").path("/a"))
            .reply(redirect(308, "/mcp"));
        let answer = rig.agent.call("add_row", json!({})).await.unwrap();
        assert!(answer.is_error(), "{answer:?}");
        assert!(
            (2..=5).contains(&rig.calls("add_row")),
            "{}",
            rig.server.log()
        );
        assert_eq!(rig.rows("add_row"), 0);
    }
    let server = Server::start(Behaviour::modern()).await;
    server
        .script()
        .on(any().path("/mcp"))
        .reply(redirect(307, "/a"));
    server
        .script()
        .on(any().path("/a"))
        .reply(redirect(307, "/mcp"));
    let daemon = crate::common::daemon(&server).start().await.unwrap();
    fault(&daemon, "redirected").await;
    assert!(server.log().requests().len() <= 5, "{}", server.log());
}
