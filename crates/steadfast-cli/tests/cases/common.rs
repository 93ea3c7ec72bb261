//! What the cases share: a daemon in front of one scripted server, with delays scaled down.

use std::time::Duration;

use testkit::daemon::Builder;
use testkit::{Agent, Daemon, Server};

/// Long enough for anything that should happen; a test that reaches it has failed.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A daemon with one agent `dev` and one server `fake`; the testkit scales the delays down.
pub(crate) fn daemon(server: &Server) -> Builder {
    daemon_at(&server.url())
}

/// The same, for a server behind some other address.
pub(crate) fn daemon_at(url: &str) -> Builder {
    Daemon::builder(env!("CARGO_BIN_EXE_steadfast"))
        .server("fake", url)
        .agent("dev")
}

/// A legacy agent that has initialized, on a daemon whose connection is up.
pub(crate) async fn agent(daemon: &Daemon) -> Agent {
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let agent = daemon.legacy_agent("dev", "fake").await.unwrap();
    agent.initialize().await.unwrap();
    agent
}
