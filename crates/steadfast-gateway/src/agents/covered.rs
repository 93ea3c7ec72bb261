//! What of a request is covered by the access token that came with it.

use bytes::Bytes;
use std::sync::Arc;

use steadfast::Link;
use steadfast_core::catalog::{List, without};
use steadfast_core::oauth::needs::{Need, check, need, shows};
use steadfast_core::replay::{Reach, Resource};
use steadfast_core::wire::splice::{self, Edit};
use steadfast_core::wire::{envelope::Kind, json};
use steadfast_core::{Era, ServerName};
use url::Url;

use super::inbound::Inbound;
use super::merged::{After, Placed};
use super::render;
use crate::Gate;

/// Lets a request go on to a server if the token covers what it needs; of a list, what the token covers.
pub(crate) fn cover(
    gate: &Gate,
    reach: &Reach,
    era: Era,
    link: Arc<Link>,
    mut inbound: Box<Inbound>,
) -> Placed {
    if *reach == Reach::All {
        return Placed::At(link, inbound);
    }
    if let Err(missing) = reaches(gate, reach, link.server(), &inbound) {
        return Placed::Lacking(missing);
    }
    let Some(list) = List::of_method(&inbound.method()) else {
        return Placed::At(link, inbound);
    };
    let whole = Resource::server(&gate.protected.public_url, link.server());
    match list {
        _ if reach.covers(&whole) => Placed::At(link, inbound),
        List::Tools => {
            let shown = Shown {
                reach: reach.clone(),
                public_url: gate.protected.public_url.clone(),
                server: link.server().clone(),
            };
            inbound.after = Some(Box::new(After::Shown(Box::new(shown))));
            Placed::At(link, inbound)
        }
        List::Prompts | List::Resources | List::Templates => {
            let hints = match era {
                Era::Legacy => "",
                Era::Modern => r#""resultType":"complete","ttlMs":0,"cacheScope":"private","#,
            };
            let empty = format!("{{{hints}\"{}\":[]}}", list.member());
            let id = inbound.raw_id().unwrap_or(b"null");
            Placed::Here(render::result(id, empty.as_bytes()))
        }
    }
}

/// Whether a message to a server is covered; what is no request needs no more than a conversation does.
pub(crate) fn reaches(
    gate: &Gate,
    reach: &Reach,
    server: &ServerName,
    inbound: &Inbound,
) -> Result<(), Resource> {
    let method = inbound.method();
    let tool = inbound.text(inbound.params.name.as_ref());
    let need = match inbound.envelope.kind {
        Kind::Request => need(&method, tool.as_deref()),
        Kind::Notification | Kind::Result | Kind::Error => Need::Anything,
    };
    check(&need, reach, &gate.protected.public_url, server)
}

/// Whether the token covers anything of a server.
pub(crate) fn touches(gate: &Gate, reach: &Reach, server: &ServerName) -> bool {
    *reach == Reach::All || {
        let whole = Resource::server(&gate.protected.public_url, server);
        reach.touches(&whole)
    }
}

/// Whether the token covers what is about all servers of the agent.
pub(crate) fn everything(gate: &Gate, reach: &Reach) -> Result<(), Resource> {
    match reach {
        Reach::All => Ok(()),
        Reach::Only(audiences) => {
            let everything = Resource::everything(&gate.protected.public_url);
            match audiences.cover(&everything) {
                true => Ok(()),
                false => Err(everything),
            }
        }
    }
}

/// Of a server's tools are listed those that the token covers.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    reach: Reach,
    public_url: Url,
    server: ServerName,
}

impl Shown {
    /// The list for this token, which no cache may keep for others (2026-07-28 server/utilities/caching).
    pub(crate) fn finish(&self, response: Bytes) -> Bytes {
        let (reach, url, server) = (&self.reach, &self.public_url, &self.server);
        let keeps = |tool: &str| shows(reach, url, server, List::Tools, tool);
        let response = without(&response, List::Tools, keeps).map_or(response, Bytes::from);
        let whole = 0..response.len();
        let Some(range) = json::at_path(&response, whole, &["result", "cacheScope"]) else {
            return response;
        };
        let mut edits = [Edit {
            range,
            with: br#""private""#,
        }];
        splice::apply(&response, &mut edits).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_what_is_covered_and_is_nobody_elses() {
        let audience = Resource::parse("https://gw.test/mcp/s/tools/a").unwrap();
        let shown = Shown {
            reach: Reach::Only(std::iter::once(audience).collect()),
            public_url: "https://gw.test".parse().unwrap(),
            server: ServerName::from("s"),
        };
        let response = br#"{"id":1,"result":{"cacheScope":"public","tools":[{"name":"b"},{"name":"a","n":1.0}]}}"#;
        let given = shown.finish(Bytes::from_static(response));
        assert_eq!(
            std::str::from_utf8(&given).unwrap(),
            r#"{"id":1,"result":{"cacheScope":"private","tools":[{"name":"a","n":1.0}]}}"#
        );
        let error = Bytes::from_static(br#"{"id":1,"error":{"code":-32603,"message":"x"}}"#);
        assert_eq!(shown.finish(error.clone()), error);
    }
}
