//! How tool results say that the server's access token was refused, where the call itself looks like a success
//! (AU-03): the server passes its token on, or looks at it only when a tool runs.

use memchr::memmem;
use serde::Deserialize;

/// Longer text is about something; a refusal is short.
const LONGEST: usize = 1_000;

/// A larger answer is none of these.
const LARGEST: usize = 16 << 10;

/// What says it alone, in lower case.
const SAYS: [&str; 9] = [
    // RFC 6750 section 3.1.
    "invalid_token",
    "invalid access token",
    "access token is invalid",
    "access token is expired",
    "access token has expired",
    "access token expired",
    // What servers pass on from the API behind them (ms-365 #406, opik-mcp #182).
    "401 unauthorized",
    "401 (unauthorized)",
    "lifetime validation failed, the token is expired",
];

/// What says it beside the number 401, in lower case: many other things have that number.
const BESIDE_401: [&str; 5] = [
    "unauthorized",
    "unauthorised",
    "authentication failed",
    "authentication error",
    // atlassian #32: "Failed to fetch tenant info … Status: 401".
    "status: 401",
];

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    result: ToolResult<'a>,
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(rename = "isError", default)]
    is_error: bool,
    #[serde(borrow, default)]
    content: Vec<Block<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Option<std::borrow::Cow<'a, str>>,
}

/// Whether a response to `tools/call` says that the access token is no good. Conservative, for it costs a
/// renewal: only an error, only short text, and only in words that servers were seen to say it in.
#[must_use]
pub fn blames_token(response: &[u8]) -> bool {
    // Nearly every answer ends here.
    if response.len() > LARGEST || memmem::find(response, b"\"isError\"").is_none() {
        return false;
    }
    let Ok(Response { result }) = serde_json::from_slice(response) else {
        return false;
    };
    if !result.is_error {
        return false;
    }
    let texts = result.content.iter().filter_map(|it| it.text.as_deref());
    let text = texts.collect::<Vec<_>>().join(" ").to_lowercase();
    if text.len() > LONGEST {
        return false;
    }
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    says(&SAYS) || (has_number(&text, "401") && says(&BESIDE_401))
}

/// Whether the number stands in the text as a word of its own.
fn has_number(text: &str, number: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| word == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blames(is_error: bool, text: &str) -> bool {
        let result = serde_json::json!({
            "jsonrpc": "2.0", "id": 1,
            "result": {"content": [{"type": "text", "text": text}], "isError": is_error},
        });
        blames_token(result.to_string().as_bytes())
    }

    #[test]
    fn au_03_a_refused_token_inside_a_result_is_recognised() {
        for text in [
            "Authentication failed: 401",
            "401 Unauthorized",
            "Request failed with status: 401",
            "Error: {\"code\":\"invalid_token\"}",
            "Microsoft Graph API error: 401 Unauthorized - Lifetime validation failed",
            "The access token expired",
        ] {
            assert!(blames(true, text), "{text}");
            assert!(!blames(false, text), "{text}");
        }
    }

    #[test]
    fn au_03_other_errors_are_not_mistaken_for_it() {
        for text in [
            "",
            "403 Forbidden",
            "row 401 was not found",
            "Room 401: the booking failed",
            "Unauthorized: you are not the owner of this row",
            "authentication failed for user bob in document 4010",
            "invoice A401: status unauthorized",
        ] {
            assert!(!blames(true, text), "{text}");
        }
        assert!(!blames(
            true,
            &format!("401 Unauthorized {}", "x".repeat(LONGEST))
        ));
        assert!(!blames_token(
            br#"{"id":1,"error":{"code":-32000,"message":"401 Unauthorized"}}"#
        ));
        assert!(!blames_token(br#"{"id":1,"result":{"isError":"yes"}}"#));
        assert!(!blames_token(b""));
    }
}
