//! The renewals of many grants together: nobody waits for what concerns others. What the issuers saw is what counts.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use steadfast::config::{self, Span};
use steadfast::{Renewals, clock};
use steadfast_core::grant::{State, Strikes, Tokens};
use steadfast_core::identity::GrantGeneration;
use steadfast_core::now::Millis;
use steadfast_core::oauth::client::Auth;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::{AgentName, ServerName, Wall};
use steadfast_store::{
    ClientOrigin, GrantClient, GrantRecord, GrantSecrets, MemoryRecords, SharedStore, Vault,
    Version,
};
use testkit::issuer::Client;
use testkit::script::any;
use testkit::{Issuer, PATIENCE, Reply, RequestLog};

/// More than are found of one issuer at a time.
const MANY: usize = 40;

/// A request to an issuer that does not answer outlasts every test.
fn settings() -> config::Settings {
    let mut settings = config::Settings::default();
    settings.retry.request_timeout = Span::secs(600);
    settings.renewal.lease = Span::secs(600);
    settings.renewal.check_every = Span(Millis(100));
    settings
}

struct Stage {
    store: SharedStore,
    vault: Arc<Vault>,
    agents: Vec<(AgentName, config::Agent)>,
    servers: Vec<(ServerName, config::Server)>,
}

impl Stage {
    fn new() -> Self {
        Self {
            store: Arc::new(MemoryRecords::new()),
            vault: Arc::new(Vault::ephemeral().unwrap()),
            agents: Vec::new(),
            servers: Vec::new(),
        }
    }

    fn server(&mut self, name: &str, config: config::Server) {
        self.servers.push((name.into(), config));
    }

    fn agent(&mut self, name: &str, server: &str) {
        let agent = config::Agent::with_servers([server]);
        self.agents.push((name.into(), agent));
    }

    async fn put(&self, grant: GrantRecord) {
        self.store.swap_grant(&grant).await.unwrap();
    }

    /// A person's grant of this issuer, due for so long.
    async fn due(&self, agent: &str, server: &str, issuer: &Issuer, for_seconds: i64) {
        let issued = issuer.issue(Client::public("imported"), &[], None);
        let now = clock::wall();
        let mut grant = blank(agent, server, Wall(now.0 - 1_000 * for_seconds));
        let renew_at = grant.wake_at.unwrap();
        let tokens = Tokens {
            generation: grant.generation,
            issued_at: renew_at,
            expires_at: Wall(now.0 + 600_000),
            renewable: true,
            scopes: Vec::new(),
        };
        grant.issuer = issued.issuer.clone();
        grant.token_endpoint = Some(issued.token_endpoint.clone());
        grant.state = State::Valid {
            tokens,
            renew_at,
            strikes: Strikes::default(),
        };
        let secrets = GrantSecrets {
            access_token: issued.access_token.into(),
            refresh_token: issued.refresh_token.map(Into::into),
            client_secret: None,
        };
        self.vault.seal_grant(&mut grant, &secrets).unwrap();
        self.put(grant).await;
    }

    async fn renew(self) -> Renewals {
        let Self {
            store,
            vault,
            agents,
            servers,
        } = self;
        let settings = settings();
        let renewals = Renewals::start(&settings, store, vault, agents, servers);
        renewals.await.unwrap()
    }
}

fn blank(agent: &str, server: &str, wake_at: Wall) -> GrantRecord {
    GrantRecord {
        agent: agent.into(),
        server: server.into(),
        version: Version::NONE,
        generation: GrantGeneration(1),
        state: State::None,
        wake_at: Some(wake_at),
        issuer: String::new(),
        resource: None,
        token_endpoint: None,
        client: GrantClient::new("imported".to_owned(), Auth::None, ClientOrigin::Imported),
        last_renewal: None,
        step_up: StepUp::default(),
        sealed: None,
    }
}

/// A server that nobody connects to.
fn somewhere() -> config::Server {
    config::Server::at("http://127.0.0.1:9/mcp".parse().unwrap())
}

fn asked(log: &RequestLog) -> usize {
    log.matching(|request| request.path_only() == "/token")
        .len()
}

#[tokio::test]
async fn an_issuer_that_does_not_answer_delays_nobody_else() {
    let silent = Issuer::start().await;
    silent.script().on(any()).reply(Reply::new().black_hole());
    let mut stage = Stage::new();
    stage.server("s", somewhere());
    for number in 0..MANY {
        let agent = format!("silent-{number}");
        stage.agent(&agent, "s");
        stage.due(&agent, "s", &silent, 60).await;
    }
    let mut others = Vec::new();
    for issuer in 0..3 {
        let other = Issuer::start().await;
        for number in 0..5 {
            let agent = format!("other-{issuer}-{number}");
            stage.agent(&agent, "s");
            stage.due(&agent, "s", &other, 1).await;
        }
        others.push(other);
    }
    let _renewals = stage.renew().await;
    for other in &others {
        let all = |log: &RequestLog| asked(log) == 5;
        other.log().wait_for(all, PATIENCE).await.unwrap();
    }
    let limit = config::Renewal::default().per_issuer_concurrency as usize;
    assert_eq!(asked(silent.log()), limit, "only so many at a time");
}

#[tokio::test]
async fn grants_that_nobody_is_configured_for_keep_out_no_others() {
    let issuer = Issuer::start().await;
    let mut stage = Stage::new();
    stage.server("s", somewhere());
    for number in 0..MANY {
        stage.due(&format!("gone-{number}"), "s", &issuer, 60).await;
    }
    stage.agent("here", "s");
    stage.due("here", "s", &issuer, 1).await;
    let store = Arc::clone(&stage.store);
    let _renewals = stage.renew().await;
    let renewed = |log: &RequestLog| asked(log) == 1;
    issuer.log().wait_for(renewed, PATIENCE).await.unwrap();
    let kept = store.grant(&"gone-0".into(), &"s".into()).await.unwrap();
    assert_eq!(kept.unwrap().generation, GrantGeneration(1));
}
