//! What the operator's policy says about one call.

use steadfast_core::Effect;
use steadfast_core::catalog::List;
use steadfast_core::wire::json;

use crate::call::{Call, Origin};
use crate::config::OnDisconnect;
use crate::link::Link;
use crate::route::Upstream;

/// What the operator's policy says about one call.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) method: String,
    pub(super) tool: Option<String>,
    pub(super) effect: Effect,
    /// Whether a lost read is asked again.
    pub(super) reissue: bool,
    /// Whether the upstream is told when the caller goes away.
    pub(super) cancel_on_drop: bool,
    /// A stream that lives until somebody closes it: no limits of time.
    pub(super) endless: bool,
}

impl Policy {
    pub(super) fn of(link: &Link, call: &Call, upstream: Option<&Upstream>) -> Self {
        let method = call.envelope.method(&call.message).into_owned();
        let tool = (method == "tools/call")
            .then(|| call.params.name.clone())
            .flatten()
            .and_then(|range| json::text(&call.message, range))
            .map(|name| name.into_owned());
        let configured = upstream
            .zip(tool.as_ref())
            .and_then(|(upstream, tool)| upstream.config.tools.get(tool));
        let effect = match (&tool, configured) {
            (Some(_), Some(policy)) => policy.effect,
            // A server's annotations are hints, and count only where the operator trusts them (architecture, writes 13).
            (Some(tool), None) if is_trusted(upstream) && is_read_only(link, tool) => Effect::Read,
            (Some(_), None) => Effect::Write,
            (None, _) => Effect::of_method(&method),
        };
        let endless = method == "subscriptions/listen";
        let on_disconnect = configured.and_then(|policy| policy.on_disconnect);
        let cancel = match on_disconnect {
            Some(OnDisconnect::Cancel) => true,
            Some(OnDisconnect::Observe) => false,
            None => effect == Effect::Read,
        };
        Self {
            reissue: effect == Effect::Read
                && !endless
                && configured.and_then(|policy| policy.reissue).unwrap_or(true),
            // Before 2026-07-28 a disconnect is not a cancellation (architecture, connections 9).
            cancel_on_drop: cancel && matches!(call.origin, Origin::Modern { .. }),
            effect,
            endless,
            method,
            tool,
        }
    }

    /// Whether a legacy session is to remember it, and its successors after it.
    pub(super) fn is_remembered(&self) -> bool {
        matches!(
            self.method.as_str(),
            "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
        )
    }
}

fn is_trusted(upstream: Option<&Upstream>) -> bool {
    upstream.is_some_and(|upstream| upstream.config.trust_annotations)
}

fn is_read_only(link: &Link, tool: &str) -> bool {
    let tools = link.listed(List::Tools);
    tools.is_some_and(|tools| tools.is_read_only(tool))
}
