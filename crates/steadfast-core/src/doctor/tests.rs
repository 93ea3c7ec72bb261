//! Each verdict, and what comes before what.

use super::*;
use crate::fault::Kind;
use crate::grant::{Recheck, State as Grant, Strikes, Tokens};
use crate::identity::GrantGeneration;
use crate::now::{Millis, Mono};

const NOW: Wall = Wall(10_000_000);

fn findings() -> Findings {
    let subject = Subject::Connection("dev".into(), "fake".into());
    Findings::new(subject, NOW, Policy::default())
}

fn fault(kind: Kind) -> Fault {
    Fault::new(kind, format!("what was seen of {}", kind.as_str()))
}

/// Issued an hour ago and good for another one.
fn tokens() -> Tokens {
    Tokens {
        generation: GrantGeneration(3),
        issued_at: Wall(NOW.0 - 3_600_000),
        expires_at: Wall(NOW.0 + 3_600_000),
        renewable: true,
        scopes: Vec::new(),
    }
}

fn valid(tokens: Tokens) -> Grant {
    Grant::Valid {
        renew_at: tokens.expires_at,
        tokens,
        strikes: Strikes::default(),
    }
}

fn refused(tokens: Tokens, kind: Kind) -> Grant {
    Grant::Refused {
        tokens,
        fault: fault(kind),
        at: NOW,
        recheck: Recheck::Never,
        ended: false,
        strikes: Strikes::default(),
    }
}

/// A protected server that takes a good grant.
fn healthy() -> Findings {
    Findings {
        question: Some(Err(fault(Kind::SignInRequired))),
        grant: valid(tokens()),
        token: Some(Ok(())),
        session: Some(Ok(())),
        connection: Some(connection::State::Connected {
            generation: crate::Generation(1),
            since: Mono(0),
            tries: 0,
            health_due: None,
            asked: None,
        }),
        ..findings()
    }
}

/// Its name, where it was seen, and who must act.
fn seen(findings: &Findings) -> (&'static str, Check, Who) {
    let diagnosis = diagnose(findings).expect("a fault");
    assert!(diagnosis.what.ends_with(['.', ';']), "{diagnosis:?}");
    (diagnosis.code.name, diagnosis.at, diagnosis.who)
}

#[test]
fn nothing_is_wrong_where_nothing_is() {
    assert_eq!(diagnose(&healthy()), None);
    let open = Findings {
        question: Some(Ok(())),
        ..findings()
    };
    assert_eq!(diagnose(&open), None, "no sign-in, no grant");
    let own = Findings {
        own_credential: true,
        grant: Grant::None,
        ..healthy()
    };
    assert_eq!(diagnose(&own), None, "a credential of its own");
}

#[test]
fn what_is_switched_off_is_not_looked_into() {
    let off = Findings {
        disabled: true,
        reach: Some((Check::Connect, fault(Kind::Network))),
        ..healthy()
    };
    assert_eq!(
        seen(&off),
        ("server_disabled", Check::Configuration, Who::Operator)
    );
    assert!(diagnose(&off).unwrap().person_needed());
}

#[test]
fn a_configuration_that_cannot_work_comes_first() {
    for (kind, name) in [
        (Kind::VaultReference, "vault_reference"),
        (Kind::Misconfigured, "config_bad_value"),
    ] {
        let found = Findings {
            configuration: Some(fault(kind)),
            grant: refused(tokens(), Kind::GrantRefused),
            ..findings()
        };
        assert_eq!(seen(&found), (name, Check::Configuration, Who::Operator));
    }
}

#[test]
fn what_cannot_be_reached_says_nothing_of_its_grant() {
    for (at, kind, who) in [
        (Check::Name, Kind::Network, Who::Nobody),
        (Check::Connect, Kind::Timeout, Who::Nobody),
        (Check::Tls, Kind::Tls, Who::Provider),
    ] {
        let found = Findings {
            reach: Some((at, fault(kind))),
            grant: refused(tokens(), Kind::GrantRefused),
            ..findings()
        };
        assert_eq!(seen(&found), (kind.as_str(), at, who));
    }
    let unknown = Fault::new(Kind::Tls, "invalid peer certificate: UnknownIssuer");
    let found = Findings {
        reach: Some((Check::Tls, unknown)),
        ..findings()
    };
    assert_eq!(seen(&found), ("tls", Check::Tls, Who::Operator));
}

#[test]
fn an_answer_that_is_none_counts_unless_the_credential_is_taken() {
    for (kind, who) in [
        (Kind::ServerError, Who::Nobody),
        (Kind::RateLimited, Who::Nobody),
        (Kind::Timeout, Who::Nobody),
        (Kind::NotAnMcpAnswer, Who::Operator),
        (Kind::ProtocolMismatch, Who::Operator),
        (Kind::Redirected, Who::Operator),
        (Kind::Forbidden, Who::Operator),
    ] {
        let mut found = findings();
        found.question = Some(Err(fault(kind)));
        assert_eq!(seen(&found), (kind.as_str(), Check::Question, who));
        found.grant = valid(tokens());
        found.token = Some(Err(fault(kind)));
        assert_eq!(seen(&found), (kind.as_str(), Check::Question, who));
        found.token = Some(Ok(()));
        assert_eq!(diagnose(&found), None, "{kind:?}");
        found.token = Some(Err(fault(Kind::ScopeInsufficient)));
        let expected = ("scope_insufficient", Check::Token, Who::Person);
        assert_eq!(seen(&found), expected, "what the credential gets counts");
    }
}

#[test]
fn a_grant_that_was_refused_needs_a_person() {
    for kind in [
        Kind::GrantRefused,
        Kind::SignInRequired,
        Kind::FreshTokenRefused,
    ] {
        let found = Findings {
            grant: refused(tokens(), kind),
            ..healthy()
        };
        assert_eq!(seen(&found), (kind.as_str(), Check::Grant, Who::Person));
        let what = diagnose(&found).unwrap().what;
        assert!(what.contains("`steadfast sign-in dev fake`"), "{what}");
    }
    let blocked = Findings {
        grant: refused(tokens(), Kind::GrantRefused),
        sign_in: Some((Check::SignIn, fault(Kind::ProtocolMismatch))),
        ..healthy()
    };
    let diagnosis = diagnose(&blocked).unwrap();
    assert_eq!(diagnosis.code.name, "grant_refused");
    assert!(
        diagnosis.what.contains("what was seen of protocol"),
        "{diagnosis:?}"
    );
}

#[test]
fn without_a_grant_a_person_signs_in_unless_nobody_can() {
    let mut found = Findings {
        grant: Grant::None,
        token: None,
        ..healthy()
    };
    assert_eq!(
        seen(&found),
        ("sign_in_required", Check::Question, Who::Person)
    );
    found.token_endpoint = Some(fault(Kind::TokenEndpointMoved));
    assert_eq!(
        seen(&found),
        ("token_endpoint_moved", Check::TokenEndpoint, Who::Provider)
    );
    for (at, kind, who) in [
        (
            Check::ResourceMetadata,
            Kind::ProtocolMismatch,
            Who::Provider,
        ),
        (Check::IssuerMetadata, Kind::ProtocolMismatch, Who::Provider),
        (Check::IssuerMetadata, Kind::ServerError, Who::Provider),
        (Check::IssuerMetadata, Kind::Misconfigured, Who::Operator),
        (Check::SignIn, Kind::ProtocolMismatch, Who::Provider),
        (Check::Registration, Kind::Misconfigured, Who::Operator),
    ] {
        found.sign_in = Some((at, fault(kind)));
        assert_eq!(seen(&found), (kind.code().name, at, who));
        let diagnosis = diagnose(&found).unwrap();
        let is_quoted = kind == Kind::ProtocolMismatch;
        assert_eq!(diagnosis.quote.is_some(), is_quoted, "{diagnosis:?}");
        found.subject = Subject::Address;
        assert_eq!(seen(&found).2, who, "the same for an address");
        found.subject = findings().subject;
    }
}

#[test]
fn nobody_signs_in_for_a_client_that_asks_for_itself() {
    let mut found = Findings {
        for_itself: true,
        grant: Grant::None,
        token: None,
        ..healthy()
    };
    assert_eq!(
        seen(&found),
        ("renewal_delayed", Check::Question, Who::Nobody)
    );
    for kind in [Kind::ClientRefused, Kind::GrantRefused] {
        found.grant = refused(tokens(), kind);
        assert_eq!(seen(&found), (kind.as_str(), Check::Grant, Who::Operator));
    }
}

#[test]
fn a_token_that_the_server_refuses_is_judged_by_its_age() {
    let mut found = Findings {
        token: Some(Err(fault(Kind::SignInRequired))),
        ..healthy()
    };
    assert_eq!(seen(&found), ("renewal_delayed", Check::Token, Who::Nobody));
    let fresh = Tokens {
        issued_at: Wall(NOW.0 - 59_000),
        ..tokens()
    };
    found.grant = valid(fresh);
    assert_eq!(
        seen(&found),
        ("fresh_token_refused", Check::Token, Who::Person)
    );
    assert!(diagnose(&found).unwrap().quote.is_some());
    found.grant = Grant::Unrenewable {
        tokens: Tokens {
            renewable: false,
            ..tokens()
        },
    };
    assert_eq!(
        seen(&found),
        ("sign_in_required", Check::Token, Who::Person)
    );
    found.issuer_changed = Some(fault(Kind::IssuerChanged));
    assert_eq!(
        seen(&found),
        ("issuer_changed", Check::IssuerMetadata, Who::Person)
    );
    found.own_credential = true;
    assert_eq!(
        seen(&found),
        ("sign_in_required", Check::Token, Who::Operator)
    );
}

#[test]
fn a_renewal_that_waits_is_nobodys_business_until_its_endpoint_is_gone() {
    let delayed = |kind| Grant::Delayed {
        tokens: tokens(),
        fault: fault(kind),
        due: Mono(5),
        strikes: Strikes::default(),
    };
    let mut found = Findings {
        grant: delayed(Kind::RenewalOutcomeLost),
        ..healthy()
    };
    assert_eq!(
        seen(&found),
        ("renewal_outcome_lost", Check::Grant, Who::Nobody)
    );
    found.grant = delayed(Kind::TokenEndpointMoved);
    found.token_endpoint = Some(fault(Kind::TokenEndpointMoved));
    assert_eq!(
        seen(&found),
        ("token_endpoint_moved", Check::TokenEndpoint, Who::Provider)
    );
    found.endpoint_elsewhere = true;
    assert_eq!(
        seen(&found),
        ("token_endpoint_moved", Check::Grant, Who::Nobody)
    );
    let over = Tokens {
        expires_at: Wall(NOW.0 - 1),
        ..tokens()
    };
    let found = Findings {
        grant: valid(over),
        token: None,
        ..healthy()
    };
    assert_eq!(seen(&found), ("renewal_delayed", Check::Grant, Who::Nobody));
}

#[test]
fn an_endpoint_that_will_be_missed_is_named_before_it_is_missed() {
    let mut found = Findings {
        token_endpoint: Some(fault(Kind::TokenEndpointMoved)),
        ..healthy()
    };
    assert_eq!(
        seen(&found),
        ("token_endpoint_moved", Check::TokenEndpoint, Who::Provider)
    );
    found.endpoint_elsewhere = true;
    assert_eq!(diagnose(&found), None, "the next renewal finds it");
    found.endpoint_elsewhere = false;
    found.token_endpoint = Some(fault(Kind::RenewalDelayed));
    assert_eq!(
        seen(&found),
        ("renewal_delayed", Check::TokenEndpoint, Who::Nobody)
    );
    found.token_endpoint = Some(fault(Kind::SignInRequired));
    assert_eq!(
        seen(&found),
        ("sign_in_required", Check::TokenEndpoint, Who::Person)
    );
}

#[test]
fn a_grant_without_a_refresh_token_is_said_before_it_ends() {
    let tokens = Tokens {
        renewable: false,
        ..tokens()
    };
    let mut found = Findings {
        grant: Grant::Unrenewable {
            tokens: tokens.clone(),
        },
        ..healthy()
    };
    assert_eq!(seen(&found), ("unrenewable", Check::Grant, Who::Person));
    found.grant = Grant::Unrenewable {
        tokens: Tokens {
            expires_at: NOW,
            ..tokens
        },
    };
    found.token = None;
    assert_eq!(
        seen(&found),
        ("sign_in_required", Check::Grant, Who::Person)
    );
}

#[test]
fn calls_that_want_more_than_is_granted_need_a_person() {
    let found = Findings {
        scope: Some(fault(Kind::ScopeInsufficient)),
        ..healthy()
    };
    assert_eq!(
        seen(&found),
        ("scope_insufficient", Check::Grant, Who::Person)
    );
}

#[test]
fn a_connection_that_is_down_although_all_is_well_says_why() {
    let found = Findings {
        connection: Some(connection::State::Retrying {
            fault: fault(Kind::Network),
            tries: 3,
            due: Mono(5),
            held: false,
        }),
        ..healthy()
    };
    assert_eq!(seen(&found), ("network", Check::Connection, Who::Nobody));
    let found = Findings {
        session: Some(Err(fault(Kind::SessionLost))),
        ..healthy()
    };
    assert_eq!(seen(&found), ("session_lost", Check::Session, Who::Nobody));
}

#[test]
fn nobody_waits_for_an_address_to_come_back() {
    for kind in [Kind::Network, Kind::ServerError, Kind::RateLimited] {
        let found = Findings {
            subject: Subject::Address,
            question: Some(Err(fault(kind))),
            ..findings()
        };
        assert_ne!(seen(&found).2, Who::Nobody, "{kind:?}");
    }
    let found = Findings {
        subject: Subject::Address,
        question: Some(Err(fault(Kind::SignInRequired))),
        ..findings()
    };
    assert_eq!(
        seen(&found),
        ("sign_in_required", Check::Question, Who::Person)
    );
}

#[test]
fn a_sleep_in_which_the_token_ended_takes_the_blame() {
    let ended = Tokens {
        expires_at: Wall(NOW.0 - 1_000),
        ..tokens()
    };
    let mut found = Findings {
        grant: refused(ended, Kind::GrantRefused),
        ..healthy()
    };
    for (to, is_blamed) in [(NOW.0 - 500, true), (NOW.0 - 1_001, false)] {
        found.slept = Some(Slept {
            from: Wall(NOW.0 - 5_000_000),
            to: Wall(to),
            length: Millis::mins(80),
        });
        assert_eq!(diagnose(&found).unwrap().overslept, is_blamed);
    }
    found.slept = None;
    assert!(!diagnose(&found).unwrap().overslept);
}
