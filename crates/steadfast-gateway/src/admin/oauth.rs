//! What authorization servers and browsers reach without the admin token: the callback, which is guarded by
//! `state`, the links of notices, which nobody can guess, and our client-id metadata document.

use std::net::SocketAddr;

use axum::extract::{Query, State as Given};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, StatusCode};
use serde_json::json;
use steadfast::report::rfc3339;
use steadfast::{Callback, Doors, Finished, NotSignedIn, NoticeLink, SignedIn};
use steadfast_core::oauth::client::application_type;
use steadfast_store::Via;
use url::Url;

use super::{Shared, not_found};
use crate::settings::Settings;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/oauth/callback", get(callback))
        .route("/oauth/sign-in", get(sign_in))
        .route("/oauth/client.json", get(document))
}

/// Where the gateway is reached: at its public address, else at the one really listened on.
pub(crate) fn public_url(settings: &Settings, local: SocketAddr) -> Result<Url, url::ParseError> {
    match &settings.public_url {
        Some(url) => Ok(url.clone()),
        None => format!("http://{}", crate::reachable(local)).parse(),
    }
}

/// Where browsers reach this daemon: by its public address, else by the one really listened on.
pub(crate) fn doors(settings: &Settings, local: SocketAddr) -> Result<Doors, url::ParseError> {
    let base = public_url(settings, local)?;
    let base = base.as_str().trim_end_matches('/');
    let own: Url = format!("{base}/oauth/client.json").parse()?;
    // 2026-07-28 client-registration, "Client ID Metadata Documents": an https URL.
    let own = (own.scheme() == "https").then_some(own);
    Ok(Doors {
        callback: format!("{base}/oauth/callback").parse()?,
        sign_in: format!("{base}/oauth/sign-in").parse()?,
        document: settings.client_metadata_url.clone().or(own),
    })
}

/// draft-ietf-oauth-client-id-metadata-document, section 4: `client_id` is the document's own address. Where that is
/// elsewhere, this is what has to stand there.
async fn document(Given(state): Given<Shared>) -> Response {
    let Some(address) = &state.doors.document else {
        return not_found().await.into_response();
    };
    let callback = &state.doors.callback;
    let document = json!({
        "client_id": address.as_str(),
        "client_name": "Steadfast",
        "redirect_uris": [callback.as_str()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": application_type(callback),
    });
    Json(document).into_response()
}

/// The link of a message about a notice: leads on to the authorization server, as long as the notice is open.
async fn sign_in(Given(state): Given<Shared>, Query(link): Query<NoticeLink>) -> Response {
    match state.keeper.follow_notice(&link).await {
        Ok(Some(offer)) => go_on(&offer.url),
        Ok(None) => {
            let line = "This link is not good any more: what it was about is mended, or a newer message is about it.";
            page(
                StatusCode::GONE,
                "Nothing to sign in for",
                &[line.to_owned()],
            )
        }
        Err(error) => {
            let lines = [format!("There is no link to sign in with: {error}.")];
            page(StatusCode::BAD_GATEWAY, "Not now", &lines)
        }
    }
}

/// The browser comes back from the authorization server.
async fn callback(Given(state): Given<Shared>, Query(callback): Query<Callback>) -> Response {
    match state.keeper.finish_sign_in(callback).await {
        Ok(Finished::SignedIn(signed_in)) => {
            let target = format!("{}/{}", signed_in.agent, signed_in.server);
            let who = "whoever had the link".to_owned();
            let audit = &state.audit;
            audit
                .record(who, Via::Browser, "signed_in", target, String::new())
                .await;
            page(StatusCode::OK, "Signed in", &told(&signed_in))
        }
        Ok(Finished::GoesOn(offer)) => go_on(&offer.url),
        Err(error) => {
            let status = match &error {
                NotSignedIn::Unknown | NotSignedIn::Expired => StatusCode::GONE,
                NotSignedIn::OtherIssuer | NotSignedIn::Declined(_) => StatusCode::BAD_REQUEST,
                NotSignedIn::Fault(_) => StatusCode::BAD_GATEWAY,
                NotSignedIn::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            let again = "Nothing was changed. Start the sign-in again to try once more.";
            page(
                status,
                "Not signed in",
                &[format!("{error}."), again.to_owned()],
            )
        }
    }
}

/// The browser goes on to the authorization server. The link holds `state`: nobody keeps it.
fn go_on(url: &str) -> Response {
    let headers = [
        (LOCATION, url),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

fn told(signed_in: &SignedIn) -> Vec<String> {
    let (agent, server) = (signed_in.agent.as_str(), signed_in.server.as_str());
    let mut lines = vec![format!(
        "The agent {agent} is signed in to {server}. You can close this page."
    )];
    if let Some(at) = signed_in.ends_at {
        lines.push(format!(
            "The provider issued no refresh token: this grant cannot be renewed and ends at {}. \
             Somebody has to sign in again then.",
            rfc3339(at)
        ));
    }
    lines
}

/// A page for a person: no scripts, nothing from elsewhere, and nothing of its address told to others.
fn page(status: StatusCode, title: &str, lines: &[String]) -> Response {
    let paragraphs: String = lines
        .iter()
        .map(|line| format!("<p>{}</p>\n", escaped(line)))
        .collect();
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}: Steadfast</title>\n\
         <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:4em auto;padding:0 1em}}</style>\n\
         <h1>{title}</h1>\n{paragraphs}</html>\n"
    );
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, policy),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, html).into_response()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::AdminToken;

    #[test]
    fn browsers_come_back_to_the_public_address_or_to_the_one_listened_on() {
        let local: SocketAddr = "0.0.0.0:7420".parse().unwrap();
        let mut settings = Settings::new(local, AdminToken::new("t"));
        let found = doors(&settings, local).unwrap();
        assert_eq!(
            found.callback.as_str(),
            "http://127.0.0.1:7420/oauth/callback"
        );
        assert_eq!(found.document, None);
        settings.public_url = Some("https://gateway.example.com/base/".parse().unwrap());
        let found = doors(&settings, local).unwrap();
        let base = "https://gateway.example.com/base/oauth";
        assert_eq!(found.callback.as_str(), format!("{base}/callback"));
        assert_eq!(
            found.document.unwrap().as_str(),
            format!("{base}/client.json")
        );
        let elsewhere: Url = "https://corp.example/steadfast.json".parse().unwrap();
        settings.public_url = None;
        settings.client_metadata_url = Some(elsewhere.clone());
        assert_eq!(doors(&settings, local).unwrap().document, Some(elsewhere));
    }

    #[test]
    fn what_a_provider_says_is_text_on_the_page() {
        assert_eq!(escaped("<script>&\"'"), "&lt;script&gt;&amp;&quot;&#39;");
    }
}
