//! Which authorization server stands behind a server, and where its endpoints are (2026-07-28
//! basic/authorization/authorization-server-discovery; backwards to 2025-03-26).

use serde::{Deserialize, Serialize};
use steadfast_core::oauth::discovery::{
    Identity, base_url, covers, identity, issuer_metadata_urls, resource_metadata_urls,
};
use steadfast_core::quirks::{is_temporary, sanitise};
use steadfast_core::{Fault, Kind};
use url::Url;

use super::fetch::{Fetched, Fetcher};

/// What a protected resource says of itself (RFC 9728 section 2), as far as it is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceMetadata {
    pub(crate) resource: Option<String>,
    pub(crate) authorization_servers: Vec<String>,
    pub(crate) scopes_supported: Option<Vec<String>>,
}

/// What an authorization server says of itself (RFC 8414 section 2), as far as it is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct IssuerMetadata {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<Url>,
    pub(crate) token_endpoint: Option<Url>,
    pub(crate) registration_endpoint: Option<Url>,
    pub(crate) revocation_endpoint: Option<Url>,
    pub(crate) introspection_endpoint: Option<Url>,
    pub(crate) jwks_uri: Option<Url>,
    pub(crate) scopes_supported: Vec<String>,
    pub(crate) code_challenge_methods_supported: Option<Vec<String>>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(crate) authorization_response_iss_parameter_supported: bool,
    pub(crate) client_id_metadata_document_supported: bool,
}

/// What discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discovered {
    /// The value of the `resource` parameter, as the server writes it (RFC 8707; DS-05).
    pub(crate) resource: String,
    pub(crate) resource_scopes: Option<Vec<String>>,
    pub(crate) issuer: IssuerMetadata,
    /// What was tolerated, or guessed: for the record.
    pub(crate) notes: Vec<String>,
}

/// Finds the authorization server of `server`. `named` is the `resource_metadata` of its challenge; where several
/// authorization servers are listed, `preferred` is taken if it is one of them.
pub(crate) async fn discover(
    fetcher: &Fetcher,
    server: &Url,
    named: Option<&str>,
    preferred: Option<&str>,
) -> Result<Discovered, Fault> {
    let mut notes = Vec::new();
    let resource = resource_metadata(fetcher, server, named, &mut notes).await?;
    let Some(resource) = resource else {
        return without_resource_metadata(fetcher, server, notes).await;
    };
    let servers = &resource.authorization_servers;
    let listed = |issuer: &&str| {
        let same = |one: &String| identity(issuer, one) != Identity::Different;
        servers.iter().any(same)
    };
    let in_order = preferred.filter(listed).into_iter();
    let in_order = in_order.chain(servers.iter().map(String::as_str));
    let mut fault = mismatch("the server's metadata names no authorization server".into());
    // The choice is ours (RFC 9728 section 7.6): the first that says what it is. One that cannot be reached is not passed
    // over, or an outage would lead to another issuer.
    for issuer in in_order {
        if let Some(issuer) = issuer_metadata(fetcher, issuer, &mut notes).await? {
            return Ok(Discovered {
                resource: resource.resource.unwrap_or_else(|| canonical(server)),
                resource_scopes: resource.scopes_supported,
                issuer,
                notes,
            });
        }
        fault = mismatch(format!("{} has no metadata", sanitise(issuer)));
    }
    Err(fault)
}

/// Until 2025-06-18 servers had no resource metadata: such a server is its own authorization server, with metadata
/// at its root or endpoints at fixed paths (2025-03-26 basic/authorization, "Server Metadata Discovery"). Good
/// for a first sign-in only: a refresh token never goes to a guessed address (DS-01).
async fn without_resource_metadata(
    fetcher: &Fetcher,
    server: &Url,
    mut notes: Vec<String>,
) -> Result<Discovered, Fault> {
    let base = base_url(server);
    let issuer = base.as_str().trim_end_matches('/').to_owned();
    let found = issuer_metadata(fetcher, &issuer, &mut notes).await?;
    let issuer = found.unwrap_or_else(|| {
        notes.push("no metadata anywhere: the fixed paths of 2025-03-26".to_owned());
        let at = |path| base.join(path).ok();
        IssuerMetadata {
            issuer,
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            ..IssuerMetadata::default()
        }
    });
    Ok(Discovered {
        resource: canonical(server),
        resource_scopes: None,
        issuer,
        notes,
    })
}

/// The canonical address of a server whose metadata does not name it (2026-07-28 basic/authorization, "Canonical
/// Server URI": no fragment; without the slash of an empty path).
fn canonical(server: &Url) -> String {
    let mut bare = server.clone();
    bare.set_fragment(None);
    bare.set_query(None);
    if bare.path() == "/" {
        bare.as_str().trim_end_matches('/').to_owned()
    } else {
        bare.into()
    }
}

/// What a server says of itself; `None` where it says nothing anywhere. `named` is the place that its challenge names.
pub(crate) async fn resource_metadata(
    fetcher: &Fetcher,
    server: &Url,
    named: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Option<ResourceMetadata>, Fault> {
    let named = named.and_then(|named| server.join(named).ok());
    let is_named = named.is_some();
    let places = named.into_iter().chain(resource_metadata_urls(server));
    let mut candidates = Candidates::new(places.collect());
    if is_named {
        // What the challenge names comes before what was found elsewhere.
        candidates.looked_up = 1;
    }
    let read = |url: &Url, fetched: &Fetched| -> Result<ResourceMetadata, String> {
        let metadata: ResourceMetadata =
            serde_json::from_slice(&fetched.body).map_err(|_| format!("{url} is no metadata"))?;
        match &metadata.resource {
            Some(resource) => {
                let is_ours = resource.parse().is_ok_and(|it| covers(&it, server));
                let message = || format!("{url} is about {}, not {server}", sanitise(resource));
                is_ours.then_some(()).ok_or_else(message)?;
            }
            None => return Err(format!("{url} names no resource")),
        }
        Ok(metadata)
    };
    first_valid(fetcher, candidates, read, notes).await
}

/// The metadata of an issuer; `None` where it has none anywhere.
pub(crate) async fn issuer_metadata(
    fetcher: &Fetcher,
    issuer: &str,
    notes: &mut Vec<String>,
) -> Result<Option<IssuerMetadata>, Fault> {
    let url: Url = issuer.parse().map_err(|_| {
        mismatch(format!(
            "the authorization server {} is no url",
            sanitise(issuer)
        ))
    })?;
    let mut tolerated = None;
    let read = |at: &Url, fetched: &Fetched| -> Result<IssuerMetadata, String> {
        let metadata: IssuerMetadata =
            serde_json::from_slice(&fetched.body).map_err(|_| format!("{at} is no metadata"))?;
        // RFC 8414 section 3.3: otherwise it "MUST NOT be used".
        let named = &metadata.issuer;
        match identity(issuer, named) {
            Identity::Same => Ok(metadata),
            Identity::EmptyPathSlash => {
                tolerated = Some(format!("the issuer {issuer} calls itself {named}"));
                Ok(metadata)
            }
            Identity::Different => Err(format!(
                "the issuer {} calls itself {}",
                sanitise(issuer),
                sanitise(named)
            )),
        }
    };
    let candidates = Candidates::new(issuer_metadata_urls(&url));
    let found = first_valid(fetcher, candidates, read, notes).await?;
    notes.extend(tolerated);
    let Some(found) = found else {
        return Ok(None);
    };
    for endpoint in [
        &found.authorization_endpoint,
        &found.token_endpoint,
        &found.registration_endpoint,
        &found.revocation_endpoint,
        &found.introspection_endpoint,
        &found.jwks_uri,
    ]
    .into_iter()
    .flatten()
    {
        fetcher.allows(endpoint)?;
    }
    Ok(Some(found))
}

/// Where a document may stand, best first.
struct Candidates {
    places: Vec<Url>,
    /// How many of them are looked up among what is kept before any is asked for.
    looked_up: usize,
}

impl Candidates {
    /// All are looked up: where one is fresh, those before it were misses when it was fetched.
    const fn new(places: Vec<Url>) -> Self {
        Self {
            looked_up: places.len(),
            places,
        }
    }
}

/// The first candidate that is what it should be. Misses come with any status (DS-03); one that time mends is
/// remembered, so that an outage is not taken for an absence; one that is about somebody else is an error
/// where nothing better follows.
async fn first_valid<T>(
    fetcher: &Fetcher,
    candidates: Candidates,
    mut read: impl FnMut(&Url, &Fetched) -> Result<T, String>,
    notes: &mut Vec<String>,
) -> Result<Option<T>, Fault> {
    let Candidates { places, looked_up } = candidates;
    for url in places.iter().take(looked_up) {
        if let Some(kept) = fetcher.fresh(url).await
            && let Ok(found) = read(url, &kept)
        {
            return Ok(Some(found));
        }
    }
    let (mut temporary, mut wrong) = (None, None);
    for url in places {
        match fetcher.get(&url).await {
            Ok(fetched) if fetched.status == 200 => match read(&url, &fetched) {
                Ok(found) => {
                    fetcher.keep(&url, &fetched).await;
                    return Ok(Some(found));
                }
                Err(why) => {
                    notes.push(why.clone());
                    wrong = wrong.or(Some(mismatch(why)));
                }
            },
            Ok(fetched) if is_temporary(fetched.status) => {
                let message = format!("{url} answers {}", fetched.status);
                let fault = Fault::new(Kind::ServerError, message).after(fetched.retry_after);
                temporary = temporary.or(Some(fault));
            }
            Ok(fetched) => notes.push(format!("{url} answers {}", fetched.status)),
            Err(not) => {
                let mut fault = not.fault;
                fault.message = format!("{url}: {}", fault.message);
                temporary = temporary.or(Some(fault));
            }
        }
    }
    match temporary.or(wrong) {
        Some(fault) => Err(fault),
        None => Ok(None),
    }
}

fn mismatch(message: String) -> Fault {
    Fault::new(Kind::ProtocolMismatch, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_missing_members_do_no_harm() {
        let read: IssuerMetadata = serde_json::from_str(
            r#"{"issuer":"https://as.test","token_endpoint":"https://as.test/t","x":[1]}"#,
        )
        .unwrap();
        assert_eq!(read.token_endpoint.unwrap().path(), "/t");
        assert_eq!(read.code_challenge_methods_supported, None);
    }

    #[test]
    fn the_canonical_address_has_no_query_and_no_slash_of_an_empty_path() {
        for (server, expected) in [
            ("https://rs.test/", "https://rs.test"),
            ("https://rs.test:8443/mcp?x=1#y", "https://rs.test:8443/mcp"),
        ] {
            assert_eq!(canonical(&server.parse().unwrap()), expected);
        }
    }
}
