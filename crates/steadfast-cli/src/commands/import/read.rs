//! The shapes in which clients write their servers down.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use steadfast::config;
use url::Url;

use super::jsonc::to_json;

/// One entry of a file.
#[derive(Debug)]
pub(super) enum Entry {
    /// A server that can be taken over.
    Usable(Box<Found>),
    /// One that cannot.
    Skipped {
        /// Its name in the file.
        name: String,
        /// Why.
        why: String,
    },
}

/// A server that can be taken over.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) server: config::Server,
    /// What of it is not taken over as it was.
    pub(super) notes: Vec<String>,
}

/// Where the servers stand: `mcpServers` of most clients, `servers` of VS Code, in its settings under `mcp`.
const PLACES: [&str; 4] = ["/mcpServers", "/servers", "/mcp/servers", "/mcp/mcpServers"];

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Vec<Entry>, String> {
    let root: Value = serde_json::from_str(&to_json(text))
        .map_err(|error| format!("this is not JSON: {error}"))?;
    let servers = PLACES
        .iter()
        .find_map(|place| root.pointer(place)?.as_object())
        .ok_or("it has no `mcpServers` and no `servers`")?;
    let mut taken = Vec::new();
    let mut entries = Vec::new();
    for (name, entry) in servers {
        let read = match entry.as_object() {
            Some(entry) => server(entry),
            None => Err("it is not an object".to_owned()),
        };
        entries.push(match read {
            Err(why) => Entry::Skipped {
                name: name.clone(),
                why,
            },
            Ok((server, mut notes)) => {
                let own = as_name(name);
                if own != *name {
                    notes.push(format!("`{name}` cannot be a name here, so it is `{own}`"));
                }
                if taken.contains(&own) {
                    let why = format!("another server of the file is `{own}` already");
                    entries.push(Entry::Skipped {
                        name: name.clone(),
                        why,
                    });
                    continue;
                }
                taken.push(own.clone());
                Entry::Usable(Box::new(Found {
                    name: own,
                    server,
                    notes,
                }))
            }
        });
    }
    Ok(entries)
}

/// A name of ours as close as can be: 1 to 64 of A-Z a-z 0-9 _ -, and no `__`.
fn as_name(name: &str) -> String {
    let mut own = String::new();
    for character in name.trim().chars().take(64) {
        let allowed = character.is_ascii_alphanumeric() || character == '_';
        let character = if allowed { character } else { '-' };
        if !(character == '_' && own.ends_with('_')) {
            own.push(character);
        }
    }
    if own.is_empty() {
        "server".to_owned()
    } else {
        own
    }
}

type Read = Result<(config::Server, Vec<String>), String>;

fn server(entry: &Map<String, Value>) -> Read {
    // Claude Code and VS Code say `url`, Windsurf `serverUrl`, Gemini CLI `httpUrl`.
    let url = ["url", "serverUrl", "httpUrl"]
        .into_iter()
        .find_map(|key| entry.get(key)?.as_str());
    let headers = strings(entry.get("headers"));
    match (url, entry.get("command").and_then(Value::as_str)) {
        (Some(url), _) => remote(entry, url, headers),
        (None, Some(command)) => match bridged(entry) {
            Some((url, headers)) => remote(entry, &url, headers),
            None => Err(format!(
                "it runs `{command}` on this machine (stdio), and only servers with a URL are kept"
            )),
        },
        (None, None) => Err("it has neither a `url` nor a `command`".to_owned()),
    }
}

fn strings(value: Option<&Value>) -> BTreeMap<String, String> {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    pairs
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn remote(entry: &Map<String, Value>, url: &str, headers: BTreeMap<String, String>) -> Read {
    if has_placeholder(url) {
        return Err(
            "its url has a placeholder, which only the other client can fill in".to_owned(),
        );
    }
    let parsed = Url::parse(url).map_err(|error| format!("its url cannot be read: {error}"))?;
    let mut server = config::Server::at(parsed);
    let flag = |key: &str| entry.get(key).and_then(Value::as_bool);
    server.enabled = !flag("disabled").unwrap_or(false) && flag("enabled").unwrap_or(true);
    let mut notes = Vec::new();
    for (name, value) in headers {
        if has_placeholder(&value) {
            notes.push(format!(
                "the header {name} has a placeholder and is left out: add it with its value, or sign in once that is built"
            ));
        } else {
            server.headers.insert(name, value);
        }
    }
    if !server.enabled {
        notes.push("it is disabled there, and here too".to_owned());
    }
    if entry.get("oauth").or_else(|| entry.get("auth")).is_some() {
        notes.push("its sign-in is not taken over".to_owned());
    }
    Ok((server, notes))
}

/// `${env:X}`, `${input:x}`, `${X}` and `${X:-default}` of the various clients.
fn has_placeholder(text: &str) -> bool {
    text.split_once("${")
        .is_some_and(|(_, rest)| rest.contains('}'))
}

/// The remote server behind mcp-remote, with which clients that only speak stdio reach one:
/// `npx mcp-remote URL --header 'Name: ${VARIABLE}'`, with the variables in `env`.
fn bridged(entry: &Map<String, Value>) -> Option<(String, BTreeMap<String, String>)> {
    let arguments: Vec<&str> = entry
        .get("args")?
        .as_array()?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let is_bridge =
        |argument: &&str| *argument == "mcp-remote" || argument.starts_with("mcp-remote@");
    let behind = arguments.iter().position(is_bridge)? + 1;
    let rest = arguments.get(behind..)?;
    let url = rest
        .iter()
        .find(|argument| argument.starts_with("http://") || argument.starts_with("https://"))?;
    let environment = strings(entry.get("env"));
    let headers = rest
        .windows(2)
        .filter(|pair| pair.first() == Some(&"--header"))
        .filter_map(|pair| pair.get(1)?.split_once(':'))
        .map(|(name, value)| {
            (
                name.trim().to_owned(),
                filled_in(value.trim(), &environment),
            )
        })
        .collect();
    Some(((*url).to_owned(), headers))
}

fn filled_in(text: &str, environment: &BTreeMap<String, String>) -> String {
    environment
        .iter()
        .filter(|(_, value)| !has_placeholder(value))
        .fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), value)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Found {
        match read(text).unwrap().remove(0) {
            Entry::Usable(found) => *found,
            Entry::Skipped { why, .. } => panic!("{why}"),
        }
    }

    fn skipped(text: &str) -> String {
        match read(text).unwrap().remove(0) {
            Entry::Usable(found) => panic!("{found:?}"),
            Entry::Skipped { why, .. } => why,
        }
    }

    #[test]
    fn the_clients_shapes_are_read() {
        for text in [
            r#"{"mcpServers": {"booking": {"type": "http", "url": "https://a.test/mcp", "headers": {"X-Key": "k"}}}}"#,
            r#"{"servers": {"booking": {"type": "http", "url": "https://a.test/mcp", "headers": {"X-Key": "k"},}}, "inputs": []}"#,
            r#"{"mcp": {"servers": {"booking": {"url": "https://a.test/mcp", "headers": {"X-Key": "k"}}}}}"#,
            r#"{"mcpServers": {"booking": {"serverUrl": "https://a.test/mcp", "headers": {"X-Key": "k"}}}}"#,
            r#"{"mcpServers": {"booking": {"command": "npx", "args": ["-y", "mcp-remote@latest", "https://a.test/mcp",
                "--header", "X-Key:${KEY}"], "env": {"KEY": "k"}}}}"#,
        ] {
            let found = one(text);
            assert_eq!(found.name, "booking");
            assert_eq!(found.server.url.as_str(), "https://a.test/mcp", "{text}");
            assert_eq!(found.server.headers["X-Key"], "k", "{text}");
            assert!(found.server.enabled && found.notes.is_empty());
        }
    }

    #[test]
    fn what_runs_on_this_machine_is_skipped_with_a_word_why() {
        let why = skipped(
            r#"{"mcpServers": {"files": {"command": "npx", "args": ["server-files", "/x"]}}}"#,
        );
        assert!(why.contains("npx") && why.contains("stdio"), "{why}");
        assert!(skipped(r#"{"mcpServers": {"a": {}}}"#).contains("neither"));
        assert!(skipped(r#"{"mcpServers": {"a": {"url": "a b"}}}"#).contains("cannot be read"));
    }

    #[test]
    fn placeholders_are_left_out_and_told() {
        for placeholder in [
            "${env:TOKEN}",
            "Bearer ${input:token}",
            "${TOKEN}",
            "${TOKEN:-x}",
        ] {
            let text = serde_json::json!({"servers": {"a": {"url": "https://a.test/", "headers": {"X": placeholder}}}});
            let found = one(&text.to_string());
            assert!(found.server.headers.is_empty());
            assert!(found.notes[0].contains("header X"), "{:?}", found.notes);
        }
        assert!(
            skipped(r#"{"servers": {"a": {"url": "https://${env:HOST}/"}}}"#)
                .contains("placeholder")
        );
    }

    #[test]
    fn names_become_names() {
        let found = one(
            r#"{"mcpServers": {"my server__x": {"url": "https://a.test/", "disabled": true}}}"#,
        );
        assert_eq!(found.name, "my-server_x");
        assert!(!found.server.enabled);
        assert_eq!(found.notes.len(), 2);
        let both = r#"{"mcpServers": {"a b": {"url": "https://a.test/"}, "a.b": {"url": "https://b.test/"}}}"#;
        assert!(
            matches!(&read(both).unwrap()[1], Entry::Skipped { why, .. } if why.contains("`a-b` already"))
        );
    }

    #[test]
    fn other_files_are_refused() {
        assert!(read("[]").unwrap_err().contains("mcpServers"));
        assert!(read("{").unwrap_err().contains("not JSON"));
    }
}
