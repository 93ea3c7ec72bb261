//! `apply` and `import`.

use serde_json::json;

use crate::{Place, text};

const FILE: &str = r#"
[retry]
first = "2s"

[agents.support]
servers = ["booking"]

[servers.booking]
url = "https://a.test/mcp"
headers = { X-Key = "canary1" }
"#;

#[test]
fn apply_shows_what_it_would_do_does_it_and_does_it_once() {
    let place = Place::new();
    let file = place.write("a.toml", FILE);
    let planned = place.run(&["apply", text(&file), "--dry-run"]);
    assert_eq!(
        (planned.code, planned.out.as_str()),
        (
            Some(0),
            "+ server booking\n+ agent support\n2 would change, 0 as they were\n"
        )
    );
    assert!(
        planned
            .err
            .contains("`steadfast serve --config` reads the others: retry"),
        "{planned:?}"
    );
    assert_eq!(
        place.run(&["server", "list", "--json"]).json(),
        json!({"servers": []})
    );

    let applied = place.run(&["apply", text(&file)]);
    assert_eq!(
        applied.out,
        "+ server booking\n+ agent support\n2 changed, 0 as they were\n"
    );
    assert_eq!(
        place.run(&["apply", text(&file)]).out,
        "0 changed, 2 as they were\n"
    );

    let changed = FILE
        .replace("a.test", "b.test")
        .replace("canary1", "canary2");
    let file = place.write("a.toml", &changed);
    let planned = place.run(&["apply", text(&file), "--dry-run"]);
    assert_eq!(
        planned.out,
        "~ server booking\n    headers: {\"X-Key\":\"…\"} → {\"X-Key\":\"…\"}\n    \
         url: \"https://a.test/mcp\" → \"https://b.test/mcp\"\n1 would change, 1 as they were\n"
    );
    let planned = place
        .run(&["apply", text(&file), "--dry-run", "--json"])
        .json();
    assert_eq!(planned["changes"][0]["change"], "change");
    assert_eq!(planned["changes"][1]["change"], "keep");
    assert_eq!(place.run(&["apply", text(&file)]).code, Some(0));
    let shown = place.run(&["server", "show", "booking", "--json"]).json();
    assert_eq!(shown["url"], "https://b.test/mcp");
}

#[test]
fn a_file_with_an_error_changes_nothing() {
    let place = Place::new();
    let file = place.write("a.toml", &FILE.replace("headers", "header"));
    for arguments in [
        &["apply", text(&file)][..],
        &["serve", "--config", text(&file), "--listen", "127.0.0.1:0"],
    ] {
        let ended = place.run(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
        assert_eq!(
            ended.err,
            format!(
                "error[SF0001]: {}:10:1: unknown key `servers.booking.header`; did you mean `headers`?\n\
                 hint: Correct the key: the message names the nearest known one.\n",
                text(&file)
            )
        );
    }
    assert!(!place.data().exists());
}

#[test]
fn import_takes_over_what_has_a_url_and_says_why_the_rest_stays() {
    let place = Place::new();
    let file = place.write(
        "mcp.json",
        r#"{"mcpServers": {
            "booking": {"type": "http", "url": "https://a.test/mcp", "headers": {"X-Key": "canary"}},
            "tickets": {"url": "https://b.test/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
            "files": {"command": "npx", "args": ["server-files"]},
        }}"#,
    );
    let planned = place.run(&["import", text(&file), "--dry-run"]);
    assert_eq!(planned.code, Some(0));
    assert_eq!(
        place.run(&["server", "list", "--json"]).json(),
        json!({"servers": []})
    );

    let imported = place.run(&["import", text(&file), "--agent", "support"]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let lines: Vec<&str> = imported.out.lines().collect();
    assert!(
        lines[1].starts_with("booking  added    https://a.test/mcp"),
        "{imported:?}"
    );
    assert!(
        lines[3].starts_with("  the header Authorization has a placeholder"),
        "{imported:?}"
    );
    assert!(
        lines[4].starts_with("files    skipped  it runs `npx` on this machine"),
        "{imported:?}"
    );
    assert!(
        lines[5].starts_with("sfk_") && lines.len() == 6,
        "{imported:?}"
    );
    let agents = place.run(&["agent", "list", "--json"]).json();
    assert_eq!(
        agents["agents"][0]["servers"],
        json!(["booking", "tickets"])
    );

    let again = place.run(&["import", text(&file), "--agent", "support"]);
    assert_eq!(again.code, Some(0));
    assert!(
        again.out.contains("booking  unchanged") && !again.out.contains("sfk_"),
        "{again:?}"
    );

    let other = place.write(
        "b.json",
        r#"{"servers": {"booking": {"url": "https://c.test/"}}}"#,
    );
    let conflict = place.run(&["import", text(&other)]);
    assert_eq!(conflict.code, Some(1));
    assert!(conflict.out.contains("booking  conflict"), "{conflict:?}");
    let shown = place.run(&["server", "show", "booking", "--json"]).json();
    assert_eq!(shown["url"], "https://a.test/mcp");

    let nothing = place.write("c.json", "{}");
    let refused = place.run(&["import", text(&nothing)]);
    assert!(
        refused.err.starts_with("error[SF0003]: ") && refused.code == Some(1),
        "{refused:?}"
    );
}
