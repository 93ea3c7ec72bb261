//! What is said to an agent whose token is good, and not for all that it asks for.

use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;
use steadfast_core::code;
use steadfast_core::oauth::discovery::resource_metadata_urls;
use steadfast_core::replay::Resource;

use crate::body::Body;
use crate::problem::{INVALID_REQUEST, code_data, rpc_error, whole};

/// 403 that names what the token would have to cover as well (RFC 6750 section 3.1, RFC 9728 section 5.1). `id` is that of
/// the request, where it has one.
pub(crate) fn refusal(id: Option<&[u8]>, missing: &[Resource]) -> Response<Body> {
    let names: Vec<&str> = missing.iter().map(Resource::as_str).collect();
    let mut data = code_data(code::NOT_COVERED);
    if let Some(members) = data.as_object_mut() {
        members.insert("missing".to_owned(), json!(names));
    }
    let detail = "the access token does not cover all that is asked for";
    let message = rpc_error(id, INVALID_REQUEST, detail, Some(&data));
    let mut response = whole(StatusCode::FORBIDDEN, "application/json", message);
    // Identifiers have neither quotes nor spaces: both are escaped in a URL.
    if let Ok(challenge) = HeaderValue::from_str(&challenge(missing, &names)) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

fn challenge(missing: &[Resource], names: &[&str]) -> String {
    let mut challenge = r#"Bearer error="insufficient_scope""#.to_owned();
    let metadata = missing
        .first()
        .map(|resource| resource_metadata_urls(resource.url()));
    if let Some(url) = metadata.and_then(|urls| urls.into_iter().next()) {
        challenge.push_str(&format!(r#", resource_metadata="{url}""#));
    }
    challenge.push_str(&format!(r#", resource="{}""#, names.join(" ")));
    challenge
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn everything_that_is_missing_is_named() {
        let named = |text| Resource::parse(text).unwrap();
        let missing = [
            named("https://gw.test/mcp/b/tools/find"),
            named("https://gw.test/mcp/c"),
        ];
        let response = refusal(None, &missing);
        assert_eq!(response.status(), 403);
        assert_eq!(
            response.headers()[WWW_AUTHENTICATE],
            "Bearer error=\"insufficient_scope\", \
             resource_metadata=\"https://gw.test/.well-known/oauth-protected-resource/mcp/b/tools/find\", \
             resource=\"https://gw.test/mcp/b/tools/find https://gw.test/mcp/c\""
        );
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["data"]["code"], "SF0072");
        let expected = json!(["https://gw.test/mcp/b/tools/find", "https://gw.test/mcp/c"]);
        assert_eq!(body["error"]["data"]["missing"], expected);
    }
}
