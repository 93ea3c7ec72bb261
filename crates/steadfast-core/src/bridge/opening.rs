//! The two ways in which a server introduces itself: the result of `initialize`, and that of
//! `server/discover`. Raw values are carried over unchanged.

use super::{SERVER_INFO, change, is_object, last_member, members_named, object_of, without};
use crate::revision::Revision;
use crate::wire::splice;

/// A legacy server's `InitializeResult` as the `DiscoverResult` of a server that speaks `supported`.
/// `None` where it is no JSON object.
#[must_use]
pub fn discover_result(initialize_result: &[u8], supported: &[Revision]) -> Option<Vec<u8>> {
    let source = initialize_result.trim_ascii();
    let whole = 0..source.len();
    is_object(source, &whole).then_some(())?;
    let raw = |key| {
        let value = last_member(source, whole.clone(), key)?.value;
        std::str::from_utf8(source.get(value)?).ok()
    };
    let versions: Vec<String> = supported
        .iter()
        .map(|revision| splice::quote(revision.as_str()))
        .collect();
    let versions = format!("[{}]", versions.join(","));
    let mut add = vec![
        ("resultType", "\"complete\""),
        ("supportedVersions", versions.as_str()),
        ("ttlMs", "0"),
        ("cacheScope", "\"private\""),
    ];
    if raw("capabilities").is_none() {
        add.push(("capabilities", "{}"));
    }
    let mut replaced = vec!["protocolVersion", "serverInfo"];
    replaced.extend(add.iter().map(|(key, _)| *key));

    let meta = raw("serverInfo").map(|info| introduced(source, info));
    if let Some(meta) = &meta {
        replaced.push("_meta");
        add.push(("_meta", meta));
    }
    let cut = members_named(source, whole.clone(), &replaced);
    Some(change(source, whole, &cut, &add))
}

/// The `_meta` of a result with the server's name in it.
fn introduced(source: &[u8], info: &str) -> String {
    let ours = [(SERVER_INFO, info)];
    last_member(source, 0..source.len(), "_meta")
        .filter(|meta| is_object(source, &meta.value))
        .and_then(|meta| {
            let meta = source.get(meta.value)?;
            let stale = members_named(meta, 0..meta.len(), &[SERVER_INFO]);
            String::from_utf8(change(meta, 0..meta.len(), &stale, &ours)).ok()
        })
        .unwrap_or_else(|| object_of(&ours))
}

/// A modern server's `DiscoverResult` as the `InitializeResult` of a session in `revision`.
/// `None` where it is no JSON object.
#[must_use]
pub fn initialize_result(discover_result: &[u8], revision: Revision) -> Option<Vec<u8>> {
    let source = discover_result.trim_ascii();
    is_object(source, &(0..source.len())).then_some(())?;
    let meta = last_member(source, 0..source.len(), "_meta");
    let named = meta
        .as_ref()
        .map(|meta| members_named(source, meta.value.clone(), &[SERVER_INFO]));
    let info = named
        .as_ref()
        .and_then(|named| named.last())
        .and_then(|info| std::str::from_utf8(source.get(info.value.clone())?).ok())
        // A modern server need not name itself; a legacy one must.
        .unwrap_or(r#"{"name":"unknown","version":"unknown"}"#);
    let version = splice::quote(revision.as_str());
    let mut add = vec![("protocolVersion", version.as_str()), ("serverInfo", info)];
    if last_member(source, 0..source.len(), "capabilities").is_none() {
        add.push(("capabilities", "{}"));
    }

    let anonymous = match (meta, &named) {
        (Some(meta), Some(named)) => without(source, 0..source.len(), meta, named),
        (Some(_) | None, _) => source.to_vec(),
    };
    let modern = [
        "resultType",
        "supportedVersions",
        "ttlMs",
        "cacheScope",
        "protocolVersion",
        "serverInfo",
    ];
    let whole = 0..anonymous.len();
    let cut = members_named(&anonymous, whole.clone(), &modern);
    Some(change(&anonymous, whole, &cut, &add))
}
