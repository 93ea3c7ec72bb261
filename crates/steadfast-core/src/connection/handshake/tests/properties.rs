//! Any sequence of replies.

use proptest::prelude::*;

use super::*;

fn any_given() -> impl Strategy<Value = Given> {
    let status = prop::sample::select(vec![
        200, 202, 302, 400, 401, 403, 404, 405, 406, 408, 422, 425, 429, 500, 501, 502, 503, 504,
        522,
    ]);
    let code = prop::sample::select(vec![
        -32000, -32001, -32020, -32021, -32022, -32600, -32601, -32602, -32603,
    ]);
    let text = prop::sample::select(vec![
        "",
        "MCP-Protocol-Version header required",
        "Header mismatch",
        "Session not found",
        "Unsupported protocol version (supported versions: 2025-06-18, 2024-11-05)",
    ]);
    let versions = prop::sample::select(vec![
        r#""2026-07-28""#,
        r#""2025-06-18","2025-11-25""#,
        r#""2026-07-28","2025-03-26""#,
        r#""2030-01-01""#,
        "",
    ]);
    prop_oneof![
        3 => (status.clone(), code, text.clone(), any::<bool>()).prop_map(|(status, code, text, id)| {
            if id { error(status, code, text) } else { unread(status, code, text) }
        }),
        2 => (status.clone(), versions.clone()).prop_map(|(status, list)| unsupported(status, list)),
        1 => versions.prop_map(discovered),
        1 => prop::sample::select(vec!["2025-11-25", "2024-11-05", "2026-07-28", "x"]).prop_map(initialized),
        3 => (status, prop_oneof![Just("<title>x</title>".to_owned()), Just(String::new()), text.prop_map(str::to_owned), ".{0,40}"])
            .prop_map(|(status, body)| http(status, &body)),
        1 => any::<bool>().prop_map(Endpoint),
        1 => Just(Given::Fault(Fault::new(Kind::Network, "reset"))),
        1 => Just(Challenge(401, "Bearer")),
    ]
}

fn any_known() -> impl Strategy<Value = Option<Known>> {
    prop::option::of((any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(modern, sse, header)| Known {
            transport: if sse && !modern {
                Transport::HttpSse
            } else {
                Transport::StreamableHttp
            },
            initialize_header: header,
            ..if modern {
                known(Era::Modern, R::V2026_07_28)
            } else {
                known(Era::Legacy, R::V2025_06_18)
            }
        },
    ))
}

fn any_offer() -> impl Strategy<Value = Offer> {
    prop::sample::select(vec![
        Offer::default(),
        Offer::Either {
            legacy: R::V2024_11_05,
        },
        Offer::LegacyOnly {
            legacy: R::V2025_11_25,
        },
        Offer::ModernOnly,
    ])
}

/// Whether no `initialize` may follow: nothing is known of the era, or the server is modern and named
/// no legacy revision.
fn forbids_initialize(given: &Given) -> bool {
    match given {
        Given::Http(401, _, body) => !body.to_ascii_lowercase().contains("session"),
        Given::Http(302 | 403 | 408 | 425 | 429 | 502 | 503 | 504 | 522, _, _) => true,
        Given::Http(_, _, body) => body.contains("-32022") && !body.contains("2025-"),
        Given::Challenge(..) | Given::Fault(_) => true,
        Given::Endpoint(_) => false,
    }
}

proptest! {
    #[test]
    fn every_attempt_ends_within_the_limit_and_never_initializes_on_a_guess(
        known in any_known(),
        offer in any_offer(),
        script in prop::collection::vec(any_given(), 5),
    ) {
        let (mut state, first) = begin(known.as_ref(), offer);
        let mut asked = vec![first];
        let mut ended = false;
        for given in &script {
            let (after, what) = give(state, given);
            state = after;
            match what {
                Next::Ask(ask) => {
                    if matches!(ask, Ask::Initialize { .. }) {
                        prop_assert!(!forbids_initialize(given), "{ask:?} after {given:?}");
                        prop_assert!(offer != Offer::ModernOnly);
                    }
                    prop_assert!(ask != ENDPOINT || known.is_none());
                    asked.push(ask);
                }
                Next::Open(opened) => {
                    prop_assert_eq!(opened.era, opened.revision.era());
                    ended = true;
                }
                Next::Fail(fault) => {
                    prop_assert!(!fault.message.is_empty());
                    ended = true;
                }
            }
            if ended {
                break;
            }
        }
        prop_assert!(ended, "still asking after {asked:?}");
        prop_assert!(asked.len() <= usize::from(MOST_QUESTIONS));
    }
}
