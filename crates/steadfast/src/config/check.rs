//! What a server must be besides well-formed: found out when it is configured, be it by a file or by the admin API, and
//! not when a booking is at stake.

use http::{HeaderName, HeaderValue};
use steadfast_core::Effect;
use steadfast_core::code::{self, Code};
use steadfast_core::operation::lookup::{self, Invalid};
use steadfast_core::operation::place::Place;
use steadfast_core::reference::Template;
use url::Url;

use super::{Lookup, Server, Span, Tool};

/// Headers that the keeper sets itself, from what it sends.
const OWN_HEADERS: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The keys that lead there, from the table of the server on.
    pub place: Vec<String>,
    /// Its entry in the registry.
    pub code: Code,
    /// Why it cannot be used; quotes no value that may be a secret.
    pub why: String,
}

impl Server {
    /// Everything that is wrong, in the order of its keys.
    #[must_use]
    pub fn check(&self) -> Vec<Wrong> {
        let mut checker = Checker::default();
        checker.server(self);
        checker.wrongs
    }
}

/// Whether a URL can be one that requests go to.
///
/// # Errors
///
/// Why it cannot.
pub fn web_address(url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        Err(format!(
            "the scheme is `{}`: use http or https",
            url.scheme()
        ))
    } else if !url.username().is_empty() || url.password().is_some() {
        Err("a URL is shown to people; put the credential into a header".to_owned())
    } else if url.fragment().is_some() {
        Err("a part after `#` never reaches a server".to_owned())
    } else {
        Ok(())
    }
}

#[derive(Default)]
struct Checker {
    wrongs: Vec<Wrong>,
}

impl Checker {
    fn refuse(&mut self, place: &[&str], why: impl Into<String>) {
        self.refuse_as(code::CONFIG_BAD_VALUE, place, why);
    }

    fn refuse_as(&mut self, code: Code, place: &[&str], why: impl Into<String>) {
        self.wrongs.push(Wrong {
            place: place.iter().map(|&key| key.to_owned()).collect(),
            code,
            why: why.into(),
        });
    }

    fn server(&mut self, server: &Server) {
        if let Err(why) = web_address(&server.url) {
            self.refuse(&["url"], why);
        }
        for (header, value) in &server.headers {
            let place = ["headers", header.as_str()];
            match HeaderName::try_from(header.as_str()) {
                Err(_) => self.refuse(&place, "is not the name of a header"),
                Ok(own) if OWN_HEADERS.contains(&own.as_str()) => {
                    self.refuse(&place, "is set by Steadfast itself");
                }
                Ok(_) => {}
            }
            if HeaderValue::try_from(value.as_str()).is_err() {
                let why = "the value has characters that a header cannot carry";
                self.refuse(&place, why);
            }
            self.references(&place, value);
        }
        self.oauth(server);
        if let Some(kept) = &server.idempotency
            && kept.retention == Span::default()
        {
            let place = ["idempotency", "retention"];
            self.refuse(&place, "must be longer than zero");
        }
        for (tool, policy) in &server.tools {
            self.tool(server, tool, policy);
        }
    }

    fn oauth(&mut self, server: &Server) {
        let Some(oauth) = &server.oauth else {
            return;
        };
        if let Err((key, why)) = oauth.check() {
            self.refuse(&["oauth", key], why);
        }
        for (key, value) in [
            ("client_secret", &oauth.client_secret),
            ("private_key", &oauth.private_key),
        ] {
            if let Some(value) = value {
                self.references(&["oauth", key], value);
            }
        }
        if let Some(identity) = &oauth.identity {
            self.references(&["oauth", "identity", "assertion"], &identity.assertion);
            if let Some(secret) = &identity.client_secret {
                self.references(&["oauth", "identity", "client_secret"], secret);
            }
        }
    }

    /// `${vault:NAME}` with a name.
    fn references(&mut self, place: &[&str], value: &str) {
        if let Err(why) = Template::read(value) {
            self.refuse_as(code::VAULT_REFERENCE, place, why.to_string());
        }
    }

    fn tool(&mut self, server: &Server, tool: &str, policy: &Tool) {
        if let Some(key) = &policy.duplicate_key
            && let Err(why) = Place::read(&key.argument)
        {
            let place = ["tools", tool, "duplicate_key", "argument"];
            self.refuse(&place, why.to_string());
        }
        if let Some(lookup) = &policy.lookup {
            self.lookup(server, tool, lookup);
        }
    }

    fn lookup(&mut self, server: &Server, tool: &str, lookup: &Lookup) {
        let at = |key| ["tools", tool, "lookup", key];
        if server.effect(&lookup.tool) != Effect::Read {
            let why = format!(
                "`{}` must be declared with effect = \"read\" on the same server",
                lookup.tool
            );
            self.refuse(&at("tool"), why);
        }
        if let Err(invalid) = lookup::Lookup::compile(&lookup.contract()) {
            let key = place_of(lookup, &invalid);
            self.refuse(&at(key), invalid.to_string());
        }
    }
}

/// Which key of a lookup cannot be used.
fn place_of(lookup: &Lookup, invalid: &Invalid) -> &'static str {
    let expression = match invalid {
        Invalid::Expression { expression, .. }
        | Invalid::Several { expression }
        | Invalid::Variable { expression, .. } => expression,
        Invalid::NothingToCompare => return "must_equal",
    };
    let compared = lookup.must_equal.iter();
    if lookup.accepted == *expression {
        "accepted"
    } else if compared
        .flat_map(|(one, other)| [one, other])
        .any(|it| it == expression)
    {
        "must_equal"
    } else {
        "arguments"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(server: serde_json::Value) -> Vec<String> {
        let server: Server = serde_json::from_value(server).unwrap();
        let wrongs = server.check();
        wrongs.iter().map(|it| it.place.join(".")).collect()
    }

    #[test]
    fn what_is_wrong_is_named_by_its_place() {
        let url = "https://a.test/mcp";
        assert_eq!(wrong(json!({"url": url})), Vec::<String>::new());
        assert_eq!(wrong(json!({"url": "ftp://a.test"})), ["url"]);
        assert_eq!(wrong(json!({"url": "https://u:p@a.test"})), ["url"]);
        let headers = json!({"Host": "b", "X-Key": "${vault:}"});
        assert_eq!(
            wrong(json!({"url": url, "headers": headers})),
            ["headers.Host", "headers.X-Key"]
        );
        let tools = json!({
            "book": {
                "duplicate_key": {"argument": "no path", "retention": "1h"},
                "lookup": {"tool": "find", "accepted": "$[", "must_equal": {"$.a": "$.arguments.a"}},
            },
        });
        assert_eq!(
            wrong(json!({"url": url, "tools": tools})),
            [
                "tools.book.duplicate_key.argument",
                "tools.book.lookup.tool",
                "tools.book.lookup.accepted"
            ]
        );
    }
}
