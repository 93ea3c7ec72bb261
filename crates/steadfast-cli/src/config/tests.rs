use std::path::Path;

use steadfast::config::{OnRepeat, Span};
use steadfast_core::Effect;

use super::*;

/// Every key that is documented.
const COMPLETE: &str = include_str!("complete.toml");

fn read(text: &str) -> Result<File, Error> {
    parse("steadfast.toml", text, Path::new("/etc"), None)
}

fn error(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("no error in {text}"),
        Err(error) => format!("{} {error}", error.code()),
    }
}

#[test]
fn every_documented_key_is_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("corp-ca.pem"), "").unwrap();
    let file =
        parse("steadfast.toml", COMPLETE, folder.path(), None).map_err(|error| error.to_string());
    let file = file.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(file.gateway.config_check, Span::secs(1));
    assert_eq!(
        file.network.ca_file,
        Some(folder.path().join("corp-ca.pem"))
    );
    assert_eq!(file.limits.max_message.0, 64 << 20);
    assert!(file.agents["support"].prefix);
    let tool = &file.servers["booking"].tools["create_booking"];
    assert_eq!(
        (tool.effect, tool.repeat),
        (Effect::Write, Some(OnRepeat::Hold))
    );
    assert_eq!(
        tool.lookup.as_ref().unwrap().settle_after,
        Some(Span::secs(30))
    );
}

#[test]
fn an_empty_file_is_all_defaults() {
    assert!(read("").unwrap() == File::default());
}

#[test]
fn a_client_metadata_document_stands_at_an_https_address_with_a_path() {
    let at = |url: &str| format!("[gateway]\nclient_metadata_url = \"{url}\"\n");
    for bad in [
        "http://corp.test/a.json",
        "https://corp.test",
        "https://corp.test/a#b",
    ] {
        let error = error(&at(bad));
        assert!(error.contains("gateway.client_metadata_url"), "{error}");
    }
    assert!(read(&at("https://corp.test/a.json")).is_ok());
}

#[test]
fn an_unknown_key_names_its_place_and_the_nearest_known_one() {
    assert_eq!(
        error("[servers.booking]\nurl = \"https://a.test/\"\nisolate_session = true\n"),
        "SF0001 steadfast.toml:3:1: unknown key `servers.booking.isolate_session`; did you mean `isolate_sessions`?"
    );
    assert_eq!(
        error("[server.booking]\nurl = \"https://a.test/\"\n"),
        "SF0001 steadfast.toml:1:2: unknown key `server`; did you mean `servers`?"
    );
    assert_eq!(
        error("[catalog]\n  zzzzzz = 1\n"),
        "SF0001 steadfast.toml:2:3: unknown key `catalog.zzzzzz`; \
         the nearest known one is `shrink_hold`, of shrink_hold"
    );
    assert_eq!(
        error("[servers.a]\nurl = \"https://a.test/\"\ntools.x.efect = \"read\"\n"),
        "SF0001 steadfast.toml:3:9: unknown key `servers.a.tools.x.efect`; did you mean `effect`?"
    );
}

#[test]
fn a_bad_value_names_its_place() {
    for (text, expected) in [
        (
            "[retry]\nfirst = \"soon\"",
            "2:9: retry.first: `soon` is not a duration",
        ),
        (
            "[retry]\nfirst = 1",
            "2:9: retry.first: invalid type: integer `1`, expected a string",
        ),
        (
            "[limits]\nmax_message = \"64MB\"",
            "2:15: limits.max_message: `64MB` is not a size",
        ),
        (
            "[gateway]\nlisten = \"here\"",
            "2:10: gateway.listen: `here` is not an address",
        ),
        (
            "[servers.a]\nurl = \"a.test/mcp\"",
            "2:7: servers.a.url: a URL begins with https:// or http://",
        ),
        (
            "[servers.a]\nenabled = true",
            "1:1: servers.a: missing key `url`",
        ),
        (
            "[agents.a]\nservers = \"b\"",
            "2:11: agents.a.servers: write a list of names of servers, or \"*\"",
        ),
        (
            "[servers.a]\nurl = \"https://a.test/\"\ntools.x.effect = \"maybe\"",
            "3:18: servers.a.tools.x.effect: unknown value `maybe`, expected `read` or `write`",
        ),
        (
            "[network]\nresolve = { \"a.test\" = \"b\" }",
            "2:24: network.resolve.a.test: write an IP address",
        ),
    ] {
        let told = error(text);
        assert!(
            told.starts_with(&format!("SF0002 steadfast.toml:{expected}")),
            "{told}"
        );
    }
    assert!(
        error("a = ").starts_with("SF0003 steadfast.toml:1:"),
        "{}",
        error("a = ")
    );
}

#[test]
fn what_cannot_work_is_refused() {
    let server = "[servers.booking]\nurl = \"https://a.test/\"\n";
    for (text, expected) in [
        (
            "[agents.support]\nservers = [\"bookin\"]".to_owned() + "\n" + server,
            "SF0002 steadfast.toml:2:1: agents.support.servers: the agent `support` has the server `bookin`, \
             which is not in this file; did you mean `booking`?",
        ),
        (
            "[agents.\"a b\"]".to_owned(),
            "SF0002 steadfast.toml:1:9: agents.a b: a name has 1 to 64",
        ),
        (
            "[servers.steadfast]\nurl = \"https://a.test/\"".to_owned(),
            "SF0002 steadfast.toml:1:10: servers.steadfast: tools of Steadfast's own",
        ),
        (
            "[servers.a__b]\nurl = \"https://a.test/\"".to_owned(),
            "SF0002 steadfast.toml:1:10: servers.a__b: a name",
        ),
        (
            "[servers.a]\nurl = \"ftp://a.test/\"".to_owned(),
            "SF0002 steadfast.toml:2:1: servers.a.url: the scheme is `ftp`",
        ),
        (
            "[servers.a]\nurl = \"https://u:p@a.test/\"".to_owned(),
            "SF0002 steadfast.toml:2:1: servers.a.url: a URL is shown",
        ),
        (
            format!("{server}headers = {{ \"Mcp-Session-Id\" = \"x\" }}"),
            "SF0002 steadfast.toml:3:13: servers.booking.headers.Mcp-Session-Id: is set by Steadfast itself",
        ),
        (
            format!("{server}headers = {{ K = \"${{vault:}}\" }}"),
            "SF0009 steadfast.toml:3:13: servers.booking.headers.K: a reference is written",
        ),
        (
            format!("{server}oauth = {{ grant = \"client_credentials\", client_id = \"a\" }}"),
            "SF0002 steadfast.toml:3:11: servers.booking.oauth.grant: client_credentials needs a client_secret",
        ),
        (
            format!("{server}oauth = {{ client_id = \"a\", private_key = \"${{vault:}}\" }}"),
            "SF0009 steadfast.toml:3:28: servers.booking.oauth.private_key: a reference is written",
        ),
        (
            "[notify]\nemail = { to = \"ops\", smtp = \"${vault:SMTP_URL}\" }".to_owned(),
            "SF0002 steadfast.toml:2:11: notify.email.to: is no e-mail address",
        ),
        (
            "[[gateway.issuers]]\nissuer = \"as.test\"".to_owned(),
            "SF0002 steadfast.toml:1:11: gateway.issuers: as.test: issuer is the url by which",
        ),
        (
            "[[gateway.issuers]]\nissuer = \"https://as.test\"\n[[gateway.issuers]]\nissuer = \"https://as.test\"".to_owned(),
            "SF0002 steadfast.toml:1:11: gateway.issuers: https://as.test is there more than once",
        ),
        (
            "[[gateway.issuers]]\nissuer = \"https://as.test\"\nclock_skw = \"1s\"".to_owned(),
            "SF0001 steadfast.toml:3:1: unknown key `gateway.issuers.clock_skw`; did you mean `clock_skew`?",
        ),
        (
            "[gateway]\nanonymous_agent = \"dev\"".to_owned(),
            "SF0002 steadfast.toml:2:1: gateway.anonymous_agent: there is no agent `dev`",
        ),
        (
            "[gateway]\nlisten = \"0.0.0.0:1\"\nanonymous_agent = \"dev\"\n[agents.dev]".to_owned(),
            "SF0002 steadfast.toml:3:1: gateway.anonymous_agent: whoever reaches 0.0.0.0:1 would be `dev`",
        ),
        (
            "[retry]\nmax = \"10ms\"".to_owned(),
            "SF0002 steadfast.toml:2:1: retry.max: is 10ms, less than retry.first, which is 1s",
        ),
        (
            "[retry]\nconcurrent_reconnects = 0".to_owned(),
            "SF0002 steadfast.toml:2:1: retry.concurrent_reconnects: must be at least 1",
        ),
        (
            "[store]\nurl = \"postgres://a/b\"".to_owned(),
            "SF0010 steadfast.toml:2:1: store.url: PostgreSQL is not built yet",
        ),
        (
            "[store]\nurl = \"steadfast.db\"".to_owned(),
            "SF0002 steadfast.toml:2:1: store.url: must be sqlite:FILE",
        ),
        (
            "[network]\nca_file = \"no.pem\"".to_owned(),
            "SF0003 steadfast.toml:2:1: network.ca_file: /etc/no.pem cannot be read",
        ),
    ] {
        let told = error(&text);
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn the_address_of_the_command_line_counts() {
    let text = "[gateway]\nanonymous_agent = \"dev\"\n[agents.dev]\n";
    let listen = |address: &str| parse("a.toml", text, Path::new("/"), address.parse().ok());
    assert!(listen("127.0.0.1:0").is_ok());
    assert!(listen("0.0.0.0:0").is_err());
}

#[test]
fn expressions_are_checked_when_the_file_is() {
    let tool = |lines: &str| {
        format!(
            "[servers.a]\nurl = \"https://a.test/\"\n[servers.a.tools.find]\neffect = \"read\"\n\
             [servers.a.tools.book]\n{lines}"
        )
    };
    let key = |argument: &str| {
        tool(&format!(
            "duplicate_key = {{ argument = \"{argument}\", retention = \"1h\" }}"
        ))
    };
    assert!(read(&key("$.key")).is_ok());
    assert!(
        error(&key("key")).contains("tools.book.duplicate_key.argument: `key` is not a JSONPath")
    );
    assert!(error(&key("$.keys[*]")).contains("may select several values"));

    let lookup = |tool_name: &str, accepted: &str| {
        tool(&format!(
            "[servers.a.tools.book.lookup]\ntool = \"{tool_name}\"\naccepted = \"{accepted}\"\n\
             arguments = {{ a = \"$.arguments.a\" }}\n"
        ))
    };
    assert!(read(&lookup("find", "$.a[?@.b == $a]")).is_ok());
    assert!(
        error(&lookup("other", "$.a"))
            .contains("lookup.tool: `other` must be declared with effect = \"read\"")
    );
    assert!(error(&lookup("find", "$.a[?")).contains("lookup.accepted: `$.a[?` is not a JSONPath"));
}

#[test]
fn several_errors_are_told_together() {
    let told = error("[agents.a]\nservers = [\"x\", \"y\"]");
    assert_eq!(told.lines().count(), 2, "{told}");
}

#[test]
fn settings_that_wait_for_a_restart_are_named() {
    let changed =
        read("[retry]\nfirst = \"2s\"\n[gateway]\nlisten = \"127.0.0.1:1\"\n[agents.a]").unwrap();
    assert_eq!(
        different_settings(&changed, &File::default()),
        ["gateway", "retry"]
    );
}

#[test]
fn a_renewal_that_could_never_work_is_refused() {
    for (text, named) in [
        (
            "[renewal]\nassumed_lifetime = \"0s\"",
            "renewal.assumed_lifetime: must be longer than zero",
        ),
        ("[renewal]\nwindow = \"0\"", "renewal.window"),
        ("[renewal]\ncheck_every = \"0ms\"", "renewal.check_every"),
        (
            "[renewal]\nretry_first = \"10m\"",
            "renewal.retry_max: is 5m, less than renewal.retry_first",
        ),
        (
            "[renewal]\nlease = \"500ms\"",
            "renewal.lease: must be at least 1s",
        ),
        (
            "[renewal]\nper_issuer_concurrency = 0",
            "renewal.per_issuer_concurrency: must be at least 1",
        ),
        (
            "[renewal]\nfresh_token_refusals = 0",
            "renewal.fresh_token_refusals",
        ),
        ("[renewal]\nrefused_after = 0", "renewal.refused_after"),
        (
            "[renewal]\nprobes = 1\nprobe_every = \"0s\"",
            "renewal.probe_every",
        ),
        (
            "[sign_in]\nattempt_lifetime = \"0s\"",
            "sign_in.attempt_lifetime",
        ),
    ] {
        let said = error(text);
        assert!(
            said.starts_with("SF0002 ") && said.contains(named),
            "{said}"
        );
    }
    // What is switched off by a zero.
    for text in [
        "probe_every = \"0s\"",
        "fresh_token_window = \"0s\"",
        "probes = 0",
    ] {
        assert!(read(&format!("[renewal]\n{text}")).is_ok(), "{text}");
    }
}
