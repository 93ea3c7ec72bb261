//! A gateway in this process, in front of a scripted server.
#![allow(clippy::unwrap_used, clippy::expect_used, dead_code, unreachable_pub)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use steadfast::{Keeper, config};
use steadfast_gateway::{AdminToken, Gateway, Settings};
use steadfast_store::{MemoryEvents, MemoryRecords, SharedStore, Source, Vault};
use testkit::{Agent, Behaviour, Server};

pub const LIMIT: Duration = Duration::from_secs(10);

pub struct House {
    pub server: Server,
    pub records: SharedStore,
    pub keeper: Keeper,
    pub gateway: Gateway,
    pub key: String,
}

pub fn settings() -> Settings {
    let mut settings = Settings::new(
        SocketAddr::from(([127, 0, 0, 1], 0)),
        AdminToken::new("admin"),
    );
    settings.hello_wait = Duration::from_millis(200);
    settings
}

pub async fn start(records: &SharedStore, settings: Settings) -> (Keeper, Gateway) {
    let mut keeping = config::Settings::default();
    keeping.retry.first = config::Span(steadfast_core::Millis(50));
    let keeper = {
        let vault = Arc::new(Vault::ephemeral().unwrap());
        Keeper::start(keeping, Arc::clone(records), vault)
            .await
            .unwrap()
    };
    let events = Arc::new(MemoryEvents::new());
    let gateway = Gateway::start(settings, keeper.clone(), Arc::clone(records), events)
        .await
        .unwrap();
    (keeper, gateway)
}

impl House {
    pub async fn with(behaviour: Behaviour) -> Self {
        Self::set(behaviour, settings()).await
    }

    pub async fn set(behaviour: Behaviour, settings: Settings) -> Self {
        let house = Self::of(Server::start(behaviour).await, settings).await;
        assert!(
            house.link().connected(LIMIT).await,
            "{:?}",
            house.link().report()
        );
        house
    }

    pub async fn of(server: Server, settings: Settings) -> Self {
        let records: SharedStore = Arc::new(MemoryRecords::new());
        let (keeper, gateway) = start(&records, settings).await;
        let directory = gateway.directory().clone();
        let upstream = config::Server::at(server.url().parse().unwrap());
        directory
            .put_server("booking", upstream, Source::Admin)
            .await
            .unwrap();
        for name in ["support", "other"] {
            let agent = config::Agent::with_servers(["booking"]);
            directory
                .put_agent(name, agent, Source::Admin)
                .await
                .unwrap();
        }
        let key = directory.make_key("support").await.unwrap();
        Self {
            server,
            records,
            keeper,
            gateway,
            key: key.reveal().to_owned(),
        }
    }

    pub fn link(&self) -> Arc<steadfast::Link> {
        self.keeper
            .link(&"support".into(), &"booking".into())
            .unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        self.gateway.local_addr()
    }

    pub fn legacy(&self) -> Agent {
        Agent::legacy(self.address(), "/mcp/booking", Some(&self.key))
    }

    pub fn modern(&self) -> Agent {
        Agent::modern(self.address(), "/mcp/booking", Some(&self.key))
    }
}
