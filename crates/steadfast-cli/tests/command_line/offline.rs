//! What works without a daemon.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::{Place, run, steadfast, text};

#[test]
fn an_agent_and_its_key_are_made_before_any_daemon_runs() {
    let place = Place::new();
    let added = place.run(&["agent", "add", "support", "--json"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert_eq!(added.json()["agent"], "support");
    assert!(added.json()["key"].as_str().unwrap().starts_with("sfk_"));
    let mode = std::fs::metadata(place.data())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);

    let listed = place.run(&["agent", "list", "--json"]).json();
    let expected = json!({"agents": [{"name": "support", "servers": "*", "prefix": true, "has_key": true, "source": "admin"}]});
    assert_eq!(listed, expected);

    let again = place.run(&["agent", "add", "support"]);
    assert_eq!((again.code, again.out.as_str()), (Some(1), ""));
    assert!(
        again
            .err
            .starts_with("error[SF0008]: there is an agent `support` already"),
        "{again:?}"
    );
    assert!(
        again.err.contains("hint: `steadfast agent key support`"),
        "{again:?}"
    );

    let renewed = place.run(&["agent", "key", "support"]);
    assert_eq!(renewed.code, Some(0));
    assert_ne!(renewed.out.trim(), added.json()["key"]);
    assert_eq!(place.run(&["agent", "remove", "support"]).code, Some(0));
    assert_eq!(place.run(&["agent", "remove", "support"]).code, Some(1));
    assert_eq!(place.run(&["agent", "key", "support"]).code, Some(1));
}

#[test]
fn servers_are_added_shown_and_switched_off() {
    let place = Place::new();
    place.run(&["agent", "add", "support"]);
    let add = [
        "server",
        "add",
        "booking",
        "https://a.test/mcp?k=canary1",
        "--header",
        "X-Key: canary2",
    ];
    let added = place.run(&add);
    assert_eq!(
        (added.code, added.out.as_str()),
        (Some(0), "booking is added: https://a.test/mcp?k=…\n")
    );
    assert_eq!(
        place.run(&add).code,
        Some(0),
        "the same again is no conflict"
    );
    assert_eq!(
        place
            .run(&["server", "add", "booking", "https://b.test/"])
            .code,
        Some(1)
    );

    for arguments in [
        &["server", "show", "booking"][..],
        &["server", "show", "booking", "--json"],
        &["server", "list"],
    ] {
        let shown = place.run(arguments);
        assert!(
            !shown.out.contains("canary") && shown.out.contains("https://a.test/mcp"),
            "{shown:?}"
        );
    }
    assert_eq!(
        place.run(&["server", "list"]).out,
        "SERVER   URL                     ENABLED  AGENTS   DEFINED\n\
         booking  https://a.test/mcp?k=…  yes      support  by command\n"
    );
    assert_eq!(
        place.run(&["server", "disable", "booking"]).out,
        "booking is disabled\n"
    );
    let shown = place.run(&["server", "show", "booking", "--json"]).json();
    assert_eq!(
        (&shown["enabled"], &shown["headers"]),
        (&json!(false), &json!({"X-Key": "…"}))
    );
    assert_eq!(
        place.run(&["server", "enable", "booking"]).out,
        "booking is enabled\n"
    );
    assert_eq!(place.run(&["server", "remove", "booking"]).code, Some(0));
    assert_eq!(place.run(&["server", "show", "booking"]).code, Some(1));
}

#[test]
fn an_agent_has_the_servers_that_it_is_given() {
    let place = Place::new();
    place.run(&["server", "add", "a", "https://a.test/"]);
    place.run(&["server", "add", "b", "https://b.test/"]);
    let servers = || place.run(&["agent", "list", "--json"]).json()["agents"][0]["servers"].clone();

    let unknown = place.run(&["agent", "add", "x", "--server", "c"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.err.contains("`x`") && unknown.err.contains("`c`"),
        "{unknown:?}"
    );
    place.run(&["agent", "add", "x", "--server", "a"]);
    assert_eq!(servers(), json!(["a"]));
    let widened = place.run(&["agent", "add", "x", "--server", "b"]);
    assert_eq!(
        (widened.code, widened.out.as_str()),
        (Some(0), "x is changed and keeps its key\n")
    );
    assert_eq!(servers(), json!(["a", "b"]));
    place.run(&["server", "remove", "a"]);
    assert_eq!(
        servers(),
        json!(["b"]),
        "a new server `a` is not the agent's by chance"
    );
}

#[test]
fn wrong_usage_ends_with_2() {
    let place = Place::new();
    for arguments in [
        &["nonsense"][..],
        &["serve", "--listen", "here"],
        &["agent", "add"],
        &["agent", "add", "a b"],
        &["agent", "add", "a__b"],
        &["server", "add", "a", "no url"],
        &["server", "add", "a", "ftp://a.test/"],
        &[
            "server",
            "add",
            "a",
            "https://a.test/",
            "--header",
            "nonsense",
        ],
        &["call", "a", "b", "c", "[]"],
        &["status", "--url", "ftp://a.test/", "--token", "x"],
    ] {
        let ended = place.run(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.err.starts_with("error"), "{arguments:?}: {ended:?}");
    }
    assert_eq!(run(&["--help"]).code, Some(0));
    assert_eq!(run(&["--version"]).code, Some(0));
}

#[test]
fn commands_that_need_a_daemon_say_so() {
    let place = Place::new();
    for arguments in [
        &["status"][..],
        &["reload", "a"],
        &["call", "a", "b", "c"],
        &["connect", "--agent", "a"],
    ] {
        let ended = place.run(arguments);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(
            ended.err.starts_with("error[SF0005]: no daemon runs on "),
            "{ended:?}"
        );
    }
    // Nothing listens on port 1 of this machine.
    let ended = place.run(&["status", "--url", "http://127.0.0.1:1", "--token", "x"]);
    assert!(
        ended
            .err
            .starts_with("error[SF0005]: no daemon answers at http://127.0.0.1:1/"),
        "{ended:?}"
    );
    // The token of this machine goes to no other one.
    std::fs::create_dir_all(place.data()).unwrap();
    std::fs::write(place.data().join("admin.token"), "canary\n").unwrap();
    let ended = place.run(&["status", "--url", "http://steadfast.invalid/"]);
    assert!(
        ended
            .err
            .starts_with("error[SF0006]: there is no admin token"),
        "{ended:?}"
    );
}

#[test]
fn every_code_is_explained() {
    let listed = run(&["explain", "--json"]).json();
    let codes = listed["codes"].as_array().unwrap();
    assert!(codes.len() > 30);
    for code in codes {
        let code = code["code"].as_str().unwrap();
        let explained = run(&["explain", code]);
        assert_eq!(explained.code, Some(0));
        assert!(
            explained.out.starts_with(&format!("{code} · ")),
            "{explained:?}"
        );
        assert!(
            !explained.out.contains("](") && !explained.out.contains('\x1b'),
            "{explained:?}"
        );
    }
    let unknown = run(&["explain", "SF9999"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (Some(1), ""));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut command = steadfast();
    let mut child = command
        .arg("explain")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_damaged_store_is_named_and_not_replaced() {
    let place = Place::new();
    std::fs::create_dir_all(place.data()).unwrap();
    let store = place.data().join("steadfast.db");
    std::fs::write(&store, "not a database").unwrap();
    let ended = place.run(&["agent", "list"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .err
            .starts_with(&format!("error[SF0052]: {}", text(&store))),
        "{ended:?}"
    );
    assert_eq!(std::fs::read_to_string(&store).unwrap(), "not a database");
}
