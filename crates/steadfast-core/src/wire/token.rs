//! The answer of a token endpoint: JSON as RFC 6749 section 5 wants it, or form-encoded as some providers send
//! it whatever they were asked for (TE-06). Only what is there is taken; nothing is made up for what is not.

use std::fmt;

use serde_json::Value;

/// A token that was issued (RFC 6749 section 5.1).
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The access token.
    pub access_token: String,
    /// The refresh token; `None` where the answer omits it, or holds an empty one: the old one stays (RT-01).
    pub refresh_token: Option<String>,
    /// The lifetime in seconds, as it is written.
    pub expires_in: Option<i64>,
    /// The scopes; `None` where the answer omits them: the old ones stay.
    pub scope: Option<Vec<String>>,
    /// The token type, as it is written.
    pub token_type: Option<String>,
    /// What a token exchange issued (RFC 8693 section 2.2.1).
    pub issued_token_type: Option<String>,
}

/// Types of tokens that are good for nothing without something else: bound to a key (RFC 9449 section 5, and the drafts
/// before it), or no access token at all (RFC 8693 section 2.2.1).
const NOT_BEARER: [&str; 4] = ["DPoP", "PoP", "mac", "N_A"];

impl Issued {
    /// Whether the token can be sent as it is. A type that is not understood must not be used (RFC 6749 section 7.1); the
    /// names that providers make up for bearer tokens (`user`, `bot`) say nothing.
    #[must_use]
    pub fn is_bearer(&self) -> bool {
        let named = self.token_type.as_deref().unwrap_or_default();
        !NOT_BEARER.iter().any(|it| named.eq_ignore_ascii_case(it))
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued")
            .field("refresh_token", &self.refresh_token.as_ref().map(|_| "…"))
            .field("expires_in", &self.expires_in)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// What a body says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A token.
    Issued(Issued),
    /// An error code (RFC 6749 section 5.2), whatever the status was (TE-05).
    Error {
        /// `error`.
        code: String,
        /// `error_description`. The provider's words, which may quote secrets.
        description: Option<String>,
    },
    /// Neither.
    Nothing,
}

/// Reads a body. Its label is not trusted: form bodies come as text/plain, too.
#[must_use]
pub fn read(body: &[u8]) -> Said {
    let Ok(text) = std::str::from_utf8(body) else {
        return Said::Nothing;
    };
    let text = text.trim();
    if text.starts_with('{') {
        return match serde_json::from_str(text) {
            Ok(Value::Object(members)) => of(|key| members.get(key).cloned()),
            Ok(_) | Err(_) => Said::Nothing,
        };
    }
    let is_form = !text.is_empty() && !text.contains(['<', '\n', '\r']) && text.contains('=');
    if !is_form {
        return Said::Nothing;
    }
    let fields: Vec<(String, String)> = text
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect();
    of(|key| {
        let found = fields.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| Value::String(value.clone()))
    })
}

fn of(member: impl Fn(&str) -> Option<Value>) -> Said {
    let text = |key: &str| match member(key)? {
        Value::String(text) if !text.trim().is_empty() => Some(text),
        Value::String(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => None,
    };
    // An error beside a token is an error: what was refused must not be stored.
    if let Some(code) = text("error") {
        return Said::Error {
            code,
            description: text("error_description"),
        };
    }
    let Some(access_token) = text("access_token") else {
        return Said::Nothing;
    };
    Said::Issued(Issued {
        access_token,
        refresh_token: text("refresh_token"),
        expires_in: member("expires_in").as_ref().and_then(seconds),
        scope: text("scope").map(|scope| scopes(&scope)),
        token_type: text("token_type"),
        issued_token_type: text("issued_token_type"),
    })
}

/// A number of seconds: some providers write it as a string, or with a fraction.
fn seconds(value: &Value) -> Option<i64> {
    let number = match value {
        Value::Number(number) => number
            .as_i64()
            .map(|whole| whole as f64)
            .or(number.as_f64()),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }?;
    // The cast saturates, and makes nothing of what is no number.
    number.is_finite().then_some(number as i64)
}

/// The scopes of a `scope` value: separated by spaces (RFC 6749 section 3.3), or by commas as some write them.
#[must_use]
pub fn scopes(value: &str) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in value.split([' ', ',']).filter(|scope| !scope.is_empty()) {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// application/x-www-form-urlencoded, decoded.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut ahead = rest.clone();
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                match (digit(ahead.next()), digit(ahead.next())) {
                    (Some(high), Some(low)) => {
                        bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                        rest = ahead;
                    }
                    (Some(_) | None, _) => bytes.push(b'%'),
                }
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issued(body: &str) -> Issued {
        match read(body.as_bytes()) {
            Said::Issued(issued) => issued,
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn what_is_omitted_empty_or_null_is_not_there() {
        for body in [
            r#"{"access_token":"AT","token_type":"Bearer"}"#,
            r#"{"access_token":"AT","refresh_token":"","scope":"","expires_in":null}"#,
            r#"{"access_token":"AT","refresh_token":null,"scope":null,"expires_in":"soon"}"#,
            "access_token=AT&refresh_token=&scope=",
        ] {
            let issued = issued(body);
            assert_eq!(issued.access_token, "AT");
            assert_eq!(
                (issued.refresh_token, issued.scope, issued.expires_in),
                (None, None, None),
                "{body}"
            );
        }
    }

    #[test]
    fn lifetimes_are_read_in_all_their_forms() {
        for (written, read) in [
            ("3600", Some(3_600)),
            ("\"3600\"", Some(3_600)),
            ("3600.0", Some(3_600)),
            ("-5", Some(-5)),
            ("1e3", Some(1_000)),
            ("1e300", Some(i64::MAX)),
            ("[]", None),
        ] {
            let body = format!(r#"{{"access_token":"AT","expires_in":{written}}}"#);
            assert_eq!(issued(&body).expires_in, read, "{written}");
        }
    }

    #[test]
    fn te_06_a_form_is_read_whatever_its_label() {
        let body = "access_token=a%2Bb&expires_in=28800&refresh_token=r%20t&scope=repo%2Cuser&token_type=bearer";
        let issued = issued(body);
        assert_eq!(issued.access_token, "a+b");
        assert_eq!(issued.refresh_token.as_deref(), Some("r t"));
        assert_eq!(issued.expires_in, Some(28_800));
        assert_eq!(issued.scope.unwrap(), ["repo", "user"]);
        assert!(matches!(
            read(b"error=bad_refresh_token&error_description=gone+for+good"),
            Said::Error { code, description: Some(text) } if code == "bad_refresh_token" && text == "gone for good"
        ));
    }

    #[test]
    fn te_05_an_error_is_an_error_beside_anything_else() {
        for body in [
            r#"{"ok":false,"error":"invalid_refresh_token"}"#,
            r#"{"error":"invalid_refresh_token","access_token":"AT"}"#,
        ] {
            assert!(matches!(
                read(body.as_bytes()),
                Said::Error { code, .. } if code == "invalid_refresh_token"
            ));
        }
    }

    #[test]
    fn everything_else_is_nothing() {
        for body in [
            "",
            "<html>a=b</html>",
            r#"{"access_token":"#,
            r#"{"message":"blocked"}"#,
            r#"{"access_token":""}"#,
            r#"{"access_token":7}"#,
            "[]",
            "null",
            "not found",
        ] {
            assert_eq!(read(body.as_bytes()), Said::Nothing, "{body}");
        }
        assert_eq!(read(&[0xff, 0xfe]), Said::Nothing);
    }

    #[test]
    fn a_token_that_is_bound_to_a_key_is_no_bearer_token() {
        for (token_type, expected) in [
            ("Bearer", true),
            ("bearer", true),
            ("user", true),
            ("dpop", false),
            ("N_A", false),
        ] {
            let body = format!(r#"{{"access_token":"AT","token_type":"{token_type}"}}"#);
            let Said::Issued(issued) = read(body.as_bytes()) else {
                panic!("{body}");
            };
            assert_eq!(issued.is_bearer(), expected, "{token_type}");
        }
    }
}
