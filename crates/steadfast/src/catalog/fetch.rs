//! Reading one list of a server to its end.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use steadfast_core::catalog::{Hints, List};
use steadfast_core::now::Mono;
use steadfast_core::wire::json;
use steadfast_core::{Era, Fault, Kind, quirks};

use super::Listing;
use crate::clock;
use crate::drive::open::own_meta;
use crate::link::Link;
use crate::perform::ask::{Asked, ask, post_for_stream};
use crate::route::{MCP_METHOD, Route};

/// A list longer than this many pages has no end.
const MAX_PAGES: usize = 1_000;

/// What a server answered to the question for a list.
#[derive(Debug)]
pub(super) enum Fetched {
    /// All pages.
    Whole {
        listing: Listing,
        /// When the first page came.
        received: Mono,
    },
    /// It has no such list.
    NotOffered,
    /// It answered with an error, which says nothing about the connection.
    Refused,
}

/// Fetches all pages. A run of pages that breaks off is an error.
pub(super) async fn fetch(
    link: &Arc<Link>,
    route: &Arc<Route>,
    list: List,
) -> Result<Fetched, Fault> {
    let mut definitions: Vec<Bytes> = Vec::new();
    let mut first: Option<(Hints, Mono)> = None;
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let asked = ask_for_page(link, route, list, cursor.as_deref()).await?;
        let Some(result) = asked.result() else {
            return refused(&asked, route);
        };
        link.heard();
        let page = Hints::read(&result);
        let (hints, received) = match first {
            Some((hints, received)) => (hints.and(page), received),
            None => (page, clock::mono()),
        };
        first = Some((hints, received));
        if !entries(&result, list, &mut definitions) {
            let message = format!("the answer to {} has no {}", list.method(), list.member());
            return Err(Fault::new(Kind::ProtocolMismatch, message));
        }
        let next = json::at_path(&result, 0..result.len(), &["nextCursor"])
            .filter(|range| result.get(range.start) == Some(&b'"'))
            .map(|range| String::from_utf8_lossy(&result[range]).into_owned());
        if next.is_none() {
            let listing = Listing::read(list, definitions, route.era(), hints);
            return Ok(Fetched::Whole { listing, received });
        }
        if next == cursor {
            break;
        }
        cursor = next;
    }
    let message = format!("{} has no end", list.method());
    Err(Fault::new(Kind::ProtocolMismatch, message))
}

async fn ask_for_page(
    link: &Arc<Link>,
    route: &Arc<Route>,
    list: List,
    cursor: Option<&str>,
) -> Result<Asked, Fault> {
    let id = link.next_id();
    let body = Bytes::from(request(route, list, id, cursor));
    let mut headers = route.headers.clone();
    if route.era() == Era::Modern {
        headers.insert(MCP_METHOD, HeaderValue::from_static(list.method()));
    }
    if route.endpoint.is_some() {
        return ask_over_http_sse(route, headers, id, body).await;
    }
    let aside = |message, _| link.aside(route, message);
    ask(&route.upstream, headers, (id, body), &aside).await
}

/// The old transport: the POST is acknowledged, the answer comes on the GET stream.
async fn ask_over_http_sse(
    route: &Arc<Route>,
    headers: http::HeaderMap,
    id: i64,
    body: Bytes,
) -> Result<Asked, Fault> {
    let answer = route.waiting.register(id);
    let upstream = &route.upstream;
    upstream.ready().await?;
    post_for_stream(route, headers, body).await?;
    let limit = upstream.retry.request_timeout.duration();
    match tokio::time::timeout(limit, answer).await {
        Ok(Ok(message)) => Ok(Asked::on_stream(message)),
        Ok(Err(_)) | Err(_) => Err(Fault::new(Kind::Timeout, "no answer on the stream")),
    }
}

fn request(route: &Route, list: List, id: i64, cursor: Option<&str>) -> String {
    let mut params: Vec<String> = Vec::new();
    if let Some(cursor) = cursor {
        params.push(format!(r#""cursor":{cursor}"#));
    }
    if route.era() == Era::Modern {
        params.push(format!(r#""_meta":{}"#, own_meta(route.known.revision)));
    }
    let (method, params) = (list.method(), params.join(","));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

fn refused(asked: &Asked, route: &Route) -> Result<Fetched, Fault> {
    let answer = asked.answer(route.session.is_some(), route.era());
    if quirks::method_unknown(&answer).is_some() {
        return Ok(Fetched::NotOffered);
    }
    if quirks::unknown_session(&answer).is_some() {
        let message = "the session that was just opened is not known to the server";
        return Err(Fault::new(Kind::SessionLost, message));
    }
    if (200..300).contains(&asked.status) {
        return Ok(Fetched::Refused);
    }
    Err(quirks::fault_of(&answer))
}

/// Appends the entries of one page. Whether there was a list.
fn entries(result: &Bytes, list: List, found: &mut Vec<Bytes>) -> bool {
    let array = json::at_path(result, 0..result.len(), &[list.member()]);
    let Some(array) = array.and_then(|range| result.get(range)) else {
        return false;
    };
    // Entries are kept for long: they share a copy of their own, and not the buffer that the answer was read into.
    let array = Bytes::copy_from_slice(array);
    let each = |entry: Range<usize>| found.push(array.slice(entry));
    json::elements(&array, 0..array.len(), each).is_ok()
}
