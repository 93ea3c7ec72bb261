//! The one list of what can be configured and is not built yet. It is accepted and checked, so that a file
//! can be written now, and named in one warning, so that nobody counts on it.

use super::schema::File;

/// The keys of `file` that would change something if they were built.
pub(crate) fn unbuilt(file: &File) -> Vec<String> {
    let mut keys = Vec::new();
    let mut note = |is_set: bool, key: String| {
        if is_set {
            keys.push(key);
        }
    };
    note(
        file.repeat != steadfast::config::Repeat::default(),
        "repeat".into(),
    );
    for (name, server) in &file.servers {
        let key = |rest: &str| format!("servers.{name}.{rest}");
        note(server.cookies, key("cookies"));
        for (tool, policy) in &server.tools {
            let key = |rest: &str| key(&format!("tools.{tool}.{rest}"));
            note(policy.repeat.is_some(), key("repeat"));
            note(policy.duplicate_key.is_some(), key("duplicate_key"));
            note(policy.lookup.is_some(), key("lookup"));
        }
    }
    keys
}
