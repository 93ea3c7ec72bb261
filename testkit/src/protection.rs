//! A fake MCP server as an OAuth 2 protected resource (RFC 6750, RFC 9728).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::behaviour::{Behaviour, is_modern};
use crate::document::Document;
use crate::exchange::Exchange;
use crate::issuer::{Issuer, State, Token};
use crate::log::Request;
use crate::reply::tool_text;
use crate::wire::Flow;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Which tokens a server wants, and how it says so. Part of a [`Behaviour`].
#[derive(Clone, Debug)]
pub struct Protection {
    issuers: Vec<Arc<State>>,
    /// The resource that the server is; `None` is its own URL.
    pub resource: Option<String>,
    /// Whether a token must be for this resource.
    pub audience: bool,
    /// HTTP methods that need no token.
    pub open_methods: Vec<String>,
    /// Scopes that every request needs.
    pub scopes: Vec<String>,
    /// Further scopes by JSON-RPC method.
    pub method_scopes: BTreeMap<String, Vec<String>>,
    /// Further scopes by tool.
    pub tool_scopes: BTreeMap<String, Vec<String>>,
    /// The `WWW-Authenticate` lines of every 401, as they are; `None` is one that says everything.
    pub unauthorized: Option<Vec<String>>,
    /// The same for every 403.
    pub forbidden: Option<Vec<String>>,
    /// Whether a challenge of our own making names the needed scopes.
    pub names_scope: bool,
    /// Whether a challenge of our own making has `resource_metadata`.
    pub names_metadata: bool,
    /// Paths of the metadata, the one of the challenge first; `None` is both places of RFC 9728.
    pub metadata_at: Option<Vec<String>>,
    /// What is bent in the metadata.
    pub metadata: Document,
    /// Calls whose token is older than this fail inside a result that looks successful, whatever the token says of
    /// its end.
    pub stale_after: Option<Duration>,
}

impl Protection {
    /// Takes the tokens of this authorization server.
    #[must_use]
    pub fn by(issuer: &Issuer) -> Self {
        Self {
            issuers: vec![Arc::clone(&issuer.state)],
            resource: None,
            audience: true,
            open_methods: Vec::new(),
            scopes: Vec::new(),
            method_scopes: BTreeMap::new(),
            tool_scopes: BTreeMap::new(),
            unauthorized: None,
            forbidden: None,
            names_scope: true,
            names_metadata: true,
            metadata_at: None,
            metadata: Document::default(),
            stale_after: None,
        }
    }

    /// Takes the tokens of these authorization servers from now on, and names them in this order.
    pub fn trust(&mut self, issuers: &[&Issuer]) {
        self.issuers = issuers
            .iter()
            .map(|issuer| Arc::clone(&issuer.state))
            .collect();
    }

    /// Wants these scopes for a tool.
    #[must_use]
    pub fn tool(mut self, tool: &str, scopes: &[&str]) -> Self {
        self.tool_scopes.insert(tool.to_owned(), owned(scopes));
        self
    }

    /// Wants these scopes for a JSON-RPC method.
    #[must_use]
    pub fn method(mut self, method: &str, scopes: &[&str]) -> Self {
        self.method_scopes.insert(method.to_owned(), owned(scopes));
        self
    }

    fn needed(&self, request: &Request) -> Vec<String> {
        let by_method = request
            .rpc_method()
            .and_then(|method| self.method_scopes.get(method));
        let by_tool = request.tool().and_then(|tool| self.tool_scopes.get(tool));
        let further = by_method.into_iter().chain(by_tool).flatten();
        self.scopes.iter().chain(further).cloned().collect()
    }

    fn every_scope(&self) -> Vec<&String> {
        let further = self.method_scopes.values().chain(self.tool_scopes.values());
        let mut scopes: Vec<_> = self.scopes.iter().chain(further.flatten()).collect();
        scopes.sort();
        scopes.dedup();
        scopes
    }

    fn places(&self, behaviour: &Behaviour) -> Vec<String> {
        match &self.metadata_at {
            Some(paths) => paths.clone(),
            None => vec![
                format!("{WELL_KNOWN}{}", behaviour.path),
                WELL_KNOWN.to_owned(),
            ],
        }
    }

    fn resource(&self, exchange: &Exchange<'_>, behaviour: &Behaviour) -> String {
        let own = || format!("{}{}", exchange.shared.origin, behaviour.path);
        self.resource.clone().unwrap_or_else(own)
    }

    fn document(&self, exchange: &Exchange<'_>, behaviour: &Behaviour) -> Value {
        let issuers = self.issuers.iter().map(|issuer| issuer.identifier());
        let mut document = json!({
            "resource": self.resource(exchange, behaviour),
            "authorization_servers": issuers.collect::<Vec<_>>(),
            "bearer_methods_supported": ["header"],
        });
        let scopes = self.every_scope();
        if !scopes.is_empty() {
            document["scopes_supported"] = json!(scopes);
        }
        document
    }

    /// The token of a request, if it is good here.
    fn token(&self, request: &Request, resource: &str) -> Option<Token> {
        let value = request.bearer()?;
        let is_for_us =
            |token: &Token| !self.audience || token.resource.as_deref() == Some(resource);
        self.issuers
            .iter()
            .find_map(|issuer| issuer.access_token(value))
            .filter(is_for_us)
    }
}

fn owned(scopes: &[&str]) -> Vec<String> {
    scopes.iter().map(|scope| (*scope).to_owned()).collect()
}

/// Serves the metadata and turns away what has no good token; whether the request may go on to the behaviour.
pub(crate) async fn admits(
    exchange: &mut Exchange<'_>,
    behaviour: &Behaviour,
    protection: &Protection,
) -> Flow<bool> {
    let request = Arc::clone(&exchange.request);
    let places = protection.places(behaviour);
    if request.method == "GET" && places.iter().any(|place| place == request.path_only()) {
        let document = protection.document(exchange, behaviour);
        protection.metadata.send(exchange, document).await?;
        return Ok(false);
    }
    if !behaviour.serves(request.path_only()) || protection.open_methods.contains(&request.method) {
        return Ok(true);
    }
    let needed = protection.needed(&request);
    let resource = protection.resource(exchange, behaviour);
    let Some(token) = protection.token(&request, &resource) else {
        let error = request.bearer().map(|_| "invalid_token");
        let lines = protection.unauthorized.clone();
        refuse(exchange, behaviour, protection, 401, error, &needed, lines).await?;
        return Ok(false);
    };
    if needed.iter().any(|scope| !token.scopes.contains(scope)) {
        let (error, lines) = (Some("insufficient_scope"), protection.forbidden.clone());
        refuse(exchange, behaviour, protection, 403, error, &needed, lines).await?;
        return Ok(false);
    }
    let is_stale = protection
        .stale_after
        .is_some_and(|limit| token.age() >= limit);
    if is_stale && request.tool().is_some() {
        let mut result = tool_text("Authentication failed: 401");
        result["isError"] = true.into();
        if is_modern(&request) {
            result["resultType"] = "complete".into();
        }
        exchange.result(result).await?;
        return Ok(false);
    }
    Ok(true)
}

/// RFC 6750 section 3: the error only where a token was presented.
async fn refuse(
    exchange: &mut Exchange<'_>,
    behaviour: &Behaviour,
    protection: &Protection,
    status: u16,
    error: Option<&str>,
    needed: &[String],
    lines: Option<Vec<String>>,
) -> Flow {
    let own = || {
        let mut parts = Vec::new();
        if let Some(error) = error {
            parts.push(format!("error=\"{error}\""));
        }
        if protection.names_scope && !needed.is_empty() {
            parts.push(format!("scope=\"{}\"", needed.join(" ")));
        }
        let place = protection.places(behaviour).into_iter().next();
        if let Some(place) = place.filter(|_| protection.names_metadata) {
            let origin = &exchange.shared.origin;
            parts.push(format!("resource_metadata=\"{origin}{place}\""));
        }
        vec![format!("Bearer {}", parts.join(", ")).trim_end().to_owned()]
    };
    for line in lines.unwrap_or_else(own) {
        exchange.wire.header("www-authenticate", &line);
    }
    let error = error.unwrap_or("unauthorized");
    exchange.json(status, &json!({ "error": error })).await
}
