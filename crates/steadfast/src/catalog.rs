//! The last complete list of a server's tools: kept while the server is down, because absent and
//! unavailable are different answers (architecture, connections 11).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::wire::header::{self, ParamHeader};
use steadfast_core::wire::json;
use steadfast_core::{Era, Fault, Kind};

use crate::link::Link;
use crate::perform::ask::ask;
use crate::route::{MCP_METHOD, Route};

/// A list longer than this many pages has no end.
const MAX_PAGES: usize = 1_000;

/// The tools of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    /// The raw JSON array of the server's definitions.
    pub(crate) tools: Option<Bytes>,
    /// The mirrored parameters of each tool, by name; every known tool is in it.
    params: BTreeMap<String, Vec<ParamHeader>>,
}

impl Catalog {
    /// Reads a raw JSON array of tool definitions. In the modern era a tool with an invalid
    /// `x-mcp-header` is left out, as 2026-07-28 streamable-http, "Schema Extension", demands.
    fn read(definitions: &[Bytes], era: Era) -> Self {
        let mut params = BTreeMap::new();
        let mut kept: Vec<&[u8]> = Vec::with_capacity(definitions.len());
        for definition in definitions {
            let whole = 0..definition.len();
            let name = json::at_path(definition, whole.clone(), &["name"])
                .and_then(|range| json::text(definition, range));
            let Some(name) = name else {
                continue;
            };
            let schema = json::at_path(definition, whole, &["inputSchema"])
                .map_or(&b"{}"[..], |range| &definition[range]);
            let mirrored = match header::param_headers(schema) {
                _ if era == Era::Legacy => Vec::new(),
                Ok(mirrored) => mirrored,
                Err(rule) => {
                    tracing::warn!(tool = %name, %rule, "a tool with an invalid x-mcp-header is left out");
                    continue;
                }
            };
            kept.push(definition);
            params.insert(name.into_owned(), mirrored);
        }
        let mut tools =
            Vec::with_capacity(kept.iter().map(|tool| tool.len() + 1).sum::<usize>() + 2);
        tools.push(b'[');
        tools.extend_from_slice(&kept.join(&b','));
        tools.push(b']');
        Self {
            tools: Some(Bytes::from(tools)),
            params,
        }
    }

    pub(crate) fn knows(&self, tool: &str) -> bool {
        self.params.contains_key(tool)
    }

    pub(crate) fn count(&self) -> Option<usize> {
        self.tools.as_ref().map(|_| self.params.len())
    }

    /// The parameters of a tool that are mirrored into headers.
    pub(crate) fn params_of(&self, tool: &str) -> &[ParamHeader] {
        self.params.get(tool).map_or(&[], Vec::as_slice)
    }
}

/// Fetches the whole list. `Ok(None)` where the server has no tools at all.
/// A run of pages that breaks off is an error: it never replaces a complete list.
pub(crate) async fn fetch(link: &Arc<Link>, route: &Arc<Route>) -> Result<Option<Catalog>, Fault> {
    let mut definitions: Vec<Bytes> = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let id = link.next_id();
        let body = request(route, id, cursor.as_deref());
        let mut headers = route.headers.clone();
        if route.era() == Era::Modern {
            headers.insert(MCP_METHOD, http::HeaderValue::from_static("tools/list"));
        }
        let aside = |message, _| link.aside(route, message);
        let asked = ask(&route.upstream, headers, (id, Bytes::from(body)), &aside).await?;
        let Some(result) = asked.result() else {
            return refused(&asked, route);
        };
        link.heard();
        let whole = 0..result.len();
        let Some(tools) = json::at_path(&result, whole.clone(), &["tools"]) else {
            let message = "the answer to tools/list has no tools";
            return Err(Fault::new(Kind::ProtocolMismatch, message));
        };
        if !elements(&result, tools, &mut definitions) {
            let message = "the answer to tools/list has tools that are no list";
            return Err(Fault::new(Kind::ProtocolMismatch, message));
        }
        cursor = json::at_path(&result, whole, &["nextCursor"])
            .filter(|range| result.get(range.start) == Some(&b'"'))
            .map(|range| String::from_utf8_lossy(&result[range]).into_owned());
        if cursor.is_none() {
            return Ok(Some(Catalog::read(&definitions, route.era())));
        }
    }
    let message = format!("tools/list has no end after {MAX_PAGES} pages");
    Err(Fault::new(Kind::ProtocolMismatch, message))
}

fn request(route: &Route, id: i64, cursor: Option<&str>) -> String {
    let mut params: Vec<String> = Vec::new();
    if let Some(cursor) = cursor {
        params.push(format!(r#""cursor":{cursor}"#));
    }
    if route.era() == Era::Modern {
        params.push(format!(
            r#""_meta":{}"#,
            crate::drive::open::own_meta(route.known.revision)
        ));
    }
    let params = params.join(",");
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{{params}}}}}"#)
}

fn refused(asked: &crate::perform::ask::Asked, route: &Route) -> Result<Option<Catalog>, Fault> {
    let answer = asked.answer(route.session.is_some(), route.era());
    if steadfast_core::quirks::method_unknown(&answer).is_some() {
        return Ok(None);
    }
    if steadfast_core::quirks::unknown_session(&answer).is_some() {
        let message = "the session that was just opened is not known to the server";
        return Err(Fault::new(Kind::SessionLost, message));
    }
    if (200..300).contains(&asked.status) {
        // An error about the list says nothing about the connection.
        return Ok(None);
    }
    Err(steadfast_core::quirks::fault_of(&answer))
}

/// Splits a raw JSON array into its elements. Whether it is one.
fn elements(source: &Bytes, array: std::ops::Range<usize>, found: &mut Vec<Bytes>) -> bool {
    let Ok(items) = serde_json::from_slice::<Vec<&serde_json::value::RawValue>>(&source[array])
    else {
        return false;
    };
    found.extend(
        items
            .iter()
            .map(|item| source.slice_ref(item.get().as_bytes())),
    );
    true
}
