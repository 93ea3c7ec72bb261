//! How token endpoints really say "this grant is dead", "I do not know you", "not now" and "not here".
//! A status decides nothing alone: block pages answer 401 and 403, and refusals come with 200
//! (architecture, grants 5; TE-01 to TE-05).

use super::excerpt::{sanitise, title};
use super::{Media, body, is_temporary};
use crate::fault::{Fault, Kind};
use crate::grant::Failure;
use crate::now::Millis;
use crate::wire::token::{self, Issued, Said};

/// One HTTP answer of a token endpoint.
#[derive(Clone, Copy, Debug)]
pub struct TokenAnswer<'a> {
    /// The status.
    pub status: u16,
    /// What the body claims to be.
    pub media: Media,
    /// The body; at most its first 64 KiB. Whoever sent secrets masks them in what is said of it.
    pub body: &'a [u8],
    /// The `Retry-After` header, already turned into a delay.
    pub retry_after: Option<Millis>,
}

/// What an error code is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// The refresh token.
    Grant,
    /// The registration, or its secret.
    Client,
    /// Nothing that lasts.
    Moment,
}

/// Error codes with a meaning of their own, each with where it comes from. All others are structured
/// refusals that count only when they repeat.
const CODES: [(&str, About); 16] = [
    // RFC 6749 section 5.2.
    ("invalid_grant", About::Grant),
    ("invalid_client", About::Client),
    // RFC 6749 section 4.1.2.1, sent by token endpoints as well.
    ("server_error", About::Moment),
    ("temporarily_unavailable", About::Moment),
    // RFC 8628 section 3.5.
    ("slow_down", About::Moment),
    // Slack, with status 200.
    ("invalid_refresh_token", About::Grant),
    ("token_revoked", About::Grant),
    ("token_expired", About::Grant),
    ("bad_client_secret", About::Client),
    ("ratelimited", About::Moment),
    ("internal_error", About::Moment),
    ("service_unavailable", About::Moment),
    // GitHub, with status 200.
    ("bad_refresh_token", About::Grant),
    ("incorrect_client_credentials", About::Client),
    // Seen at gateways in front of token endpoints.
    ("rate_limit_exceeded", About::Moment),
    ("too_many_requests", About::Moment),
];

/// Reads the answer to a renewal, or to the exchange of a code. `dead_codes` are further codes with which this provider
/// means that the grant is dead.
///
/// # Errors
///
/// How it failed, for the grant.
pub fn token_answer(answer: &TokenAnswer<'_>, dead_codes: &[String]) -> Result<Issued, Failure> {
    let said = token::read(answer.body);
    // RFC 6749 section 5.2 wants 400 for a refusal: these three say that nobody read the request.
    if matches!(answer.status, 404 | 405 | 410) {
        let message = format!("the token endpoint answers {}", answer.status);
        return Err(Failure::Moved(Fault::new(
            Kind::TokenEndpointMoved,
            message,
        )));
    }
    match said {
        Said::Issued(issued) if (200..300).contains(&answer.status) => Ok(issued),
        Said::Error { code, .. } if !is_temporary(answer.status) => {
            Err(refusal(answer, &code, dead_codes))
        }
        Said::Nothing if (200..300).contains(&answer.status) => {
            let message = format!("the provider's answer cannot be read ({})", excerpt(answer));
            let fault = Fault::new(Kind::RenewalOutcomeLost, message);
            Err(Failure::OutcomeLost(fault.after(answer.retry_after)))
        }
        Said::Issued(_) | Said::Error { .. } | Said::Nothing => Err(not_now(answer)),
    }
}

fn refusal(answer: &TokenAnswer<'_>, code: &str, dead_codes: &[String]) -> Failure {
    let is_dead = dead_codes.iter().any(|dead| dead == code);
    let known = CODES.iter().find(|(known, _)| *known == code);
    let about = if is_dead {
        Some(About::Grant)
    } else {
        known.map(|(_, about)| *about)
    };
    let name = error_code(code);
    match about {
        Some(About::Grant) => {
            let message = format!("the provider refuses the grant: {name}");
            Failure::Grant(Fault::new(Kind::GrantRefused, message))
        }
        Some(About::Client) => {
            let message = format!("the provider does not know this client any more: {name}");
            Failure::Client(Fault::new(Kind::SignInRequired, message))
        }
        Some(About::Moment) => {
            let message = format!("the provider asks to wait: {name}");
            let fault = Fault::new(Kind::RenewalDelayed, message);
            Failure::Temporary(fault.after(answer.retry_after))
        }
        None => {
            let message = format!("the provider refuses the renewal: {name}");
            let fault = Fault::new(Kind::GrantRefused, message);
            Failure::Structured(fault.after(answer.retry_after))
        }
    }
}

/// A status that time mends, a block page, a redirect that is never followed with a token.
fn not_now(answer: &TokenAnswer<'_>) -> Failure {
    let message = format!(
        "the token endpoint answers {} ({})",
        answer.status,
        excerpt(answer)
    );
    Failure::Temporary(Fault::new(Kind::RenewalDelayed, message).after(answer.retry_after))
}

fn excerpt(answer: &TokenAnswer<'_>) -> String {
    let text = body::text(answer.body);
    // Half an answer, or one with a wrong status, still holds tokens that are good (SEC-01).
    if text.contains("_token\"") || text.contains("_token=") {
        return "a body with tokens in it".to_owned();
    }
    match answer.media {
        Media::Html => title(&text).map_or_else(
            || "html without a title".to_owned(),
            |title| format!("html, title \"{title}\""),
        ),
        Media::Json | Media::EventStream | Media::Other | Media::None => {
            let line = sanitise(&text);
            if line.is_empty() {
                "no body".to_owned()
            } else {
                line
            }
        }
    }
}

/// An error code as RFC 6749 section 5.2 allows it; anything else is not repeated.
#[must_use]
pub fn error_code(code: &str) -> &str {
    let is_code = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if code.len() <= 64 && code.bytes().all(is_code) {
        code
    } else {
        "an error that is no code"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, media: Media, body: &str) -> Result<Issued, Failure> {
        let answer = TokenAnswer {
            status,
            media,
            body: body.as_bytes(),
            retry_after: Some(Millis::secs(3)),
        };
        token_answer(&answer, &["grant_is_gone".to_owned()])
    }

    fn json(status: u16, body: &str) -> Failure {
        answer(status, Media::Json, body).unwrap_err()
    }

    #[test]
    fn te_03_only_a_structured_refusal_is_one() {
        for (status, media, body) in [
            (403, Media::Html, "<html><title>Blocked</title>"),
            (401, Media::Html, "<html>"),
            (400, Media::Json, r#"{"message":"blocked"}"#),
            (302, Media::None, ""),
            (500, Media::Html, "<h1>oops</h1>"),
            (503, Media::Json, r#"{"error":"invalid_grant"}"#),
            (429, Media::Json, r#"{"error":"invalid_grant"}"#),
            (408, Media::None, ""),
            (425, Media::None, ""),
        ] {
            let failure = answer(status, media, body).unwrap_err();
            let Failure::Temporary(fault) = failure else {
                panic!("{status} {body}: {failure:?}");
            };
            assert_eq!(fault.retry_after, Some(Millis::secs(3)), "{status}");
        }
        assert!(matches!(
            json(400, r#"{"error":"invalid_grant"}"#),
            Failure::Grant(_)
        ));
    }

    #[test]
    fn an_address_without_a_token_endpoint_is_one_whatever_its_page_says() {
        for status in [404, 405, 410] {
            for body in [
                "",
                "<html>",
                r#"{"error":"not_found"}"#,
                r#"{"error":"invalid_grant"}"#,
            ] {
                assert!(
                    matches!(json(status, body), Failure::Moved(_)),
                    "{status} {body}"
                );
            }
        }
    }

    #[test]
    fn te_05_errors_with_status_200_mean_what_they_say() {
        let ok = |error: &str| json(200, &format!(r#"{{"ok":false,"error":"{error}"}}"#));
        for dead in [
            "invalid_refresh_token",
            "bad_refresh_token",
            "grant_is_gone",
        ] {
            assert!(matches!(ok(dead), Failure::Grant(fault) if fault.message.contains(dead)));
        }
        assert!(matches!(ok("ratelimited"), Failure::Temporary(_)));
        assert!(matches!(ok("bad_client_secret"), Failure::Client(_)));
        assert!(matches!(ok("unheard_of"), Failure::Structured(_)));
    }

    #[test]
    fn cr_01_both_statuses_of_an_unknown_client() {
        for status in [400, 401] {
            assert!(matches!(
                json(status, r#"{"error":"invalid_client"}"#),
                Failure::Client(_)
            ));
        }
    }

    #[test]
    fn half_an_answer_may_have_spent_the_token() {
        let half = json(200, r#"{"access_token":"AT2","#);
        assert!(matches!(half, Failure::OutcomeLost(_)));
    }

    #[test]
    fn sec_01_tokens_in_an_answer_that_is_not_taken_are_not_repeated() {
        let half = r#"{"refresh_token":"abcdefghijkl","access_token":"mnopq"#;
        for failure in [
            json(200, half),
            json(503, half),
            json(503, &format!("{half}\"}}")),
        ] {
            let said = &failure.fault().message;
            assert!(
                !said.contains("abcdefgh") && said.contains("tokens"),
                "{said}"
            );
        }
        let form = json(502, "access_token=abcdefghijkl");
        assert!(!form.fault().message.contains("abcdefgh"));
    }

    #[test]
    fn sec_01_what_the_provider_wrote_is_not_repeated_as_it_is() {
        let code = format!("{{\"error\":\"bad {}\"}}", "s3cr3t".repeat(30));
        let Failure::Structured(fault) = json(400, &code) else {
            panic!();
        };
        assert!(!fault.message.contains("s3cr3t"));
    }
}
