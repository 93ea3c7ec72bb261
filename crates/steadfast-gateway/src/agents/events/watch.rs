//! Whether the credential of a reader still covers the stream that it reads.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use serde_json::json;
use steadfast_core::code;
use steadfast_core::replay::{Access, Requirement, Resource, owed};
use tokio::time::Sleep;

use crate::clock;

/// Looks again when what is required changes, and when the credential expires.
#[derive(Debug)]
pub(super) struct Watch {
    access: Access,
    expiry: Option<Pin<Box<Sleep>>>,
    /// How many requirements have been looked at.
    looked_at: Option<usize>,
}

impl Watch {
    pub(super) fn new(access: Access) -> Self {
        let expiry = access.expires_at.map(|at| {
            let left = u64::try_from(at.0 - clock::wall().0).unwrap_or_default();
            Box::pin(tokio::time::sleep(Duration::from_millis(left)))
        });
        Self {
            access,
            expiry,
            looked_at: None,
        }
    }

    /// What the credential lacks for what the reader, which has seen the events up to `after`, is still to get.
    pub(super) fn missing(
        &mut self,
        cx: &mut Context<'_>,
        requirements: &[Requirement],
        after: u64,
    ) -> Vec<Resource> {
        let expired = self.expiry.as_mut();
        let expired = expired.is_some_and(|it| it.as_mut().poll(cx).is_ready());
        if !expired && self.looked_at == Some(requirements.len()) {
            return Vec::new();
        }
        self.looked_at = Some(requirements.len());
        self.access
            .missing(owed(requirements, after), clock::wall())
    }
}

/// The end of a stream whose reader may not see what comes next. Without an id: the reader's last one is still that of
/// the last message.
pub(super) fn write_refusal(last_event_id: &str, missing: &[Resource], out: &mut Vec<u8>) {
    let missing: Vec<&str> = missing.iter().map(Resource::as_str).collect();
    let data = json!({
        "code": code::NOT_COVERED.to_string(),
        "message": "the credential does not cover, or no longer, what this stream has to deliver",
        "hint": code::NOT_COVERED.hint,
        "last_event_id": last_event_id,
        "missing": missing,
    });
    out.extend_from_slice(format!("event: error\ndata: {data}\n\n").as_bytes());
}
