//! What a subscription hears.

use super::*;

fn inbound(filter: &str) -> Inbound {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{{"notifications":{filter}}}}}"#
    );
    Inbound::read(text.into()).unwrap()
}

const ALL: Announces = Announces {
    tools: true,
    prompts: true,
    resources: true,
    subscriptions: true,
};

#[test]
fn only_what_was_asked_for_and_is_offered_is_honoured() {
    let asked = inbound(
        r#"{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a:b"]}"#,
    );
    let filter = Filter::read(&asked, ALL);
    assert!(filter.wants("notifications/tools/list_changed", None));
    assert!(!filter.wants("notifications/prompts/list_changed", None));
    assert!(filter.wants("notifications/resources/updated", Some("a:b")));
    assert!(!filter.wants("notifications/resources/updated", Some("c:d")));
    assert!(!filter.wants("notifications/message", None));
    assert_eq!(
        filter.honoured(),
        json!({"toolsListChanged": true, "resourceSubscriptions": ["a:b"]})
    );
    assert_eq!(
        Filter::read(&asked, Announces::default()).honoured(),
        json!({})
    );
    assert_eq!(Filter::read(&inbound("7"), ALL), Filter::default());
}

#[test]
fn every_message_carries_the_subscription() {
    for (message, tagged_as) in [
        (
            r#"{"jsonrpc":"2.0","method":"x"}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"x","params":{"uri":"a:b"}}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"uri":"a:b","_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"k":1.0}}}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"k":1.0,"io.modelcontextprotocol/subscriptionId":"s"}}}"#,
        ),
    ] {
        let message = Bytes::from_static(message.as_bytes());
        let read = envelope::read(&message).unwrap();
        let tagged = tagged(&message, &read, b"\"s\"");
        assert_eq!(std::str::from_utf8(&tagged).unwrap(), tagged_as);
    }
}
