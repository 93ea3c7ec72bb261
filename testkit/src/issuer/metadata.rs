//! Authorization server metadata (RFC 8414, OpenID Connect Discovery 1.0).

use serde_json::{Value, json};

use super::State;
use super::policy::{Iss, Policy, Well};

/// Whether the metadata stands at this path.
pub(super) fn is_at(state: &State, policy: &Policy, path: &str) -> bool {
    let issuer = &state.path;
    policy.served_at.iter().any(|well| match well {
        Well::OAuth => path == format!("/.well-known/oauth-authorization-server{issuer}"),
        Well::OpenIdInserted => path == format!("/.well-known/openid-configuration{issuer}"),
        Well::OpenIdAppended => path == format!("{issuer}/.well-known/openid-configuration"),
        Well::At(given) => path == given,
    })
}

/// The metadata as it follows from the settings.
pub(super) fn document(state: &State, policy: &Policy) -> Value {
    let (authorization, registration) = (&policy.authorization, &policy.registration);
    let mut document = json!({
        "issuer": state.identifier,
        "authorization_endpoint": state.url(&policy.paths.authorize),
        "token_endpoint": state.url(&policy.paths.token),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "token_endpoint_auth_methods_supported": registration.auth_methods,
        "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256", "EdDSA"],
    });
    let mut add = |member: &str, value: Value| document[member] = value;
    if registration.open {
        add(
            "registration_endpoint",
            state.url(&policy.paths.register).into(),
        );
    }
    if policy.revocation {
        add(
            "revocation_endpoint",
            state.url(&policy.paths.revoke).into(),
        );
    }
    if !policy.keys.is_empty() {
        add("jwks_uri", state.url("/keys").into());
    }
    if policy.introspection.is_some() {
        add("introspection_endpoint", state.url("/introspect").into());
    }
    if registration.documents {
        add("client_id_metadata_document_supported", true.into());
    }
    if !authorization.pkce_methods.is_empty() {
        add(
            "code_challenge_methods_supported",
            json!(authorization.pkce_methods),
        );
    }
    if !authorization.scopes_supported.is_empty() {
        add("scopes_supported", json!(authorization.scopes_supported));
    }
    if authorization.iss != Iss::Omitted {
        add(
            "authorization_response_iss_parameter_supported",
            true.into(),
        );
    }
    document
}
