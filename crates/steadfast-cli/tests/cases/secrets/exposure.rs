//! SEC-02: a web page reaches the port, by DNS rebinding or with a request that needs no preflight.

use std::process::Stdio;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use testkit::{Behaviour, Daemon, Server};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{MIRRORED, reached, said, send, write_call};
use crate::common::daemon;

/// A daemon, and what an agent of it sends as its credential: nothing where everyone on this machine is one.
async fn daemons(server: &Server) -> Vec<(&'static str, Daemon, Option<String>)> {
    let keyed = daemon(server).start().await.unwrap();
    keyed.wait_state("dev", "fake", "connected").await.unwrap();
    let key = keyed.agent_key("dev").await.unwrap();
    let open = daemon(server)
        .set_text("gateway.anonymous_agent", "dev")
        .start()
        .await
        .unwrap();
    open.wait_state("dev", "fake", "connected").await.unwrap();
    vec![
        ("keyed", keyed, Some(format!("Bearer {key}"))),
        ("open", open, None),
    ]
}

/// Requests of a page, from the most harmless one to a write.
const REQUESTS: [(&str, &str, &str); 8] = [
    ("POST", "/mcp/fake", "application/json"),
    ("POST", "/mcp/fake", "text/plain"),
    ("POST", "/mcp/fake", "application/x-www-form-urlencoded"),
    ("GET", "/mcp/fake", ""),
    ("DELETE", "/mcp/fake", ""),
    ("OPTIONS", "/mcp/fake", ""),
    ("POST", "/mcp", "application/json"),
    (
        "POST",
        "/api/v1/connections/dev/fake/reload",
        "application/json",
    ),
];

/// Sends every request with these headers; every one is refused before anything else is looked at.
async fn refuses_everything(
    what: &str,
    daemon: &Daemon,
    credential: Option<&str>,
    foreign: &[(&str, &str)],
) {
    let admin = format!("Bearer {}", daemon.admin_token().unwrap());
    let call = write_call();
    for (method, path, content_type) in REQUESTS {
        // A body that cannot be parsed is refused in the same way: it was not read.
        for body in [call.as_str(), "{ not json"] {
            for presents_credential in [true, false] {
                let mut headers = foreign.to_vec();
                headers.extend(MIRRORED);
                if !content_type.is_empty() {
                    headers.push(("Content-Type", content_type));
                }
                let credential = if path.starts_with("/api") {
                    Some(admin.as_str())
                } else {
                    credential
                };
                if let Some(credential) = credential.filter(|_| presents_credential) {
                    headers.push(("Authorization", credential));
                }
                let mut response = send(daemon, method, path, &headers, body).await;
                let this = format!("{what}: {method} {path} {content_type} {foreign:?}");
                assert_eq!(response.status, 403, "{this}: {response:?}");
                let allowed = response.header("access-control-allow-origin");
                assert_eq!(allowed, None, "{this}: the page could read it");
                let body = response.json().await.unwrap();
                assert!(said(&body).contains("gateway.allowed_"), "{this}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn sec_02_a_foreign_host_is_refused_before_anything_is_read() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    for (what, daemon, credential) in daemons(&server).await {
        let before = server.log().requests().len();
        let port = daemon.address().port();
        for host in [
            "evil.test".to_owned(),
            format!("evil.test:{port}"),
            format!("127.0.0.1:{port}.evil.test"),
            format!("localhost:{}", port ^ 1),
            format!("127.0.0.2:{port}"),
            "127.0.0.1".to_owned(),
            "localhost".to_owned(),
            format!("user@127.0.0.1:{port}"),
        ] {
            refuses_everything(what, &daemon, credential.as_deref(), &[("Host", &host)]).await;
        }
        assert_eq!(
            server.log().requests().len(),
            before,
            "{what}: {}",
            server.log()
        );
    }
    assert!(server.ledger().rows().unwrap().is_empty());
}

#[tokio::test]
async fn sec_02_a_foreign_origin_is_refused_before_anything_is_read() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    for (what, daemon, credential) in daemons(&server).await {
        let before = server.log().requests().len();
        let port = daemon.address().port();
        for origin in [
            "https://evil.test".to_owned(),
            "null".to_owned(),
            "http://localhost".to_owned(),
            format!("https://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{port}.evil.test"),
            format!("http://127.0.0.1:{}", port ^ 1),
            "file://".to_owned(),
            "chrome-extension://abcdefgh".to_owned(),
        ] {
            refuses_everything(what, &daemon, credential.as_deref(), &[("Origin", &origin)]).await;
        }
        assert_eq!(
            server.log().requests().len(),
            before,
            "{what}: {}",
            server.log()
        );
    }
    assert!(server.ledger().rows().unwrap().is_empty());
}

/// A page cannot send JSON without being asked about first; what it can send is no message.
#[tokio::test]
async fn sec_02_a_simple_post_calls_nothing() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    for (what, daemon, credential) in daemons(&server).await {
        let before = reached(&server);
        for content_type in [
            "text/plain",
            "text/plain;charset=UTF-8",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain; application/json",
        ] {
            let mut headers = vec![("Content-Type", content_type)];
            headers.extend(MIRRORED);
            headers.extend(credential.as_deref().map(|it| ("Authorization", it)));
            let response = send(&daemon, "POST", "/mcp/fake", &headers, &write_call()).await;
            assert_eq!(response.status, 415, "{what} {content_type}: {response:?}");
        }
        assert_eq!(reached(&server), before, "{what}: {}", server.log());

        // The same request with the right content type is a write.
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(MIRRORED);
        headers.extend(credential.as_deref().map(|it| ("Authorization", it)));
        let response = send(&daemon, "POST", "/mcp/fake", &headers, &write_call()).await;
        assert_eq!(response.status, 200, "{what}: {response:?}");
        assert_eq!(reached(&server), before + 1, "{what}: {}", server.log());
    }
    assert_eq!(server.ledger().rows_of("add_row").unwrap().len(), 2);
}

/// Our own page, and no page at all, are served.
#[tokio::test]
async fn sec_02_our_own_names_are_served() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    for (what, daemon, credential) in daemons(&server).await {
        let port = daemon.address().port();
        for host in [
            format!("127.0.0.1:{port}"),
            format!("LOCALHOST:{port}"),
            format!("[::1]:{port}"),
        ] {
            for origin in [None, Some(format!("http://{}", host.to_lowercase()))] {
                let mut headers = vec![
                    ("Host", host.as_str()),
                    ("Content-Type", "application/json"),
                ];
                headers.extend(MIRRORED);
                headers.extend(origin.as_deref().map(|origin| ("Origin", origin)));
                headers.extend(
                    credential
                        .as_deref()
                        .map(|credential| ("Authorization", credential)),
                );
                let response = send(&daemon, "POST", "/mcp/fake", &headers, &write_call()).await;
                assert_eq!(
                    response.status, 200,
                    "{what} {host} {origin:?}: {response:?}"
                );
            }
        }
    }
}

/// Over HTTP/2 the host is `:authority`, and over HTTP/1.1 it may stand in the target: both count.
#[tokio::test]
async fn sec_02_a_host_cannot_be_named_in_another_place() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    for (what, daemon, credential) in daemons(&server).await {
        let before = server.log().requests().len();
        let ours = daemon.address().to_string();
        let absolute = send(
            &daemon,
            "POST",
            "http://evil.test/mcp/fake",
            &[("Host", &ours)],
            &write_call(),
        )
        .await;
        assert_eq!(absolute.status, 403, "{what}: {absolute:?}");
        let twice = [("Host", ours.as_str()), ("Host", "evil.test")];
        let twice = send(&daemon, "POST", "/mcp/fake", &twice, &write_call()).await;
        assert!(matches!(twice.status, 400 | 403), "{what}: {twice:?}");

        for (authority, expected) in [("evil.test", 403), (ours.as_str(), 200)] {
            let tcp = TcpStream::connect(daemon.address()).await.unwrap();
            let handshake =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tcp));
            let (mut sender, connection) = handshake.await.unwrap();
            tokio::spawn(connection);
            let mut request = http::Request::post(format!("http://{authority}/mcp/fake"));
            for (name, value) in MIRRORED
                .into_iter()
                .chain([("Content-Type", "application/json")])
            {
                request = request.header(name, value);
            }
            if let Some(credential) = &credential {
                request = request.header("Authorization", credential);
            }
            let request = request.body(Full::new(Bytes::from(write_call()))).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status(), expected, "{what} {authority}");
            response.into_body().collect().await.unwrap();
        }
        let after = server.log().requests().len();
        assert_eq!(after, before + 1, "{what}: {}", server.log());
    }
}

/// Host and Origin are not all: a local secret is needed besides, and each secret opens one door.
#[tokio::test]
async fn sec_02_a_secret_is_needed_besides() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let key = daemon.agent_key("dev").await.unwrap();
    let admin = daemon.admin_token().unwrap();
    let before = server.log().requests().len();
    let wrong = format!("{key}0");
    for (path, credentials) in [
        (
            "/mcp/fake",
            [None, Some(admin.as_str()), Some(wrong.as_str()), Some("")],
        ),
        (
            "/api/v1/connections",
            [None, Some(key.as_str()), Some(wrong.as_str()), Some("")],
        ),
    ] {
        for credential in credentials {
            for scheme in ["Bearer", "Basic"] {
                let authorization = credential.map(|credential| format!("{scheme} {credential}"));
                let mut headers = vec![("Content-Type", "application/json")];
                headers.extend(MIRRORED);
                headers.extend(authorization.as_deref().map(|it| ("Authorization", it)));
                let method = if path == "/mcp/fake" { "POST" } else { "GET" };
                let response = send(&daemon, method, path, &headers, &write_call()).await;
                assert_eq!(
                    response.status, 401,
                    "{path} {authorization:?}: {response:?}"
                );
                assert!(
                    response.header("www-authenticate").is_some(),
                    "{response:?}"
                );
            }
        }
        // Neither in the address, where it would be logged, nor in a cookie, which a browser would send.
        let method = if path == "/mcp/fake" { "POST" } else { "GET" };
        for secret in [&key, &admin] {
            let query = format!("{path}?access_token={secret}&token={secret}&key={secret}");
            let cookie = format!("token={secret}; admin={secret}");
            let headers = [
                ("Content-Type", "application/json"),
                ("Cookie", cookie.as_str()),
            ];
            let response = send(&daemon, method, &query, &headers, &write_call()).await;
            assert_eq!(response.status, 401, "{path}: {response:?}");
        }
    }
    assert_eq!(server.log().requests().len(), before, "{}", server.log());
}

/// Whoever configures nothing listens on loopback only. (The port may be taken: that names it as well.)
#[tokio::test]
async fn sec_02_the_default_address_is_a_loopback_one() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command
        .arg("serve")
        .arg("--data")
        .arg(data.path())
        .env("STEADFAST_LOG", "info");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let names_it = async |pipe: Box<dyn tokio::io::AsyncRead + Unpin>| {
        use tokio::io::AsyncBufReadExt;
        let mut lines = tokio::io::BufReader::new(pipe).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            assert!(
                !line.contains("0.0.0.0") && !line.contains("[::]"),
                "{line}"
            );
            if line.contains("127.0.0.1:7420") {
                return;
            }
        }
        std::future::pending().await
    };
    let either = async {
        tokio::select! {
            () = names_it(Box::new(stdout)) => {}
            () = names_it(Box::new(stderr)) => {}
        }
    };
    tokio::time::timeout(crate::common::LIMIT, either)
        .await
        .unwrap();
}

/// An agent that everyone is must not be reachable from elsewhere.
#[tokio::test]
async fn sec_02_an_anonymous_agent_needs_a_loopback_listener() {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let builder = daemon(&server).set_text("gateway.anonymous_agent", "dev");
    let failed = builder
        .listen("0.0.0.0:0")
        .start()
        .await
        .unwrap_err()
        .to_string();
    assert!(failed.contains("anonymous_agent"), "{failed}");
}
