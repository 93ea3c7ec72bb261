//! Requests to a token endpoint (RFC 6749 sections 4.1.3, 4.4 and 6; RFC 7009).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use steadfast_core::grant::Failure;
use steadfast_core::oauth::assertion::ASSERTION_TYPE;
use steadfast_core::oauth::client::{Auth, other};
use steadfast_core::quirks::{TokenAnswer, error_code, token_answer};
use steadfast_core::wire::token::{self as wire, Issued, Said};
use steadfast_core::{Fault, Kind};
use url::Url;

use super::assertion::Signer;
use super::fetch::{Fetched, Fetcher, NotFetched};
use super::mask::mask;

/// The type of the assertions that one authorization server makes for another
/// (draft-ietf-oauth-identity-assertion-authz-grant).
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Who asks. No `Debug`: it holds a secret.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    /// What signs for it, where it has a key in place of a secret.
    pub(crate) signer: Option<Signer>,
    pub(crate) auth: Auth,
    /// `token_endpoint_auth_methods_supported` of the issuer.
    pub(crate) methods: Option<Vec<String>>,
}

/// A token, and how the client had to prove itself for it.
pub(crate) struct Granted {
    pub(crate) issued: Issued,
    pub(crate) auth: Auth,
}

/// Presents a refresh token. Scope is left out: the answer's are the ones that were granted (RFC 6749 section 6).
pub(crate) async fn refresh(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &Client,
    refresh_token: &str,
    resource: Option<&str>,
    dead_codes: &[String],
) -> Result<Granted, Failure> {
    let mut fields = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh_token),
    ];
    fields.extend(resource.map(|resource| ("resource", resource)));
    granted(fetcher, endpoint, client, &fields, dead_codes).await
}

/// Asks for a token for the client itself (RFC 6749 section 4.4.2).
pub(crate) async fn own_token(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &Client,
    scopes: &[String],
    resource: Option<&str>,
    dead_codes: &[String],
) -> Result<Granted, Failure> {
    let scope = scopes.join(" ");
    let mut fields = vec![("grant_type", "client_credentials")];
    if !scope.is_empty() {
        fields.push(("scope", &scope));
    }
    fields.extend(resource.map(|resource| ("resource", resource)));
    granted(fetcher, endpoint, client, &fields, dead_codes).await
}

/// Has an identity provider vouch for a person toward an authorization server: its answer is the assertion for that one
/// (RFC 8693 section 2.1; enterprise-managed-authorization, "Token Exchange").
pub(crate) async fn exchange_identity(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &Client,
    (subject, subject_type): (&str, &str),
    (audience, resource): (&str, &str),
    scopes: &[String],
) -> Result<String, Failure> {
    let scope = scopes.join(" ");
    let mut fields = vec![
        (
            "grant_type",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ),
        ("requested_token_type", ID_JAG),
        ("subject_token", subject),
        ("subject_token_type", subject_type),
        ("audience", audience),
        ("resource", resource),
    ];
    if !scope.is_empty() {
        fields.push(("scope", &scope));
    }
    let issued = granted(fetcher, endpoint, client, &fields, &[])
        .await?
        .issued;
    // Anything else may be good at other places, and goes to nobody.
    if issued.issued_token_type.as_deref() != Some(ID_JAG) {
        let message = "the identity provider issued something else than an identity assertion";
        return Err(Failure::Structured(Fault::new(Kind::GrantRefused, message)));
    }
    Ok(issued.access_token)
}

/// Asks for a token with the assertion of an identity provider (RFC 7523 section 2.1). Its scopes stand in it.
pub(crate) async fn redeem_assertion(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &Client,
    assertion: &str,
    resource: &str,
    dead_codes: &[String],
) -> Result<Granted, Failure> {
    let fields = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
        ("assertion", assertion),
        ("resource", resource),
    ];
    granted(fetcher, endpoint, client, &fields, dead_codes).await
}

/// Exchanges an authorization code, with the verifier of its PKCE challenge (RFC 7636 section 4.5).
pub(crate) async fn exchange_code(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &Client,
    (code, verifier, redirect_uri): (&str, &str, &str),
    resource: Option<&str>,
) -> Result<Granted, Failure> {
    let mut fields = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("code_verifier", verifier),
        ("redirect_uri", redirect_uri),
    ];
    fields.extend(resource.map(|resource| ("resource", resource)));
    granted(fetcher, endpoint, client, &fields, &[]).await
}

/// Sends the request; once more with the other way to send a secret, where the issuer offers both and did not accept
/// the first (TE-05). A client that is refused has spent nothing.
async fn granted(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &Client,
    fields: &[(&str, &str)],
    dead_codes: &[String],
) -> Result<Granted, Failure> {
    let refused = match once(fetcher, endpoint, client, client.auth, fields, dead_codes).await {
        Ok(issued) => {
            return Ok(Granted {
                issued,
                auth: client.auth,
            });
        }
        Err(refused) => refused,
    };
    let other = other(client.auth, client.methods.as_deref());
    match (&refused, other) {
        (Failure::Client(_), Some(auth)) => {
            let issued = once(fetcher, endpoint, client, auth, fields, dead_codes).await?;
            Ok(Granted { issued, auth })
        }
        _ => Err(refused),
    }
}

async fn once(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &Client,
    auth: Auth,
    fields: &[(&str, &str)],
    dead_codes: &[String],
) -> Result<Issued, Failure> {
    let mut fields = fields.to_vec();
    let assertion = assertion(client, auth)?;
    let headers = proof(client, auth, assertion.as_deref(), &mut fields);
    let mut secrets = of_client(client, &headers);
    let fetched = fetcher.post_form(endpoint, &fields, headers).await;
    let fetched = fetched.map_err(|not| unanswered(&not))?;
    let sent = fields
        .iter()
        .filter(|(key, _)| {
            matches!(
                *key,
                "refresh_token"
                    | "code"
                    | "code_verifier"
                    | "client_secret"
                    | "client_assertion"
                    | "subject_token"
                    | "assertion"
            )
        })
        .map(|(_, value)| (*value).to_owned());
    secrets.extend(sent);
    read(&fetched, dead_codes).map_err(|failure| failure.reworded(|said| mask(said, &secrets)))
}

fn read(fetched: &Fetched, dead_codes: &[String]) -> Result<Issued, Failure> {
    let answer = TokenAnswer {
        status: fetched.status,
        media: fetched.media,
        body: &fetched.body,
        retry_after: fetched.retry_after,
    };
    token_answer(&answer, dead_codes)
}

/// What the client signs for this request, where that is how it proves itself.
fn assertion(client: &Client, auth: Auth) -> Result<Option<String>, Failure> {
    let Some(signer) = client
        .signer
        .as_ref()
        .filter(|_| auth == Auth::PrivateKeyJwt)
    else {
        return Ok(None);
    };
    let assertion = signer.assertion(&client.id).ok_or_else(|| {
        let message = "the client's assertion cannot be signed";
        Failure::Temporary(Fault::new(Kind::RenewalDelayed, message))
    });
    assertion.map(Some)
}

/// A client's secret as a header (RFC 6749 section 2.3.1).
pub(crate) fn basic(headers: &mut HeaderMap, id: &str, secret: &str) {
    let encode =
        |text: &str| -> String { url::form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = STANDARD.encode(format!("{}:{}", encode(id), encode(secret)));
    if let Ok(mut value) = HeaderValue::try_from(format!("Basic {pair}")) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
}

/// How the client proves who it is: adds to the form, or makes a header (RFC 6749 section 2.3.1).
fn proof<'a>(
    client: &'a Client,
    auth: Auth,
    assertion: Option<&'a str>,
    fields: &mut Vec<(&'a str, &'a str)>,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let secret = client.secret.as_deref().unwrap_or_default();
    match auth {
        Auth::ClientSecretBasic => {
            basic(&mut headers, &client.id, secret);
        }
        Auth::ClientSecretPost => {
            fields.push(("client_id", &client.id));
            fields.push(("client_secret", secret));
        }
        Auth::PrivateKeyJwt => {
            // Who it is stands in the assertion: no `client_id` beside it (RFC 7523 section 3).
            fields.push(("client_assertion_type", ASSERTION_TYPE));
            fields.push(("client_assertion", assertion.unwrap_or_default()));
        }
        Auth::None => fields.push(("client_id", &client.id)),
    }
    headers
}

/// What a client proves itself with must not come back in any of the ways in which it is sent.
fn of_client(client: &Client, headers: &HeaderMap) -> Vec<String> {
    let secret = client.secret.clone();
    let encoded = secret
        .as_ref()
        .map(|secret| url::form_urlencoded::byte_serialize(secret.as_bytes()).collect());
    let header = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
    let pair = header.and_then(|header| header.strip_prefix("Basic "));
    [secret, encoded, pair.map(str::to_owned)]
        .into_iter()
        .flatten()
        .collect()
}

/// A grant type that no provider has: what it is asked for cannot succeed, and nothing is presented that could be spent.
/// It says in the provider's log who asked.
const NO_GRANT: &str = "steadfast_doctor";

/// Asks an endpoint whether it is a token endpoint, and where `client` is given whether it knows that client. A refusal
/// is what a token endpoint must answer (RFC 6749 section 5.2); it is given back in words.
///
/// # Errors
///
/// How it answered otherwise.
pub(crate) async fn knock(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: Option<&Client>,
) -> Result<String, Failure> {
    let mut fields = vec![("grant_type", NO_GRANT)];
    let mut headers = HeaderMap::new();
    if let Some(client) = client {
        headers = proof(client, client.auth, None, &mut fields);
    }
    let secrets = client.map_or_else(Vec::new, |client| of_client(client, &headers));
    let fetched = fetcher.post_form(endpoint, &fields, headers).await;
    let fetched = fetched.map_err(|not| unanswered(&not))?;
    let masked = |said: &str| mask(said, &secrets);
    let said = match wire::read(&fetched.body) {
        Said::Error { code, .. } => masked(&format!("{}, {}", fetched.status, error_code(&code))),
        Said::Issued(_) | Said::Nothing => fetched.status.to_string(),
    };
    let answer = read(&fetched, &[]).map_err(|failure| failure.reworded(masked));
    match answer {
        Err(Failure::Client(refused)) if client.is_some() => Err(Failure::Client(refused)),
        Ok(_) | Err(Failure::Structured(_) | Failure::Grant(_) | Failure::Client(_)) => Ok(said),
        Err(other) => Err(other),
    }
}

/// A request that left and was not answered may have spent the token; one that never left has not.
fn unanswered(not: &NotFetched) -> Failure {
    let message = format!("the token endpoint: {}", not.fault.message);
    if not.proven_unsent {
        Failure::Temporary(Fault::new(Kind::RenewalDelayed, message))
    } else {
        Failure::OutcomeLost(Fault::new(Kind::RenewalOutcomeLost, message))
    }
}

/// Asks the issuer to forget a token. An unknown token is as good as revoked (RFC 7009 section 2.2).
///
/// # Errors
///
/// What it said instead.
pub(crate) async fn revoke(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &Client,
    token: &str,
    hint: &str,
) -> Result<(), String> {
    let mut fields = vec![("token", token), ("token_type_hint", hint)];
    let assertion = assertion(client, client.auth).map_err(|why| why.fault().message.clone())?;
    let headers = proof(client, client.auth, assertion.as_deref(), &mut fields);
    match fetcher.post_form(endpoint, &fields, headers).await {
        Ok(fetched) if (200..300).contains(&fetched.status) => Ok(()),
        Ok(fetched) => Err(format!("it answered {}", fetched.status)),
        Err(not) => Err(not.fault.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_where_the_method_says() {
        let client = Client {
            id: "a b".to_owned(),
            secret: Some("p:q".to_owned()),
            signer: None,
            auth: Auth::ClientSecretBasic,
            methods: None,
        };
        let mut fields = Vec::new();
        let headers = proof(&client, Auth::ClientSecretBasic, None, &mut fields);
        let expected = format!("Basic {}", STANDARD.encode("a+b:p%3Aq"));
        assert_eq!(headers[AUTHORIZATION], expected.as_str());
        assert!(fields.is_empty() && headers[AUTHORIZATION].is_sensitive());
        let hidden = of_client(&client, &headers);
        assert_eq!(hidden, ["p:q", "p%3Aq", &STANDARD.encode("a+b:p%3Aq")]);
        let headers = proof(&client, Auth::ClientSecretPost, None, &mut fields);
        assert_eq!(fields, [("client_id", "a b"), ("client_secret", "p:q")]);
        assert!(headers.is_empty());
    }
}
