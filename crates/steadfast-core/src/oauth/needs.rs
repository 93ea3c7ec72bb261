//! What a request of an agent needs of its access token.

use url::Url;

use crate::catalog::List;
use crate::identity::ServerName;
use crate::replay::{Reach, Resource};

/// What a request to a server needs to be covered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need<'r> {
    /// Anything of the server: a token for one of its tools must be able to begin a conversation.
    Anything,
    /// The same; of the list is shown what the token covers.
    Listing(List),
    /// This tool.
    Tool(&'r str),
    /// The server itself: whatever no tool is named in.
    Server,
}

/// What a request needs. `tool` is the server's name of the tool that it calls.
#[must_use]
pub fn need<'r>(method: &str, tool: Option<&'r str>) -> Need<'r> {
    if let Some(list) = List::of_method(method) {
        return Need::Listing(list);
    }
    match (method, tool) {
        ("initialize" | "ping" | "server/discover" | "logging/setLevel", _) => Need::Anything,
        ("tools/call", Some(tool)) => Need::Tool(tool),
        _ => Need::Server,
    }
}

/// Whether a token reaches what a request to a server needs.
///
/// # Errors
///
/// The resource that it would have to cover.
pub fn check(
    need: &Need<'_>,
    reach: &Reach,
    public_url: &Url,
    server: &ServerName,
) -> Result<(), Resource> {
    // A key reaches everything: nothing is made up for it.
    if *reach == Reach::All {
        return Ok(());
    }
    let whole = Resource::server(public_url, server);
    let (is_covered, needed) = match need {
        Need::Anything | Need::Listing(_) => (reach.touches(&whole), whole),
        Need::Server => (reach.covers(&whole), whole),
        Need::Tool(tool) => {
            let tool = Resource::tool(public_url, server, tool);
            (reach.covers(&tool), tool)
        }
    };
    if is_covered { Ok(()) } else { Err(needed) }
}

/// Whether an entry of a server's list is shown to who has this token: a tool that is covered; prompts and resources
/// where the server is.
#[must_use]
pub fn shows(reach: &Reach, public_url: &Url, server: &ServerName, list: List, name: &str) -> bool {
    let resource = || match list {
        List::Tools => Resource::tool(public_url, server, name),
        List::Prompts | List::Resources | List::Templates => Resource::server(public_url, server),
    };
    *reach == Reach::All || reach.covers(&resource())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(audiences: &[&str]) -> Reach {
        let audiences = audiences.iter();
        Reach::Only(audiences.map(|it| Resource::parse(it).unwrap()).collect())
    }

    #[test]
    fn each_request_needs_the_narrowest_resource_that_it_is_about() {
        let url: Url = "https://gw.test".parse().unwrap();
        let server = ServerName::from("s");
        let [all, whole, tool] = [
            "https://gw.test/mcp",
            "https://gw.test/mcp/s",
            "https://gw.test/mcp/s/tools/a",
        ];
        let other = "https://gw.test/mcp/s2";
        for (method, named, audience, missing) in [
            ("tools/call", Some("a"), tool, None),
            ("tools/call", Some("a"), whole, None),
            ("tools/call", Some("a"), all, None),
            ("tools/call", Some("a"), other, Some(tool)),
            (
                "tools/call",
                Some("b"),
                tool,
                Some("https://gw.test/mcp/s/tools/b"),
            ),
            ("tools/call", None, tool, Some(whole)),
            ("initialize", None, tool, None),
            ("initialize", None, other, Some(whole)),
            ("tools/list", None, tool, None),
            ("prompts/list", None, tool, None),
            ("prompts/get", Some("a"), tool, Some(whole)),
            ("resources/read", None, tool, Some(whole)),
            ("resources/read", None, whole, None),
            ("tasks/get", None, tool, Some(whole)),
            ("vendor/thing", None, tool, Some(whole)),
        ] {
            let needed = need(method, named);
            let checked = check(&needed, &reach(&[audience]), &url, &server);
            let missing = missing.map(|it| Resource::parse(it).unwrap());
            assert_eq!(checked.err(), missing, "{method} {named:?} {audience}");
            assert_eq!(check(&needed, &Reach::All, &url, &server), Ok(()));
        }
    }

    #[test]
    fn lists_show_what_is_covered() {
        let url: Url = "https://gw.test".parse().unwrap();
        let server = ServerName::from("s");
        let narrow = reach(&["https://gw.test/mcp/s/tools/a"]);
        let shows = |list, name| shows(&narrow, &url, &server, list, name);
        assert!(shows(List::Tools, "a"));
        assert!(!shows(List::Tools, "b"));
        assert!(!shows(List::Prompts, "a"));
        assert!(!shows(List::Resources, "a"));
    }
}
