//! What is still to be done with the response to a request that was placed.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::wire::splice::{self, Edit};
use steadfast_core::wire::{json, splice::quote};
use steadfast_core::{AgentName, ServerName};

use super::tasks::{self, Tasks};
use crate::agents::covered::Shown;

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum After {
    /// The resource gets back the URI under which it was asked for.
    Uri {
        /// As the server wrote it.
        theirs: Box<str>,
        /// As the agent did.
        asked: Box<str>,
    },
    /// The task that the response names is this server's.
    Task {
        tasks: Arc<Tasks>,
        agent: AgentName,
        server: ServerName,
    },
    /// The tools that are listed are those that the token covers.
    Shown(Box<Shown>),
}

impl After {
    /// The response for the agent.
    pub(crate) fn finish(&self, response: Bytes) -> Bytes {
        match self {
            Self::Uri { theirs, asked } => with_uri(&response, theirs, asked).unwrap_or(response),
            Self::Task {
                tasks,
                agent,
                server,
            } => {
                if let Some(id) = tasks::named(&response) {
                    tasks.note(agent, &id, server);
                }
                response
            }
            Self::Shown(shown) => shown.finish(response),
        }
    }
}

/// Puts `asked` wherever `contents[].uri`, or the `data.uri` of an error, is `theirs`. `None` where it
/// stands nowhere.
fn with_uri(response: &[u8], theirs: &str, asked: &str) -> Option<Bytes> {
    let whole = 0..response.len();
    let mut found = Vec::new();
    if let Some(contents) = json::at_path(response, whole.clone(), &["result", "contents"]) {
        // What is no list has no elements.
        let _ = json::elements(response, contents, |content| {
            found.extend(json::at_path(response, content, &["uri"]));
        });
    } else {
        found.extend(json::at_path(response, whole, &["error", "data", "uri"]));
    }
    found.retain(|range| json::is_text(response, range.clone(), theirs));
    if found.is_empty() {
        return None;
    }
    let asked = quote(asked);
    let mut edits: Vec<_> = found
        .into_iter()
        .map(|range| Edit {
            range,
            with: asked.as_bytes(),
        })
        .collect();
    Some(splice::apply(response, &mut edits).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_resource_itself_gets_its_uri_back() {
        let response = br#"{"id":1, "result":{"contents":[{"uri":"x:1","n":1.0},{"uri":"x:2"},{"uri":"x:\u0031"}],"uri":"x:1"}}"#;
        let given = with_uri(response, "x:1", "steadfast://a/x:1").unwrap();
        assert_eq!(
            std::str::from_utf8(&given).unwrap(),
            r#"{"id":1, "result":{"contents":[{"uri":"steadfast://a/x:1","n":1.0},{"uri":"x:2"},{"uri":"steadfast://a/x:1"}],"uri":"x:1"}}"#
        );
        let error = br#"{"error":{"code":-32002,"data":{"uri":"x:1"}}}"#;
        let given = with_uri(error, "x:1", "y").unwrap();
        assert_eq!(
            given,
            &br#"{"error":{"code":-32002,"data":{"uri":"y"}}}"#[..]
        );
        assert_eq!(with_uri(response, "x:3", "y"), None);
    }
}
