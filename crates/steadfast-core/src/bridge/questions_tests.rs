#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn required(result: &str) -> Option<Result<InputRequired, &'static str>> {
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    input_required(message.as_bytes())
}

#[test]
fn an_input_required_result_has_its_questions_and_its_state() {
    let asked = required(
        r#"{"inputRequests":{"b\"":{"params":{"n":1.0},"method":"sampling/createMessage"}, "a":{"method":"roots\/list"}},"resultType":"input_required","requestState":"s\u00e4"}"#,
    );
    let asked = asked.unwrap().unwrap();
    assert_eq!(asked.state.as_deref(), Some(r#""s\u00e4""#));
    let requests: Vec<_> = asked
        .questions
        .iter()
        .map(|it| text(it.request("7", "e")))
        .collect();
    assert_eq!(
        requests,
        [
            r#"{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{"n":1.0}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#,
        ]
    );
    let only_state = required(r#"{"resultType":"input_required","requestState":"x"}"#);
    assert_eq!(only_state.unwrap().unwrap().questions, []);
}

#[test]
fn what_cannot_be_followed_is_an_error_and_what_is_complete_is_none() {
    for complete in [
        r#"{"resultType":"complete"}"#,
        r#"{"inputRequests":{}}"#,
        "[]",
        "1",
    ] {
        assert_eq!(required(complete), None, "{complete}");
    }
    for broken in [
        r#"{"resultType":"input_required"}"#,
        r#"{"resultType":"input_required","inputRequests":{}}"#,
        r#"{"resultType":"input_required","requestState":1}"#,
        r#"{"resultType":"input_required","inputRequests":{"a":{"method":"x/y"}},"requestState":"s"}"#,
        r#"{"resultType":"input_required","inputRequests":{"a":1},"requestState":"s"}"#,
        r#"{"resultType":"input_required","inputRequests":[],"requestState":"s"}"#,
    ] {
        assert!(required(broken).unwrap().is_err(), "{broken}");
    }
}

#[test]
fn a_page_has_an_id_in_the_legacy_era_only() {
    let page = r#"{"mode":"url","url":"https://example.com","message":"m"}"#;
    let asked = required(&format!(
        r#"{{"resultType":"input_required","inputRequests":{{"k":{{"method":"elicitation/create","params":{page}}}}}}}"#
    ));
    let request = asked.unwrap().unwrap().questions[0].request("1", "e-1");
    assert_eq!(
        text(request.clone()),
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"url","url":"https://example.com","message":"m","elicitationId":"e-1"}}"#
    );
    assert_eq!(
        text(ask(&[("k", &request)], "s")),
        format!(
            r#"{{"resultType":"input_required","inputRequests":{{"k":{{"method":"elicitation/create","params":{page}}}}},"requestState":"s"}}"#
        )
    );
}

#[test]
fn the_second_leg_differs_from_the_first_in_its_answers_only() {
    let asked = |state: &str, keys: &[&str]| InputRequired {
        questions: keys
            .iter()
            .map(|key| Question {
                key: splice::quote(key),
                kind: Kind::Elicitation,
                params: None,
            })
            .collect(),
        state: (!state.is_empty()).then(|| splice::quote(state)),
    };
    let answers = [
        r#"{"action":"accept","content":{"n":1.0}}"#.to_owned(),
        "{}".to_owned(),
    ];
    let cases = [
        (
            r#"{"id":1,"method":"tools/call","params":{"name":"t", "arguments":{"n":1e3}},"jsonrpc":"2.0"}"#,
            asked("s1", &["a", "b"]),
            r#"{"id":1,"method":"tools/call","params":{"name":"t", "arguments":{"n":1e3},"inputResponses":{"a":{"action":"accept","content":{"n":1.0}},"b":{}},"requestState":"s1"},"jsonrpc":"2.0"}"#,
        ),
        // What an earlier leg left is replaced, and goes where the last result had none.
        (
            r#"{"params":{"inputResponses":{"x":{}},"name":"t","requestState":"s1"}}"#,
            asked("", &["a"]),
            r#"{"params":{"name":"t","inputResponses":{"a":{"action":"accept","content":{"n":1.0}}}}}"#,
        ),
        (
            r#"{"params":{"inputResponses":{"x":{}},"name":"t"}}"#,
            asked("s2", &[]),
            r#"{"params":{"name":"t","requestState":"s2"}}"#,
        ),
        (
            r#"{"method":"x"}"#,
            asked("s", &[]),
            r#"{"method":"x","params":{"requestState":"s"}}"#,
        ),
        (r#"{"params":[1]}"#, asked("s", &[]), r#"{"params":[1]}"#),
    ];
    for (request, asked, leg) in cases {
        assert_eq!(text(asked.second_leg(request.as_bytes(), &answers)), leg);
    }
}

#[test]
fn a_legacy_question_loses_what_the_modern_era_does_not_have() {
    let cases = [
        (
            r#"{"message":"m","requestedSchema":{"x":1.0}}"#,
            r#"{"message":"m","requestedSchema":{"x":1.0}}"#,
        ),
        (
            r#"{"mode":"url","elicitationId":"e","url":"u","task":{"ttl":1}}"#,
            r#"{"mode":"url","url":"u"}"#,
        ),
        (r#"{"_meta":{"progressToken":1},"n":1}"#, r#"{"n":1}"#),
        (
            r#"{"_meta":{"progressToken":1,"traceparent":"t"}}"#,
            r#"{"_meta":{"traceparent":"t"}}"#,
        ),
        // Of a form it is a field like any other.
        (r#"{"elicitationId":"e"}"#, r#"{"elicitationId":"e"}"#),
    ];
    for (legacy, modern) in cases {
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{legacy}}}"#
        );
        assert_eq!(
            text(ask(&[("1", request.as_bytes())], "s\"")),
            format!(
                r#"{{"resultType":"input_required","inputRequests":{{"1":{{"method":"elicitation/create","params":{modern}}}}},"requestState":"s\""}}"#
            )
        );
    }
    let roots: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    let two = text(ask(&[("1", roots), ("2", roots)], "s"));
    assert_eq!(
        two,
        r#"{"resultType":"input_required","inputRequests":{"1":{"method":"roots/list"},"2":{"method":"roots/list"}},"requestState":"s"}"#
    );
}

#[test]
fn an_answer_is_found_by_its_key_and_goes_back_under_the_servers_id() {
    let leg = br#"{"1":{"action":"accept"},"2":null,"\u0033":{"roots":[ 1.0 ]}}"#;
    let found = |key| answer_in(leg, 0..leg.len(), key);
    assert_eq!(found("1").unwrap(), br#"{"action":"accept"}"#);
    assert_eq!(found("2"), None, "null is no result");
    assert_eq!(
        text(response(r#""s1""#, found("3").unwrap())),
        r#"{"jsonrpc":"2.0","id":"s1","result":{"roots":[ 1.0 ]}}"#
    );
    assert_eq!(found("4"), None);
}

#[test]
fn two_legs_have_the_same_common_part_and_other_calls_have_others() {
    let part = |text: &str| {
        let read = envelope::read(text.as_bytes()).unwrap();
        common_part(text.as_bytes(), &read)
    };
    let first = part(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"a":1},"name":"t","arguments":{"b":[1,{"y":1,"x":2}],"a":"é"}}}"#,
    );
    let second = part(
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"arguments":{"a":"\u00e9", "b":[1,{"x":2,"y":1}]},"name":"t","inputResponses":{},"requestState":"s"}}"#,
    );
    assert_eq!(first, second);
    for other in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"b":[1,{"y":1,"x":2}],"a":"e"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"t","arguments":{"b":[1,{"y":1,"x":2}],"a":"é"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
    ] {
        assert_ne!(part(other), first, "{other}");
    }
}

#[test]
fn only_a_person_can_be_said_not_to_have_answered() {
    for kind in [Kind::Elicitation, Kind::Sampling, Kind::Roots] {
        assert_eq!(Kind::of(kind.method()), Some(kind));
        assert_eq!(kind.unanswered().is_some(), kind == Kind::Elicitation);
    }
    assert_eq!(Kind::of("ping"), None);
}

#[test]
fn polling_for_a_state_slows_down() {
    let pauses: Vec<_> = (2..=12).map(|leg| pause_before(leg).0).collect();
    assert_eq!(pauses[..3], [0, 100, 200]);
    assert!(pauses.is_sorted());
    assert_eq!(pause_before(MOST_LEGS).0, 5_000);
}

fn any_object() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("inputResponses".to_owned()),
        Just("requestState".to_owned()),
        Just("_meta".to_owned()),
        "[a-c\"é]{1,2}"
    ];
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!({})),
        "[ -~é]{0,6}".prop_map(Value::from)
    ];
    prop::collection::btree_map(key, leaf, 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    /// The second leg is the first with the answers, and a legacy server's question that becomes a result
    /// is asked and answered under the key that it was given.
    #[test]
    fn a_call_and_its_second_leg_are_one(params in any_object(), keys in prop::collection::btree_set("[ -~é]{1,4}", 1..4), state in "[ -~é]{0,8}") {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let question = json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": {"message": "m"}}).to_string();
        let asked: Vec<_> = keys.iter().map(|key| (key.as_str(), question.as_bytes())).collect();
        let result = text(ask(&asked, &state));
        let required = required(&result).unwrap().unwrap();
        prop_assert_eq!(required.questions.len(), keys.len());

        let answers: Vec<_> = keys.iter().map(|key| json!({"action": key}).to_string()).collect();
        let leg = required.second_leg(request.as_bytes(), &answers);
        let read = |bytes: &[u8]| { let read = envelope::read(bytes).unwrap(); common_part(bytes, &read) };
        prop_assert_eq!(read(&leg), read(request.as_bytes()));

        let envelope = envelope::read(&leg).unwrap();
        let parts = envelope::read_params(&leg, &envelope);
        let found = json::text(&leg, parts.request_state.unwrap());
        prop_assert_eq!(found.as_deref(), Some(state.as_str()));
        for (key, answer) in keys.iter().zip(&answers) {
            let found = answer_in(&leg, parts.input_responses.clone().unwrap(), key);
            prop_assert_eq!(found, Some(answer.as_bytes()));
        }
        // One more leg replaces them all.
        let last = InputRequired { questions: Vec::new(), state: None }.second_leg(&leg, &[]);
        let last: Value = serde_json::from_slice(&last).unwrap();
        prop_assert!(last["params"].get("inputResponses").is_none() && last["params"].get("requestState").is_none());
    }

    #[test]
    fn nothing_panics_on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64), soup in "[\\[{}\\]\",:a_meta0-9 ]{0,40}") {
        for input in [bytes.as_slice(), soup.as_bytes()] {
            let message = [br#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":"#, input, b"}}"].concat();
            let _ = input_required(input);
            if let Some(Ok(asked)) = input_required(&message) {
                let _ = asked.second_leg(input, &[]);
            }
            let _ = ask(&[("k", input)], "s");
            let _ = params_to_modern(input);
            let _ = answer_in(input, 0..input.len(), "k");
        }
    }
}
