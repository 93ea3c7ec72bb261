//! The console: who may see it, what it shows, and that a form comes from one of its own pages.

use serde_json::json;
use testkit::client::{Response, send};
use testkit::{Behaviour, Daemon, Server};

use crate::common::daemon;

const FORM: &str = "application/x-www-form-urlencoded";

/// Somebody at the console.
struct Browser<'d> {
    daemon: &'d Daemon,
    cookie: Option<String>,
}

impl<'d> Browser<'d> {
    const fn new(daemon: &'d Daemon) -> Self {
        Self {
            daemon,
            cookie: None,
        }
    }

    async fn signed_in(daemon: &'d Daemon) -> Self {
        let mut browser = Self::new(daemon);
        let token = daemon.admin_token().unwrap();
        let entered = browser.posts("/sign-in", &format!("token={token}")).await;
        assert_eq!(
            (entered.status, entered.header("location")),
            (303, Some("/"))
        );
        let cookie = entered.header("set-cookie").unwrap();
        for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        browser.cookie = cookie.split(';').next().map(str::to_owned);
        browser
    }

    async fn asks(&self, method: &str, path: &str, body: &str) -> Response {
        let mut headers = vec![("content-type", FORM)];
        if let Some(cookie) = &self.cookie {
            headers.push(("cookie", cookie));
        }
        let address = self.daemon.address();
        let sent = send(address, method, path, &headers, body.as_bytes()).await;
        sent.unwrap().response().await.unwrap()
    }

    async fn gets(&self, path: &str) -> Response {
        self.asks("GET", path, "").await
    }

    async fn posts(&self, path: &str, body: &str) -> Response {
        self.asks("POST", path, body).await
    }

    /// A page, which is there.
    async fn sees(&self, path: &str) -> String {
        let mut response = self.gets(path).await;
        let page = String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap();
        assert_eq!(response.status, 200, "{path}: {page}");
        page
    }

    /// The proof that a form of this session carries.
    async fn csrf(&self) -> String {
        let page = self.sees("/").await;
        let begin = page.find(r#"name="csrf" value=""#).unwrap() + 19;
        page[begin..].split('"').next().unwrap().to_owned()
    }
}

async fn house() -> (Server, Daemon) {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let daemon = daemon(&server)
        .server("gone", "http://127.0.0.1:9/mcp")
        .start()
        .await
        .unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    daemon.wait_state("dev", "gone", "retrying").await.unwrap();
    (server, daemon)
}

#[tokio::test]
async fn nobody_sees_a_page_without_signing_in() {
    let (_server, daemon) = house().await;
    let stranger = Browser::new(&daemon);
    for path in [
        "/",
        "/connections",
        "/connections/dev/fake",
        "/vault",
        "/servers",
        "/live",
    ] {
        let response = stranger.gets(path).await;
        assert_eq!(
            (response.status, response.header("location")),
            (303, Some("/sign-in")),
            "{path}"
        );
    }
    for _ in 0..10 {
        assert_eq!(stranger.posts("/sign-in", "token=wrong").await.status, 401);
    }
    // Whoever guesses is slowed down, also with the right token.
    let token = daemon.admin_token().unwrap();
    let slowed = stranger.posts("/sign-in", &format!("token={token}")).await;
    assert_eq!(slowed.status, 429);
    assert_eq!(slowed.header("set-cookie"), None);
}

#[tokio::test]
async fn every_page_says_what_is_and_allows_nothing_foreign() {
    let (_server, daemon) = house().await;
    let browser = Browser::signed_in(&daemon).await;
    for (path, says) in [
        ("/", "come back by themselves"),
        ("/connections", "2 of 2 connections"),
        ("/connections?state=connected", "1 of 2 connections"),
        ("/connections/dev/fake", "connected"),
        ("/connections/dev/gone", "SF0022"),
        ("/agents/dev", "/mcp"),
        ("/operations", "There are none."),
        ("/notices", "Nothing waits for you."),
        ("/servers", "the file"),
        ("/vault", "The vault is empty."),
        ("/settings", "Configuration file"),
    ] {
        let page = browser.sees(path).await;
        assert!(page.contains(says), "{path} does not say {says:?}: {page}");
        assert!(
            !page.contains("<script>") && !page.contains(" style="),
            "{path}"
        );
    }
    let response = browser.gets("/").await;
    let policy = response.header("content-security-policy").unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    let mut missing = browser.gets("/agents/nobody").await;
    assert_eq!(missing.status, 404);
    let page = missing.bytes().await.unwrap();
    assert!(String::from_utf8_lossy(&page).contains("SF0007"));
}

#[tokio::test]
async fn a_form_without_its_proof_changes_nothing() {
    let (_server, daemon) = house().await;
    let browser = Browser::signed_in(&daemon).await;
    for (path, body) in [
        ("/vault", "csrf=guessed&name=KEY&value=canary-value"),
        (
            "/servers/add",
            "csrf=guessed&name=new&url=http://127.0.0.1:9/mcp",
        ),
        ("/connections/dev/gone/reload", "csrf=guessed"),
        ("/sign-out", "csrf=guessed"),
    ] {
        assert_eq!(browser.posts(path, body).await.status, 403, "{path}");
    }
    assert!(browser.sees("/vault").await.contains("The vault is empty."));
    let csrf = browser.csrf().await;
    let set = format!("csrf={csrf}&name=KEY&value=canary-value");
    assert_eq!(browser.posts("/vault", &set).await.status, 303);
    let page = browser.sees("/vault").await;
    assert!(
        page.contains("KEY") && !page.contains("canary-value"),
        "{page}"
    );
    let out = browser.posts("/sign-out", &format!("csrf={csrf}")).await;
    assert_eq!(out.header("location"), Some("/sign-in"));
    assert_eq!(browser.gets("/").await.status, 303);
}

#[tokio::test]
async fn a_server_is_connected_by_its_form() {
    let (server, daemon) = house().await;
    let browser = Browser::signed_in(&daemon).await;
    let csrf = browser.csrf().await;
    let url = server.url();
    let mut probed = browser
        .posts("/servers/probe", &format!("csrf={csrf}&url={url}"))
        .await;
    let page = probed.bytes().await.unwrap();
    let page = String::from_utf8_lossy(&page);
    assert!(page.contains("An MCP server answers there."), "{page}");
    let add = format!("csrf={csrf}&url={url}&name=second&new_agent=fresh&reads=echo");
    let added = browser.posts("/servers/add", &add).await;
    assert_eq!(added.header("location"), Some("/connections/fresh/second"));
    daemon
        .wait_state("fresh", "second", "connected")
        .await
        .unwrap();
    let (_, config) = daemon.get("/api/v1/servers/second").await.unwrap();
    assert_eq!(config["tools"]["echo"]["effect"], json!("read"), "{config}");
    // What came from the file is read-only.
    let refused = browser
        .posts("/servers/fake/remove", &format!("csrf={csrf}"))
        .await;
    assert_eq!(refused.status, 409);
}

#[tokio::test]
async fn an_open_page_hears_of_changes() {
    let (server, daemon) = house().await;
    let browser = Browser::signed_in(&daemon).await;
    let mut live = browser.gets("/live").await.events();
    server.stop().await;
    loop {
        let seen = live.next().await.unwrap().expect("the stream ended");
        if seen
            .event()
            .is_some_and(|event| event.event.as_deref() == Some("changed"))
        {
            break;
        }
    }
}
