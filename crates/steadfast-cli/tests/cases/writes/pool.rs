//! WR-04: connections that died while idle, and an HTTP stack that could be tempted to send a body twice.

use std::time::Duration;

use testkit::daemon::Builder;
use testkit::script::call;
use testkit::{Behaviour, Daemon, Event, Net, Reply, RequestLog, Server, Step, Tls};

use super::{READ, WRITE, assert_nothing_follows, assert_unknown, calls, key, rows, server};
use crate::common::{LIMIT, agents_of_both_eras, daemon, daemon_at};

/// After so long without a byte, what is in between has closed or forgotten the connection.
const IDLE: Duration = Duration::from_millis(200);

/// The pool is allowed to use a connection however long it was idle: only then is it tempted.
fn any_age(builder: Builder) -> Builder {
    builder.set("retry.connection_max_idle", "\"1h\"")
}

/// Connections that the server has accepted and not closed.
fn open_connections(log: &RequestLog) -> usize {
    let events = log.events();
    let opened = |event: &Event| matches!(event, Event::Opened { .. });
    let closed = |event: &Event| matches!(event, Event::Closed { .. });
    let count =
        |wanted: &dyn Fn(&Event) -> bool| events.iter().filter(|(_, event)| wanted(event)).count();
    count(&opened) - count(&closed)
}

/// (a) The server has closed the idle connection before the call: the call goes out on a fresh one.
#[tokio::test]
async fn wr_04_a_closed_idle_connection_is_not_used() {
    for mut behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        behaviour.keep_alive = Some(IDLE);
        let server = server(behaviour).await;
        let daemon = any_age(daemon(&server)).start().await.unwrap();
        for (era, agent) in &agents_of_both_eras(&daemon).await {
            for round in ["one", "two"] {
                let this = format!("{era}-{round}");
                // A connection with a stream that listens is not idle.
                let all_closed = |log: &RequestLog| open_connections(log) <= server.open_streams();
                server.log().wait_for(all_closed, LIMIT).await.unwrap();
                let answer = agent.call(WRITE, key(&this)).await.unwrap();
                assert_eq!(answer.text(), "done", "{this}: {answer:?}");
                assert_eq!(rows(&server, WRITE, &this), 1, "{this}");
                assert_eq!(calls(&server, WRITE, &this), 1, "{this}");
            }
        }
        assert_nothing_follows(&server).await;
    }
}

/// A daemon whose connections are silently forgotten by something in between once they have idled.
async fn behind_nat(server: &Server, settle: impl Fn(Builder) -> Builder) -> (Net, Daemon) {
    let net = Net::to(server.address()).unwrap();
    let builder = daemon_at(&net.url("/mcp"))
        .read_tool("fake", READ)
        .set("retry.request_timeout", "\"700ms\"");
    let daemon = settle(builder).start().await.unwrap();
    (net, daemon)
}

/// Waits until nothing has passed for longer than what is in between remembers.
async fn idle(server: &Server) {
    let requests = || server.log().requests().len();
    let mut before = requests();
    let further = |log: &RequestLog, before: usize| log.requests().len() > before;
    while server
        .log()
        .wait_for(|log| further(log, before), IDLE + IDLE / 2)
        .await
        .is_ok()
    {
        before = requests();
    }
}

/// (b) The connection is a corpse: the call ends within its deadline as unknown, the corpse is discarded.
async fn meets_a_corpse(behaviour: Behaviour) {
    let server = server(behaviour).await;
    let (net, daemon) = behind_nat(&server, any_age).await;
    let agents = agents_of_both_eras(&daemon).await;
    net.change(|conditions| conditions.forget_idle = Some(IDLE));
    for (era, agent) in &agents {
        idle(&server).await;
        let lost = format!("{era}-lost");
        let answer = agent.call(WRITE, key(&lost)).await.unwrap();
        assert_unknown(&answer, WRITE, &lost);
        assert!(
            answer.took < Duration::from_secs(3),
            "{lost}: {:?}",
            answer.took
        );
        let next = format!("{era}-next");
        let answer = agent.call(WRITE, key(&next)).await.unwrap();
        assert_eq!(answer.text(), "done", "{next}: {answer:?}");
        assert_eq!(rows(&server, WRITE, &next), 1, "{next}");
        assert_eq!(
            calls(&server, WRITE, &lost),
            0,
            "it was swallowed, and not sent again"
        );
    }
    net.heal();
    assert_nothing_follows(&server).await;
}

#[tokio::test]
async fn wr_04_a_forgotten_connection_leaves_a_write_unknown_and_is_discarded() {
    tokio::join!(
        meets_a_corpse(Behaviour::legacy("2025-11-25")),
        meets_a_corpse(Behaviour::modern())
    );
}

/// (b) is rare: a write goes out on a connection that was used a moment ago, or on a fresh one.
async fn avoids_a_corpse(behaviour: Behaviour) {
    let server = server(behaviour).await;
    let fresh = |builder: Builder| builder.set("retry.connection_max_idle", "\"150ms\"");
    let (net, daemon) = behind_nat(&server, fresh).await;
    let agents = agents_of_both_eras(&daemon).await;
    net.change(|conditions| conditions.forget_idle = Some(IDLE));
    for (era, agent) in &agents {
        idle(&server).await;
        let answer = agent.call(WRITE, key(era)).await.unwrap();
        assert_eq!(answer.text(), "done", "{era}: {answer:?}");
        assert_eq!(rows(&server, WRITE, era), 1, "{era}");
    }
    assert_nothing_follows(&server).await;
}

#[tokio::test]
async fn wr_04_a_write_never_goes_out_on_a_connection_that_idled_for_long() {
    tokio::join!(
        avoids_a_corpse(Behaviour::legacy("2025-11-25")),
        avoids_a_corpse(Behaviour::modern())
    );
}

/// A read that meets the corpse is asked again, on another connection.
#[tokio::test]
async fn wr_04_a_read_on_a_forgotten_connection_is_asked_again() {
    let server = server(Behaviour::legacy("2025-11-25")).await;
    let (net, daemon) = behind_nat(&server, any_age).await;
    let agents = agents_of_both_eras(&daemon).await;
    net.change(|conditions| conditions.forget_idle = Some(IDLE));
    for (era, agent) in &agents {
        idle(&server).await;
        let answer = agent.call(READ, key(era)).await.unwrap();
        assert_eq!(answer.text(), "done", "{era}: {answer:?}");
        let mark = &answer.result()["_meta"]["dev.steadfast/observation"];
        assert_eq!(mark["reissued"], 1, "{era}: {answer:?}");
    }
    net.heal();
}

/// What HTTP clients like to take for a stale connection, and to repeat: a reused connection that
/// closes without a byte of an answer. The request was read and executed.
#[tokio::test]
async fn wr_04_the_http_stack_does_not_repeat_by_itself_over_http1() {
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let server = server(behaviour).await;
        let daemon = any_age(daemon(&server)).start().await.unwrap();
        for (era, agent) in &agents_of_both_eras(&daemon).await {
            for (name, reply) in [
                ("fin", Reply::new().row().fin()),
                ("rst", Reply::new().row().rst()),
                ("refused-late", Reply::new().row().step(Step::Refuse)),
            ] {
                let this = format!("{era}-{name}");
                let warm = agent.call(WRITE, key("warm")).await.unwrap();
                assert_eq!(warm.text(), "done");
                let only = this.clone();
                let matcher = call(WRITE).when(move |request| request.arguments()["key"] == *only);
                server.script().on(matcher.times(1)).reply(reply);
                let answer = agent.call(WRITE, key(&this)).await.unwrap();
                assert_unknown(&answer, WRITE, &this);
                assert_eq!(rows(&server, WRITE, &this), 1, "{this}");
                let sent = server.log().calls(WRITE);
                let last = sent.last().unwrap();
                let earlier = server.log().matching(|request| {
                    request.connection == last.connection && request.index < last.index
                });
                assert!(!earlier.is_empty(), "{this}: it was a reused one");
            }
        }
        assert_nothing_follows(&server).await;
    }
}

/// The same over HTTP/2, where REFUSED_STREAM is the one proof that nothing was done.
#[tokio::test]
async fn wr_04_the_http_stack_does_not_repeat_by_itself_over_http2() {
    let tls = Tls::new(&["127.0.0.1"]).unwrap();
    let certificates = tempfile::tempdir().unwrap();
    let ca = tls.write_ca(certificates.path()).unwrap();
    for behaviour in [Behaviour::legacy("2025-11-25"), Behaviour::modern()] {
        let tools = [WRITE, READ].map(|name| testkit::Tool::new(name, testkit::Action::AddRow));
        let server = Server::builder(behaviour.with_tools(tools.to_vec()))
            .tls(&tls)
            .start()
            .await;
        let daemon =
            any_age(daemon(&server)).set_text("network.ca_file", &ca.display().to_string());
        let daemon = daemon.start().await.unwrap();
        for (era, agent) in &agents_of_both_eras(&daemon).await {
            for (name, reply, ran_once) in [
                ("rst-stream", Reply::new().row().mid_chunk(), true),
                ("connection-reset", Reply::new().row().rst(), true),
                ("refused", Reply::new().step(Step::Refuse), false),
            ] {
                let this = format!("{era}-{name}");
                let only = this.clone();
                let matcher = call(WRITE).when(move |request| request.arguments()["key"] == *only);
                server.script().on(matcher.times(1)).reply(reply);
                let answer = agent.call(WRITE, key(&this)).await.unwrap();
                if ran_once {
                    assert_unknown(&answer, WRITE, &this);
                    assert_eq!(calls(&server, WRITE, &this), 1, "{this}");
                } else {
                    assert_eq!(answer.text(), "done", "{this}: {answer:?}");
                    assert_eq!(calls(&server, WRITE, &this), 2, "{this}");
                }
                assert_eq!(rows(&server, WRITE, &this), 1, "{this}");
            }
        }
        assert!(server.log().calls(WRITE).iter().all(|call| call.http2));
        assert_nothing_follows(&server).await;
    }
}
