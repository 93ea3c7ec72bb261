//! Grants: what an authorization server gives, kept alive by the clock. What the server of tokens saw is what counts.

mod answers;
mod clients;
mod commands;
mod crashes;
mod discovery;
mod identity;
mod keeping;
mod leaving;
mod machines;
mod metadata;
mod notices;
mod refused;
mod renewals;
mod scopes;
mod sharing;
mod sign_in;
mod tokens;
mod truth;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use testkit::daemon::Builder;
use testkit::issuer::Client;
use testkit::{Behaviour, Daemon, Issuer, PATIENCE, RequestLog, Server};

use crate::common::daemon;
use crate::rig::{Era, agent_of};

/// The lifetime of an access token, unless a test says otherwise.
pub(crate) const LIFETIME: Duration = Duration::from_secs(2);

/// An authorization server, a server that it protects, and a daemon that holds a grant for it.
pub(crate) struct House {
    pub(crate) issuer: Issuer,
    pub(crate) server: Server,
    pub(crate) daemon: Daemon,
}

impl House {
    /// With a grant that was imported, and a connection that is up.
    pub(crate) async fn signed_in(settings: impl FnOnce(Builder) -> Builder) -> Self {
        let house = Self::new(settings).await;
        house.import(&house.grant()).await;
        house.connected().await;
        house
    }

    /// Without a grant.
    pub(crate) async fn new(settings: impl FnOnce(Builder) -> Builder) -> Self {
        Self::at(Issuer::start().await, settings).await
    }

    /// At an authorization server that is there already.
    pub(crate) async fn at(issuer: Issuer, settings: impl FnOnce(Builder) -> Builder) -> Self {
        issuer.change(|policy| policy.tokens.lifetime = Some(LIFETIME));
        let protected = Behaviour::legacy("2025-11-25").protected_by(&issuer);
        let server = Server::start(protected).await;
        let scaled = daemon(&server)
            .set("renewal.retry_first", "\"100ms\"")
            .set("renewal.retry_max", "\"400ms\"")
            .set("renewal.lease", "\"2s\"")
            .set("renewal.check_every", "\"200ms\"");
        let daemon = settings(scaled).start().await.unwrap();
        Self {
            issuer,
            server,
            daemon,
        }
    }

    /// Tokens that the issuer just issued, as they are imported.
    pub(crate) fn grant(&self) -> Value {
        let client = Client::public("imported");
        self.issuer
            .issue(client, &["add"], Some(&self.server.url()))
            .import()
    }

    /// The same, whose renewal is due as soon as it is imported, although the access token is good for `left`.
    pub(crate) fn due_grant(&self, left: Duration) -> Value {
        let mut grant = self.grant();
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = seconds.unwrap().as_secs_f64();
        grant["issued_at"] = json!(now - 3_600.0);
        grant["expires_at"] = json!(now + left.as_secs_f64());
        grant
    }

    /// How many renewals the token endpoint has seen.
    pub(crate) fn seen(&self) -> usize {
        renewals(self.issuer.log())
    }

    /// Asserts that a call of the tool succeeds.
    pub(crate) async fn works(&self) {
        // Each a further call: one that was under way at a kill is held.
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let further = json!({ "n": CALLS.fetch_add(1, Ordering::Relaxed) });
        let agent = agent_of(Era::Legacy, &self.daemon).await;
        let answer = agent.call("add_row", further).await.unwrap();
        assert!(
            !answer.is_error() && answer.error_code().is_none(),
            "{answer:?}"
        );
    }

    pub(crate) async fn import(&self, grant: &Value) {
        let path = "/api/v1/connections/dev/fake/grant";
        let (status, body) = self.daemon.admin("PUT", path, Some(grant)).await.unwrap();
        assert_eq!(status, 200, "{body}");
    }

    /// Waits until the connection is up.
    pub(crate) async fn connected(&self) {
        let connected = self.daemon.wait_state("dev", "fake", "connected").await;
        connected.unwrap();
    }

    /// Waits until somebody must sign in.
    pub(crate) async fn waits(&self) {
        let waiting = self
            .daemon
            .wait_state("dev", "fake", "awaiting_sign_in")
            .await;
        waiting.unwrap();
    }

    /// A link to sign in with.
    pub(crate) async fn offer(&self, wish: &Value) -> Value {
        let path = "/api/v1/connections/dev/fake/sign-in";
        let (status, offer) = self.daemon.post(path, wish).await.unwrap();
        assert_eq!(status, 200, "{offer}");
        offer
    }

    /// Sets a secret of the vault.
    pub(crate) async fn secret(&self, name: &str, value: &str) {
        let path = format!("/api/v1/vault/{name}");
        let body = json!({ "value": value });
        let (status, answer) = self.daemon.admin("PUT", &path, Some(&body)).await.unwrap();
        assert!(matches!(status, 200 | 201), "{answer}");
    }

    /// What was registered.
    pub(crate) fn registrations(&self) -> Vec<Value> {
        let seen = self
            .issuer
            .log()
            .matching(|request| request.path_only() == "/register");
        let bodies = seen
            .iter()
            .map(|request| serde_json::from_slice(&request.body));
        bodies.map(Result::unwrap).collect()
    }

    /// Waits until the notice of the connection has cleared itself.
    pub(crate) async fn notice_cleared(&self) {
        let cleared = async {
            loop {
                let (_, notices) = self.daemon.get("/api/v1/notices").await.unwrap();
                if notices["notices"][0]["cleared_at"].is_string() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, cleared)
            .await
            .expect("it clears itself");
    }

    /// Waits until the token endpoint has seen so many renewals.
    pub(crate) async fn renewals(&self, count: usize) {
        let seen = |log: &RequestLog| renewals(log) >= count;
        self.issuer.log().wait_for(seen, PATIENCE).await.unwrap();
    }

    /// Waits until the daemon has written a renewal down.
    pub(crate) async fn renewed(&self) {
        let written = self
            .daemon
            .wait_connection("dev", "fake", PATIENCE, |connection| {
                connection["grant"]["last_renewal"]["outcome"] == "renewed"
            })
            .await;
        written.unwrap();
    }

    /// Waits until the grant has this state.
    pub(crate) async fn grant_state(&self, state: &str) -> Value {
        let reached = self
            .daemon
            .wait_connection("dev", "fake", PATIENCE, |connection| {
                connection["grant"]["state"] == *state
            })
            .await;
        reached.unwrap()
    }
}

pub(crate) fn renewals(log: &RequestLog) -> usize {
    log.matching(|request| request.form().get("grant_type") == Some("refresh_token"))
        .len()
}
