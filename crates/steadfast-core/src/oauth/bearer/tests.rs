//! Tokens as issuers write them, one claim bent at a time.

use std::sync::LazyLock;

use serde_json::json;

use super::*;

const NOW: Wall = Wall(1_800_000_000_000);

static PUBLIC_URL: LazyLock<Url> = LazyLock::new(|| "https://gw.test".parse().unwrap());
static NO_AGENTS: BTreeMap<String, String> = BTreeMap::new();

fn accepted<'r>(claims: Value, change: impl FnOnce(&mut Rules<'r>)) -> Result<Access, Refusal> {
    let mut rules = Rules {
        issuer: "https://as.test",
        public_url: &PUBLIC_URL,
        audiences: &[],
        agent_claim: "client_id",
        agents: &NO_AGENTS,
        scopes: &[],
        clock_skew: Millis::secs(30),
        source: Source::AccessToken,
    };
    change(&mut rules);
    let Value::Object(claims) = claims else {
        panic!("claims are an object");
    };
    accept(&Claims(claims), &rules, NOW)
}

/// A good token, with some claims replaced; null takes one away.
fn claims(bent: Value) -> Value {
    let now = NOW.0 / 1_000;
    let mut claims = json!({
        "iss": "https://as.test", "sub": "s", "client_id": "support", "jti": "1",
        "aud": "https://gw.test/mcp", "iat": now, "exp": now + 60,
    });
    for (name, value) in bent.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

fn refused(bent: Value) -> Option<Refusal> {
    accepted(claims(bent), |_| {}).err()
}

#[test]
fn a_good_token_is_its_agents_for_what_it_is_for() {
    let access = accepted(claims(json!({})), |_| {}).unwrap();
    assert_eq!(access.agent, AgentName::from("support"));
    assert_eq!(access.expires_at, Some(Wall(NOW.0 + 90_000)));
    let resource = Resource::parse("https://gw.test/mcp/booking").unwrap();
    assert!(access.reach.covers(&resource));
}

#[test]
fn every_claim_of_an_access_token_is_needed() {
    for name in ["iss", "exp", "aud", "sub", "client_id", "iat", "jti"] {
        let mut bent = json!({});
        bent[name] = Value::Null;
        assert_eq!(refused(bent), Some(Refusal::Missing(name)));
    }
    let less = claims(json!({"sub": null, "jti": null, "iat": null}));
    assert!(accepted(less.clone(), |rules| rules.source = Source::OtherJwt).is_ok());
    let answer = json!({"active": true, "aud": "https://gw.test/mcp", "client_id": "support"});
    let told = accepted(answer, |rules| rules.source = Source::Introspection).unwrap();
    assert_eq!(told.expires_at, None);
    let nowhere = json!({"active": true, "client_id": "support"});
    let told = accepted(nowhere, |rules| rules.source = Source::Introspection);
    assert_eq!(told, Err(Refusal::Missing("aud")));
}

#[test]
fn times_are_kept_within_the_skew() {
    let now = NOW.0 / 1_000;
    for (bent, expected) in [
        (json!({"exp": now - 29}), None),
        (json!({"exp": now - 30}), Some(Refusal::Expired)),
        (json!({"exp": (now as f64) - 29.5}), None),
        (json!({"exp": 0}), Some(Refusal::Expired)),
        (json!({"exp": i64::MIN}), Some(Refusal::Malformed)),
        (json!({"exp": "soon"}), Some(Refusal::Malformed)),
        (json!({"nbf": now + 30}), None),
        (json!({"nbf": now + 31}), Some(Refusal::TooEarly)),
        (json!({"iat": now + 31}), Some(Refusal::TooEarly)),
        (json!({"iat": now - 900_000}), None),
    ] {
        assert_eq!(refused(bent.clone()), expected, "{bent}");
    }
}

#[test]
fn another_issuer_is_refused_to_the_letter() {
    for issuer in [
        "https://as.test/",
        "https://AS.test",
        "https://evil.test",
        "",
    ] {
        assert_eq!(refused(json!({"iss": issuer})), Some(Refusal::Issuer));
    }
    assert_eq!(refused(json!({"iss": 1})), Some(Refusal::Issuer));
}

#[test]
fn only_our_own_resources_count() {
    for (aud, ours) in [
        (json!("https://gw.test/mcp"), 1),
        (json!("https://gw.test/mcp/"), 1),
        (json!("https://gw.test/mcp/a"), 1),
        (json!("https://gw.test/mcp/a/tools/b%2Fc"), 1),
        (json!(["https://gw.test/mcp/a", "https://other.test"]), 1),
        (
            json!(["https://gw.test/mcp/a", "https://gw.test/mcp/b", 3]),
            2,
        ),
        (json!("https://gw.test"), 0),
        (json!("https://gw.test/"), 0),
        (json!("https://gw.test/mcpx"), 0),
        (json!("https://gw.test/mcp/a/b"), 0),
        (json!("https://gw.test/mcp/a/tools"), 0),
        (json!("https://gw.test/mcp/a/tools/b/c"), 0),
        (json!("https://gw.test/mcp?x"), 0),
        (json!("http://gw.test/mcp"), 0),
        (json!("https://evil.test/mcp"), 0),
        (json!("support"), 0),
        (json!([]), 0),
        (json!({}), 0),
    ] {
        let found = accepted(claims(json!({ "aud": aud })), |_| {});
        let count = found.as_ref().map(|access| match &access.reach {
            Reach::Only(audiences) => audiences.iter().count(),
            Reach::All => usize::MAX,
        });
        let expected = if ours == 0 {
            Err(&Refusal::Audience)
        } else {
            Ok(ours)
        };
        assert_eq!(count, expected, "{aud}");
    }
    let names = ["api://steadfast".to_owned()];
    let found = accepted(claims(json!({"aud": "api://steadfast"})), |rules| {
        rules.audiences = &names;
    });
    let everything = Resource::parse("https://gw.test/mcp").unwrap();
    assert!(found.unwrap().reach.covers(&everything));
}

#[test]
fn the_claim_means_one_agent_or_none() {
    let table = BTreeMap::from([
        ("42".to_owned(), "support".to_owned()),
        ("43".to_owned(), "support".to_owned()),
        ("44".to_owned(), "sales".to_owned()),
    ]);
    for (groups, expected) in [
        (json!("42"), Some("support")),
        (json!(["42", "43", "other"]), Some("support")),
        (json!(["42", "44"]), None),
        (json!("support"), None),
        (json!(42), None),
        (json!([]), None),
    ] {
        let found = accepted(claims(json!({ "groups": groups })), |rules| {
            (rules.agent_claim, rules.agents) = ("groups", &table);
        });
        let found = found.map(|access| access.agent);
        let expected = expected.map(AgentName::from).ok_or(Refusal::NoAgent);
        assert_eq!(found, expected, "{groups}");
    }
    assert_eq!(
        accepted(claims(json!({"sub": "sales"})), |rules| rules.agent_claim =
            "sub")
        .map(|access| access.agent),
        Ok(AgentName::from("sales"))
    );
}

#[test]
fn scopes_that_are_lacking_are_named() {
    let scopes = ["mcp".to_owned(), "tools".to_owned()];
    for (scope, lacking) in [
        (json!("mcp tools other"), &[][..]),
        (json!(["mcp", "tools"]), &[]),
        (json!("mcptools"), &["mcp", "tools"]),
        (json!("tools"), &["mcp"]),
        (Value::Null, &["mcp", "tools"]),
    ] {
        let found = accepted(claims(json!({ "scope": scope })), |rules| {
            rules.scopes = &scopes;
        });
        let expected = lacking.iter().map(|it| (*it).to_owned()).collect();
        let expected = (!lacking.is_empty()).then_some(Refusal::Scopes(expected));
        assert_eq!(found.err(), expected, "{scope}");
    }
}
