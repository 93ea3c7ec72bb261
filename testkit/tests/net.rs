//! The faulty network does what each of its switches says.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::net::{Direction, SilentAddress};
use testkit::reply::event_stream;
use testkit::script::get;
use testkit::{Agent, Behaviour, End, Net, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Long enough for a byte to cross loopback, and short enough to wait for one that does not.
const MOMENT: Duration = Duration::from_millis(100);

async fn behind_net() -> (Server, Net, Agent) {
    let server = Server::start(Behaviour::legacy("2025-11-25")).await;
    let net = Net::to(server.address()).unwrap();
    let agent = Agent::legacy(net.address(), "/mcp", None);
    agent.initialize().await.unwrap();
    (server, net, agent)
}

#[tokio::test]
async fn refusal_and_return() {
    let (_server, net, agent) = behind_net().await;
    net.refuse().await;
    let refused = agent.call("echo", json!({})).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    net.accept_again().await.unwrap();
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
    assert_eq!(net.accepts().len(), 3);
}

#[tokio::test]
async fn a_reset_is_a_reset_on_both_sides() {
    let (server, net, agent) = behind_net().await;
    let mut stream = agent.open_get(None).await.unwrap();
    net.reset_all();
    assert_eq!(
        stream.next().await.unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
    let closed = |log: &testkit::RequestLog| log.ending(log.requests().len() - 1).is_some();
    server
        .log()
        .wait_for(closed, testkit::PATIENCE)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_black_hole_swallows_and_a_freeze_holds_back() {
    let (server, net, agent) = behind_net().await;
    let mut stream = agent.open_get(None).await.unwrap();
    net.change(|now| now.frozen = Some(Direction::Down));
    server.tools_changed();
    assert!(timeout(MOMENT, stream.next()).await.is_err());
    net.heal();
    assert!(stream.message().await.unwrap().is_some());

    net.change(|now| now.black_hole = true);
    let before = server.log().requests().len();
    assert!(
        timeout(MOMENT, agent.call("add_row", json!({})))
            .await
            .is_err()
    );
    server.tools_changed();
    assert!(timeout(MOMENT, stream.next()).await.is_err());
    assert_eq!(server.log().requests().len(), before);
    net.heal();
    assert_eq!(
        agent.call("add_row", json!({})).await.unwrap().text(),
        "done"
    );
}

#[tokio::test]
async fn silent_streams_are_cut_and_talkative_ones_are_not() {
    let (server, net, agent) = behind_net().await;
    net.change(|now| now.cut_idle = Some(Duration::from_millis(600)));
    let began = Instant::now();
    let mut silent = agent.open_get(None).await.unwrap();
    assert_eq!(
        silent.next().await.unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
    assert!(began.elapsed() >= Duration::from_millis(600));
    server.script().on(get()).reply(event_stream().repeat(
        ": ka\n\n",
        Duration::from_millis(50),
        Some(24),
    ));
    let mut talkative = agent.open_get(None).await.unwrap();
    let mut beats = 0;
    while talkative.next().await.unwrap().is_some() {
        beats += 1;
    }
    assert_eq!(beats, 24);
}

#[tokio::test]
async fn a_forgotten_connection_swallows_and_a_new_one_works() {
    let (server, net, agent) = behind_net().await;
    net.change(|now| now.forget_idle = Some(Duration::from_millis(800)));
    let mut stream = agent.open_get(None).await.unwrap();
    assert!(
        timeout(Duration::from_millis(850), stream.next())
            .await
            .is_err()
    );
    server.tools_changed();
    assert!(timeout(MOMENT, stream.next()).await.is_err());
    assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
}

#[tokio::test]
async fn accepts_are_limited_and_bytes_delayed() {
    let (_server, net, agent) = behind_net().await;
    net.change(|now| now.accepts_per_second = Some(10));
    for _ in 0..4 {
        agent.call("echo", json!({})).await.unwrap();
    }
    // The accept that was already waiting when the limit came is not held back.
    let accepts = net.accepts();
    let gaps: Vec<_> = accepts
        .windows(2)
        .skip(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(
        gaps.iter().all(|gap| *gap >= Duration::from_millis(95)),
        "{gaps:?}"
    );
    net.heal();
    net.change(|now| now.delay = Duration::from_millis(80));
    assert!(agent.call("echo", json!({})).await.unwrap().took >= Duration::from_millis(160));
}

#[tokio::test]
async fn a_silent_address_answers_no_connection_attempt() {
    let silent = SilentAddress::new().unwrap();
    assert!(
        timeout(
            Duration::from_millis(500),
            TcpStream::connect(silent.address())
        )
        .await
        .is_err()
    );
}

#[tokio::test]
async fn half_closed_connections_stay_half_open() {
    let echo = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let net = Net::to(echo.local_addr().unwrap()).unwrap();
    let mut near = TcpStream::connect(net.address()).await.unwrap();
    let (mut far, _) = echo.accept().await.unwrap();
    near.write_all(b"question").await.unwrap();
    near.shutdown().await.unwrap();
    let mut got = String::new();
    far.read_to_string(&mut got).await.unwrap();
    far.write_all(b"answer").await.unwrap();
    drop(far);
    let mut answer = String::new();
    near.read_to_string(&mut answer).await.unwrap();
    assert_eq!((got.as_str(), answer.as_str()), ("question", "answer"));
}

#[tokio::test]
async fn a_cut_comes_after_so_many_bytes_of_its_direction() {
    for (direction, bytes, end, kind) in [
        (
            Direction::Down,
            10,
            End::Rst,
            io::ErrorKind::ConnectionReset,
        ),
        (Direction::Down, 10, End::Fin, io::ErrorKind::UnexpectedEof),
        (Direction::Up, 10, End::Rst, io::ErrorKind::ConnectionReset),
    ] {
        let (server, net, agent) = behind_net().await;
        let before = server.log().count("tools/call");
        net.cut_after(direction, bytes, end);
        let failed = agent.call("echo", json!({})).await.unwrap_err();
        assert_eq!(failed.kind(), kind, "{direction:?} {end:?}");
        let came = server.log().count("tools/call") - before;
        assert_eq!(came, usize::from(direction == Direction::Down));
        // Once.
        assert_eq!(agent.call("echo", json!({})).await.unwrap().status, 200);
    }
}
