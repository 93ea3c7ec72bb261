//! What it means that an agent goes away, and that it says that it wants no answer any more: the eras say the
//! opposite of each other, and a server is told each in its own way.

use std::time::Duration;

use serde_json::json;
use testkit::{Ending, RequestLog, Server};

use crate::common::never;
use crate::rig::{BOTH, Era, PAIRINGS, Rig, seen};

const CANCELLED: &str = "notifications/cancelled";

/// Long enough for a daemon to notice that its agent has gone.
const NOTICED: Duration = Duration::from_millis(200);

/// A call of a slow tool under way; the rig, the call, and its place in the server's log.
async fn under_way(
    agent: Era,
    server: Era,
    reads: bool,
    streams: bool,
) -> (Rig, testkit::Pending, usize) {
    let behaviour = server.behaviour();
    let behaviour = if streams {
        behaviour.streaming()
    } else {
        behaviour
    };
    let rig = Rig::with(agent, Server::start(behaviour).await, |daemon| {
        if reads {
            daemon.read_tool("fake", "slow")
        } else {
            daemon
        }
    })
    .await;
    let params = json!({"name": "slow", "arguments": {}});
    let mut pending = rig.agent.start("tools/call", params).await.unwrap();
    seen(&rig.server, |log| log.calls("slow").len() == 1).await;
    if streams {
        pending.stream().await.unwrap();
    }
    let index = rig.server.log().calls("slow")[0].index;
    (rig, pending, index)
}

/// Whether the server was told to stop, in the way of its era and in no other.
fn told(log: &RequestLog, server: Era, index: usize) -> bool {
    let notices = log.posts(CANCELLED);
    match server {
        Era::Legacy => {
            let id = log.requests()[index].rpc_id().cloned();
            notices.len() == 1 && notices[0].pointer("/params/requestId") == id.as_ref()
        }
        Era::Modern => {
            assert!(notices.is_empty(), "not a way of this era: {log}");
            log.cancelled(index)
        }
    }
}

/// Told nothing, the server goes on to its end, and is listened to.
async fn goes_on(rig: &Rig, server: Era, index: usize) {
    never(&rig.server, NOTICED, |log| told(log, server, index)).await;
    assert_eq!(rig.server.log().ending(index), None, "{}", rig.server.log());
    rig.server.open("slow");
    let ended = |log: &RequestLog| log.ending(index).is_some();
    seen(&rig.server, ended).await;
    let (_, ending) = rig.server.log().ending(index).unwrap();
    assert_eq!(ending, Ending::Complete, "{}", rig.server.log());
    assert_eq!(rig.rows("slow"), 1);
}

async fn an_agent_goes_away(streams: bool) {
    for (agent, server) in PAIRINGS {
        for reads in [true, false] {
            let (rig, pending, index) = under_way(agent, server, reads, streams).await;
            drop(pending);
            // A modern agent's closed stream is a cancellation, which a write outlives all the same; a legacy
            // agent's says nothing.
            if agent == Era::Modern && reads {
                seen(&rig.server, |log| told(log, server, index)).await;
            } else {
                goes_on(&rig, server, index).await;
            }
        }
    }
}

#[tokio::test]
async fn gw_02_going_away_from_a_stream_means_what_the_agents_era_says() {
    an_agent_goes_away(true).await;
}

#[tokio::test]
async fn gw_02_going_away_before_the_answer_means_what_the_agents_era_says() {
    an_agent_goes_away(false).await;
}

/// A legacy agent's cancellation reaches a legacy server as one, with the id that it knows, and closes the stream
/// of a modern one.
#[tokio::test]
async fn gw_02_a_cancellation_is_told_in_the_servers_own_way() {
    for server in BOTH {
        for (reads, streams) in [(true, true), (false, true), (false, false)] {
            let (rig, pending, index) = under_way(Era::Legacy, server, reads, streams).await;
            rig.agent.cancel(&pending.id).await.unwrap();
            seen(&rig.server, |log| told(log, server, index)).await;
        }
    }
}

/// `on_disconnect` of a tool counts for servers of both eras.
#[tokio::test]
async fn gw_02_the_operator_decides_what_a_disconnect_does_to_a_tool() {
    for server in BOTH {
        for (effect, policy, is_told) in [("read", "observe", false), ("write", "cancel", true)] {
            let rig = Rig::with(
                Era::Modern,
                Server::start(server.behaviour()).await,
                |daemon| {
                    daemon
                        .set_text("servers.fake.tools.slow.effect", effect)
                        .set_text("servers.fake.tools.slow.on_disconnect", policy)
                },
            )
            .await;
            let params = json!({"name": "slow", "arguments": {}});
            let pending = rig.agent.start("tools/call", params).await.unwrap();
            seen(&rig.server, |log| log.calls("slow").len() == 1).await;
            let index = rig.server.log().calls("slow")[0].index;
            drop(pending);
            if is_told {
                seen(&rig.server, |log| told(log, server, index)).await;
            } else {
                goes_on(&rig, server, index).await;
            }
        }
    }
}
