//! The messages of a subscription: each carries the id of the request that opened it in
//! `params._meta` (2026-07-28 basic/patterns/subscriptions, "Receiving Notifications").

use std::ops::Range;

use super::Filter;
use crate::identity::RpcId;
use crate::wire::envelope::{self, Envelope};
use crate::wire::json::{self, Member};
use crate::wire::splice::{self, Edit};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The method of the acknowledgment.
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Which subscription a notification belongs to.
#[must_use]
pub fn id_of(message: &[u8], read: &Envelope) -> Option<RpcId> {
    let id = json::at_path(message, read.params.clone()?, &["_meta", ID])?;
    RpcId::from_json(std::str::from_utf8(message.get(id)?).ok()?)
}

/// What an acknowledgment agrees to.
#[must_use]
pub fn honoured(message: &[u8], read: &Envelope) -> Filter {
    let object = read
        .params
        .clone()
        .and_then(|params| json::at_path(message, params, &["notifications"]));
    object.map_or_else(Filter::default, |object| Filter::read(message, object))
}

/// A notification with the id of a subscription, which is raw JSON.
#[must_use]
pub fn tagged(message: &[u8], read: &Envelope, id: &str) -> Vec<u8> {
    let params = envelope::read_params(message, read);
    let meta = format!("{{{}:{id}}}", splice::quote(ID));
    let (at, text) = match (params.meta, read.params.clone()) {
        (Some(meta), _) => splice::insert_member(message, meta, ID, id),
        (None, Some(params)) => splice::insert_member(message, params, "_meta", &meta),
        (None, None) => {
            let params = format!("{{\"_meta\":{meta}}}");
            splice::insert_member(message, 0..message.len(), "params", &params)
        }
    };
    let insertion = Edit {
        range: at..at,
        with: text.as_bytes(),
    };
    splice::apply(message, &mut [insertion])
}

/// A notification without the id of its subscription: as a server of the legacy era would send it.
/// A `_meta` that held nothing else goes with it.
#[must_use]
pub fn untagged(message: &[u8], read: &Envelope) -> Vec<u8> {
    let cut = read.params.clone().and_then(|params| {
        let meta = named(message, params.clone(), "_meta").pop()?;
        let ids = named(message, meta.value.clone(), ID);
        let mut members = 0;
        json::members(message, meta.value.clone(), |_| members += 1).ok()?;
        Some(if members == ids.len() {
            splice::change_members(message, params, &[meta], &[])
        } else {
            splice::change_members(message, meta.value, &ids, &[])
        })
    });
    cut.map_or_else(
        || message.to_vec(),
        |cut| splice::apply(message, &mut cut.edits().collect::<Vec<_>>()),
    )
}

/// The first message of a subscription. `id` is raw JSON.
#[must_use]
pub fn acknowledgment(id: &str, honoured: &Filter) -> String {
    let (id_key, honoured) = (splice::quote(ID), honoured.to_json());
    format!(
        r#"{{"jsonrpc":"2.0","method":"{ACKNOWLEDGED}","params":{{"_meta":{{{id_key}:{id}}},"notifications":{honoured}}}}}"#
    )
}

/// The response that ends a subscription ("Graceful Closure"). `id` is raw JSON.
#[must_use]
pub fn closing(id: &str) -> String {
    let id_key = splice::quote(ID);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{{id_key}:{id}}}}}}}"#
    )
}

/// The members of an object with this key. Nothing is found in what is no object.
fn named(source: &[u8], object: Range<usize>, key: &str) -> Vec<Member> {
    let mut found = Vec::new();
    let valid = json::members(source, object, |member| {
        if json::is_text(source, member.key.clone(), key) {
            found.push(member);
        }
    });
    valid.map_or_else(|_| Vec::new(), |()| found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_message_is_tagged_and_nothing_else_of_it_changes() {
        for (plain, with_id) in [
            (
                r#"{"jsonrpc":"2.0","method":"x","params":{ "n":1.0}}"#,
                r#"{"jsonrpc":"2.0","method":"x","params":{ "n":1.0,"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"k":1.0}}}"#,
                r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"k":1.0,"io.modelcontextprotocol/subscriptionId":"s"}}}"#,
            ),
        ] {
            let read = envelope::read(plain.as_bytes()).unwrap();
            let tagged = tagged(plain.as_bytes(), &read, "\"s\"");
            assert_eq!(std::str::from_utf8(&tagged).unwrap(), with_id);
            let read = envelope::read(&tagged).unwrap();
            assert_eq!(
                id_of(&tagged, &read),
                Some(RpcId::from_json("\"s\"").unwrap())
            );
            let again = untagged(&tagged, &read);
            assert_eq!(std::str::from_utf8(&again).unwrap(), plain);
        }
    }

    #[test]
    fn params_are_made_where_there_are_none() {
        let plain = br#"{"jsonrpc":"2.0","method":"x"}"#;
        let tagged = tagged(plain, &envelope::read(plain).unwrap(), "1");
        assert_eq!(
            std::str::from_utf8(&tagged).unwrap(),
            r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#
        );
        let read = envelope::read(plain).unwrap();
        assert_eq!(id_of(plain, &read), None);
        assert_eq!(untagged(plain, &read), plain);
    }

    #[test]
    fn an_acknowledgment_says_what_is_honoured() {
        let filter = Filter {
            prompts: true,
            uris: ["a:b".to_owned()].into(),
            ..Filter::default()
        };
        let message = acknowledgment("7", &filter);
        let read = envelope::read(message.as_bytes()).unwrap();
        assert_eq!(read.method(message.as_bytes()), ACKNOWLEDGED);
        assert_eq!(id_of(message.as_bytes(), &read), Some(RpcId::Integer(7)));
        assert_eq!(honoured(message.as_bytes(), &read), filter);
        let silent = br#"{"jsonrpc":"2.0","method":"x"}"#;
        let read = envelope::read(silent).unwrap();
        assert!(honoured(silent, &read).is_empty());
    }

    #[test]
    fn the_last_message_is_a_response() {
        let message = closing("\"s\"");
        let read = envelope::read(message.as_bytes()).unwrap();
        assert_eq!(read.kind, envelope::Kind::Result);
        assert_eq!(
            message,
            r#"{"jsonrpc":"2.0","id":"s","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#
        );
    }
}
