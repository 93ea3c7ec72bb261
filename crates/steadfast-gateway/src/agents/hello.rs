//! How a server is introduced to an agent: in the server's own words as far as they are known.

use bytes::Bytes;
use serde_json::{Value, json};
use steadfast::{Hello, Link};
use steadfast_core::wire::{json as raw, splice};
use steadfast_core::{Era, Revision, bridge};

/// The revisions that agents can speak without a session.
pub(crate) const MODERN: [Revision; 1] = [Revision::LATEST_MODERN];

/// The result of `initialize` in a session of `revision`. Nothing but the version is ours: capabilities,
/// names and instructions are the server's bytes.
pub(crate) fn initialize(link: &Link, revision: Revision) -> Bytes {
    let known = link.hello().and_then(|hello| match hello.era() {
        Era::Legacy => with_version(&hello, revision),
        Era::Modern => bridge::initialize_result(&hello.result, revision).map(Bytes::from),
    });
    known.unwrap_or_else(|| unseen(link, revision))
}

fn with_version(hello: &Hello, revision: Revision) -> Option<Bytes> {
    let source = &hello.result;
    let range = raw::at_path(source, 0..source.len(), &["protocolVersion"])?;
    if raw::is_text(source, range.clone(), revision.as_str()) {
        return Some(source.clone());
    }
    let with = format!("\"{revision}\"");
    let mut edits = [splice::Edit {
        range,
        with: with.as_bytes(),
    }];
    Some(splice::apply(source, &mut edits).into())
}

/// A server that was never seen may be able to do anything: the agent gets its session, and is told
/// when the server is there.
fn unseen(link: &Link, revision: Revision) -> Bytes {
    let result = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {
            "completions": {},
            "logging": {},
            "prompts": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true},
            "tools": {"listChanged": true},
        },
        "serverInfo": {"name": link.server().as_str(), "version": "unknown"},
    });
    result.to_string().into()
}

/// The result of `server/discover`; `None` where the server was never seen.
pub(crate) fn discover(link: &Link) -> Option<Bytes> {
    let hello = link.hello()?;
    match hello.era() {
        Era::Legacy => bridge::discover_result(&hello.result, &MODERN).map(Bytes::from),
        Era::Modern => Some(hello.result.clone()),
    }
}

/// A notification without params.
pub(crate) fn notification(method: &str) -> Bytes {
    let message: Value = json!({"jsonrpc": "2.0", "method": method});
    message.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(result: &'static str) -> Hello {
        Hello {
            revision: Revision::V2025_06_18,
            result: Bytes::from_static(result.as_bytes()),
        }
    }

    #[test]
    fn only_the_version_changes() {
        let theirs = hello(
            r#"{ "serverInfo":{"name":"x","n":1.0}, "protocolVersion" : "2025-06-18","capabilities":{"z":{}}}"#,
        );
        let ours = with_version(&theirs, Revision::V2025_11_25).unwrap();
        assert_eq!(
            std::str::from_utf8(&ours).unwrap(),
            r#"{ "serverInfo":{"name":"x","n":1.0}, "protocolVersion" : "2025-11-25","capabilities":{"z":{}}}"#
        );
        let same = with_version(&theirs, Revision::V2025_06_18).unwrap();
        assert_eq!(same, theirs.result);
    }
}
