//! Dynamic registration of a client (RFC 7591; 2026-07-28 client-registration).

use serde::Deserialize;
use steadfast_core::oauth::client::{Auth, application_type};
use steadfast_core::quirks::sanitise;
use steadfast_core::wire::token::{Said, read as read_answer};
use steadfast_core::{Fault, Kind, Wall};
use url::Url;

use super::fetch::{Fetched, Fetcher};

/// A registered client. No `Debug`: it holds a secret.
pub(crate) struct Registered {
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
    pub(crate) auth: Auth,
    /// When the secret ends; `None` for never.
    pub(crate) secret_expires_at: Option<Wall>,
}

#[derive(Deserialize)]
struct Answer {
    client_id: Option<String>,
    client_secret: Option<String>,
    client_secret_expires_at: Option<i64>,
    token_endpoint_auth_method: Option<String>,
}

/// Registers a client that a browser comes back to at `redirect_uri`; without naming scopes, where that is refused: to
/// some providers the scopes of a resource are none of their own, and sign-ins may ask for them all the same.
pub(crate) async fn register(
    fetcher: &Fetcher,
    endpoint: &Url,
    redirect_uri: &Url,
    scopes: Option<&str>,
    auth: Auth,
) -> Result<Registered, Fault> {
    let post = async |scopes| {
        let request = request(redirect_uri, scopes, auth);
        let fetched = fetcher.post_json(endpoint, &request).await;
        fetched.map_err(|not| not.fault)
    };
    let mut fetched = post(scopes).await?;
    if scopes.is_some() && may_be_the_scopes(&fetched) {
        fetched = post(None).await?;
    }
    // RFC 7591 section 3.2.1 wants 201; some answer 200.
    let answer: Option<Answer> = matches!(fetched.status, 200 | 201)
        .then(|| serde_json::from_slice(&fetched.body).ok())
        .flatten();
    let client_id = answer.as_ref().and_then(|answer| answer.client_id.clone());
    let (Some(answer), Some(client_id)) = (answer, client_id.filter(|id| !id.is_empty())) else {
        let why = match read_answer(&fetched.body) {
            Said::Error { code, .. } => sanitise(&code),
            Said::Issued(_) | Said::Nothing => "no client id".to_owned(),
        };
        let message = format!(
            "the provider does not register a client: {} ({why})",
            fetched.status
        );
        return Err(Fault::new(Kind::SignInRequired, message).after(fetched.retry_after));
    };
    let has_secret = answer.client_secret.is_some();
    Ok(Registered {
        client_id,
        auth: assigned(answer.token_endpoint_auth_method.as_deref(), has_secret)?,
        // RFC 7591 section 3.2.1: zero is never.
        secret_expires_at: answer
            .client_secret_expires_at
            .filter(|at| has_secret && *at > 0)
            .map(|seconds| Wall(seconds.saturating_mul(1_000))),
        client_secret: answer.client_secret,
    })
}

/// RFC 7591 section 3.2.2 has one code for whatever is wrong with the metadata; some borrow that of RFC 6749.
fn may_be_the_scopes(fetched: &Fetched) -> bool {
    match read_answer(&fetched.body) {
        Said::Error { code, .. } => {
            matches!(code.as_str(), "invalid_client_metadata" | "invalid_scope")
        }
        Said::Issued(_) | Said::Nothing => false,
    }
}

/// How the registered client is to prove itself: as the provider says, which may be another way than it was asked for
/// (RFC 7591 section 3.2.1), or by the default of section 2.
fn assigned(method: Option<&str>, has_secret: bool) -> Result<Auth, Fault> {
    match (method, has_secret) {
        (Some("client_secret_post"), true) => Ok(Auth::ClientSecretPost),
        (Some("client_secret_basic") | None, true) => Ok(Auth::ClientSecretBasic),
        (Some("none") | None, _) => Ok(Auth::None),
        (Some(other), _) => {
            let message = format!(
                "the provider registers a client that would have to prove itself by {}",
                sanitise(other)
            );
            Err(Fault::new(Kind::ProtocolMismatch, message))
        }
    }
}

fn request(redirect_uri: &Url, scopes: Option<&str>, auth: Auth) -> serde_json::Value {
    let mut request = serde_json::json!({
        "client_name": "Steadfast",
        "redirect_uris": [redirect_uri.as_str()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth.as_str(),
        "application_type": application_type(redirect_uri),
    });
    if let (Some(scopes), Some(members)) = (scopes, request.as_object_mut()) {
        members.insert("scope".to_owned(), scopes.into());
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_says_how_its_client_proves_itself() {
        let of = |method, has_secret| assigned(method, has_secret).ok();
        assert_eq!(of(None, true), Some(Auth::ClientSecretBasic));
        assert_eq!(of(None, false), Some(Auth::None));
        assert_eq!(of(Some("none"), true), Some(Auth::None));
        let post = Some("client_secret_post");
        assert_eq!(of(post, true), Some(Auth::ClientSecretPost));
        for (method, has_secret) in [("client_secret_jwt", true), ("client_secret_basic", false)] {
            assert_eq!(of(Some(method), has_secret), None, "{method}");
        }
    }

    #[test]
    fn the_kind_of_client_follows_from_where_the_browser_comes_back_to() {
        for (uri, kind) in [
            ("http://127.0.0.1:7420/oauth/callback", "native"),
            ("https://steadfast.example.com/oauth/callback", "web"),
        ] {
            let request = request(&uri.parse().unwrap(), Some("a b"), Auth::None);
            assert_eq!(request["application_type"], kind);
            assert_eq!(request["redirect_uris"][0], uri);
            assert_eq!(request["scope"], "a b");
        }
    }
}
