//! Clients of the session era.

use serde_json::{Value, json};
use testkit::{Behaviour, PATIENCE, Server};

use super::{Client, ONE, text};
use crate::common::daemon;
use crate::rig::{BOTH, Era};

#[tokio::test]
async fn a_client_gets_what_the_gateway_gives_and_its_end_is_an_end() {
    for era in BOTH {
        let server = Server::start(era.behaviour()).await;
        let daemon = daemon(&server)
            .set("servers.fake.isolate_sessions", "true")
            .start()
            .await
            .unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let mut client = Client::start(&daemon, Era::Legacy, &ONE);
        client.initialize().await;
        let tools = client.request("tools/list", json!({})).await;
        assert!(tools["result"]["tools"].to_string().contains("add_row"));
        // What a client writes may be spread over lines in a string only, and a number keeps its digits.
        let odd = json!({ "text": "two\nlines", "n": 12_345_678_901_234_567_u64 });
        let answer = client.call("echo", odd.clone()).await;
        assert_eq!(text(&answer), odd.to_string());
        let strange = client.request("no/such", json!({})).await;
        assert_eq!(strange["error"]["code"], -32601, "{strange}");
        let called = server.log().calls("echo");
        assert_eq!(called.len(), 1);
        let (ended, said) = client.close().await;
        assert!(ended.success() && said.is_empty(), "{said}");
        if era == Era::Legacy {
            // Its session at the gateway is ended, and so is the one that stood for it at the server.
            let session = called[0].session().unwrap().to_owned();
            let deleted = |log: &testkit::RequestLog| {
                let deleted = log.http("DELETE");
                deleted.iter().any(|it| it.session() == Some(&*session))
            };
            server.log().wait_for(deleted, PATIENCE).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_merged_endpoint_is_there_without_a_server() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let mut client = Client::start(&daemon, Era::Legacy, &["--agent", "dev"]);
    client.initialize().await;
    let answer = client.call("fake__echo", json!({ "a": 1 })).await;
    assert_eq!(text(&answer), r#"{"a":1}"#);
}

#[tokio::test]
async fn what_servers_ask_and_announce_reaches_the_client() {
    let server = Server::start(Behaviour::legacy("2025-11-25").streaming()).await;
    let daemon = daemon(&server).start().await.unwrap();
    daemon.wait_state("dev", "fake", "connected").await.unwrap();
    let mut client = Client::start(&daemon, Era::Legacy, &ONE);
    client.initialize().await;
    let asking = json!({ "name": "ask", "arguments": {} });
    let call = client.ask("tools/call", asking).await;
    let question = client.told("elicitation/create").await;
    let content = json!({ "action": "accept", "content": { "room": "blue" } });
    let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": content });
    client.write(&reply).await;
    let answer = client.answer(&call).await;
    assert!(text(&answer).contains("blue"), "{answer}");
    // On the listening stream; it is announced until the client is heard listening.
    let announced = async {
        loop {
            server.tools_changed();
            let told = client.told("notifications/tools/list_changed");
            let beat = std::time::Duration::from_millis(200);
            if tokio::time::timeout(beat, told).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, announced).await.unwrap();
}

#[tokio::test]
async fn a_client_does_not_notice_that_the_daemon_began_anew() {
    for forgets in [false, true] {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let mut client = Client::start(&daemon, Era::Legacy, &ONE);
        client.initialize().await;
        client.call("add_row", json!({ "key": "1" })).await;
        daemon.kill9().await.unwrap();
        // While nobody is there: nothing left yet, so that it waits.
        let asked = json!({ "name": "add_row", "arguments": { "key": "2" } });
        let call = client.ask("tools/call", asked).await;
        if forgets {
            for file in std::fs::read_dir(daemon.data()).unwrap() {
                let path = file.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if name.starts_with("steadfast.db") {
                    std::fs::remove_file(path).unwrap();
                }
            }
        }
        daemon.restart().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let answer = client.answer(&call).await;
        // The link may come up a moment later than the gateway.
        if answer["result"]["isError"] != true {
            assert_eq!(text(&answer), "done", "{answer}");
        }
        let again = client.call("add_row", json!({ "key": "3" })).await;
        assert_eq!(text(&again), "done", "{again}");
        let rows = server.ledger().rows_of("add_row").unwrap().len();
        assert_eq!(rows, server.log().calls("add_row").len(), "each once");
        assert!(client.close().await.0.success());
    }
}

#[tokio::test]
async fn nothing_more_is_said_of_what_was_cancelled() {
    for era in BOTH {
        let server = Server::start(era.behaviour()).await;
        let daemon = daemon(&server)
            .read_tool("fake", "slow")
            .start()
            .await
            .unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let mut client = Client::start(&daemon, Era::Legacy, &ONE);
        client.initialize().await;
        let slow = json!({ "name": "slow", "arguments": { "gate": "late" } });
        let call = client.ask("tools/call", slow).await;
        let called = |log: &testkit::RequestLog| log.calls("slow").len() == 1;
        server.log().wait_for(called, PATIENCE).await.unwrap();
        let index = server.log().calls("slow")[0].index;
        client
            .notify("notifications/cancelled", json!({ "requestId": call }))
            .await;
        // The server hears of it in its own way.
        let cancelled = |log: &testkit::RequestLog| {
            log.cancelled(index) || log.count("notifications/cancelled") == 1
        };
        server.log().wait_for(cancelled, PATIENCE).await.unwrap();
        server.open("late");
        let answer = client.call("echo", json!({ "a": 1 })).await;
        assert_eq!(text(&answer), r#"{"a":1}"#);
        assert!(client.aside.is_empty(), "{:?}", client.aside);
    }
}

#[tokio::test]
async fn a_call_whose_answer_is_lost_is_not_sent_again() {
    for era in BOTH {
        let server = Server::start(Behaviour::legacy("2025-11-25")).await;
        let mut daemon = daemon(&server).start().await.unwrap();
        daemon.wait_state("dev", "fake", "connected").await.unwrap();
        let mut client = Client::start(&daemon, era, &ONE);
        if era == Era::Legacy {
            client.initialize().await;
        }
        let slow = json!({ "name": "slow", "arguments": { "gate": "never" } });
        let call = client.ask("tools/call", slow).await;
        let called = |log: &testkit::RequestLog| log.calls("slow").len() == 1;
        server.log().wait_for(called, PATIENCE).await.unwrap();
        daemon.kill9().await.unwrap();
        daemon.restart().await.unwrap();
        let answer = client.answer(&call).await;
        assert_eq!(answer["result"]["isError"], true, "{era:?}: {answer}");
        let operation = &answer["result"]["_meta"]["dev.steadfast/operation"];
        assert_eq!(operation["executed"], "unknown", "{answer}");
        assert_eq!(operation["state"], "not_observed", "{answer}");
        assert_eq!(server.log().calls("slow").len(), 1);
        assert!(client.close().await.0.success());
    }
}

#[tokio::test]
async fn what_is_no_message_is_refused_and_what_cannot_be_is_said_at_once() {
    let server = Server::start(Behaviour::modern()).await;
    let daemon = daemon(&server).start().await.unwrap();
    for wrong in [
        &["--agent", "nobody"][..],
        &["--agent", "dev", "--server", "none"],
    ] {
        let client = Client::start(&daemon, Era::Legacy, wrong);
        let (ended, said) = client.close().await;
        assert_eq!(ended.code(), Some(1), "{said}");
        assert!(said.starts_with("error[SF"), "{said}");
    }
    let mut client = Client::start(&daemon, Era::Legacy, &ONE);
    client.write(&json!("no message")).await;
    let answer = client.next().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&Value::Null, &json!(-32600))
    );
    client.initialize().await;
}
