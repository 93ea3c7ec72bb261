//! What a subscription hears.

use super::*;

fn inbound(filter: &str) -> Inbound {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{{"notifications":{filter}}}}}"#
    );
    Inbound::read(text.into()).unwrap()
}

fn agent() -> AgentName {
    AgentName::from("dev")
}

fn one(server: &str) -> Audience {
    Audience {
        scope: Scope::One((agent(), ServerName::from(server))),
        rewrite: None,
    }
}

fn tools_changed(hub: &Hub, server: &str) {
    let message = notification("notifications/tools/list_changed");
    hub.notify(&agent(), &ServerName::from(server), &message);
}

fn heard(opening: &mut Opening) -> Vec<String> {
    std::iter::from_fn(|| opening.receiver.try_recv().ok())
        .map(|message| String::from_utf8(message.to_vec()).unwrap())
        .collect()
}

#[test]
fn filters_of_extensions_are_told_apart() {
    assert!(is_of_extension(&inbound(r#"{"taskIds":["t"]}"#)));
    assert!(is_of_extension(&inbound(
        r#"{"toolsListChanged":true,"x":1}"#
    )));
    for plain in ["{}", "7", r#"{"resourceSubscriptions":["a:b"]}"#] {
        assert!(!is_of_extension(&inbound(plain)), "{plain}");
    }
    assert_eq!(asked(&inbound("7")), Filter::default());
    let uris = asked(&inbound(r#"{"resourceSubscriptions":["a:b"]}"#)).uris;
    assert!(uris.contains("a:b"));
}

#[test]
fn each_stream_hears_its_own_servers_under_its_own_id() {
    let hub = Arc::new(Hub::default());
    let mut a = hub.listen(one("a"), b"1", Filter::all_lists());
    let mut b = hub.listen(one("b"), b"\"1\"", Filter::all_lists());
    let all = Audience {
        scope: Scope::All(agent()),
        rewrite: Some(Arc::new(|server, message| {
            (server.as_str() != "b").then(|| message.clone())
        })),
    };
    let mut all = hub.listen(all, b"2", Filter::all_lists());
    tools_changed(&hub, "a");
    tools_changed(&hub, "b");
    let of = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        )
    };
    assert_eq!(heard(&mut a), [of("1")]);
    assert_eq!(heard(&mut b), [of("\"1\"")]);
    assert_eq!(heard(&mut all), [of("2")], "as the rewrite says");
}

#[test]
fn a_stream_that_the_gateway_ends_ends_with_its_response() {
    let hub = Arc::new(Hub::default());
    let mut a = hub.listen(one("a"), b"1", Filter::all_lists());
    let mut b = hub.listen(one("b"), b"2", Filter::all_lists());
    hub.retain(|_, server| server.is_some_and(|server| server.as_str() == "b"));
    assert_eq!(heard(&mut a), [message::closing("1")]);
    assert!(a.receiver.is_closed());
    assert_eq!(heard(&mut b), Vec::<String>::new());
    assert!(!b.receiver.is_closed());
}

#[test]
fn a_stream_that_is_too_slow_ends_without_its_response() {
    let hub = Arc::new(Hub::default());
    let mut slow = hub.listen(one("a"), b"1", Filter::all_lists());
    for _ in 0..=LONGEST_QUEUE {
        tools_changed(&hub, "a");
    }
    assert_eq!(heard(&mut slow).len(), LONGEST_QUEUE);
    assert!(slow.receiver.is_closed());
}

#[test]
fn a_stream_that_is_gone_leaves_nothing_behind() {
    let hub = Arc::new(Hub::default());
    drop(hub.listen(one("a"), b"1", Filter::all_lists()));
    assert!(hub.streams.lock().by_agent.is_empty());
}
