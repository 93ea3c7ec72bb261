//! What an agent tells all of its servers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use steadfast::{Call, CallHandle, Link, Origin};
use steadfast_core::Era;
use steadfast_core::wire::json;

use crate::agents::inbound::Inbound;
use crate::agents::legacy::origin;
use crate::agents::session::Session;

/// How long servers may hold up the answer to a changed log level.
const PATIENCE: Duration = Duration::from_secs(1);

/// Passes a notification on to all servers that understand it.
pub(crate) async fn notify(links: &[Arc<Link>], message: &Bytes, origin: &Origin) {
    join_all(
        links
            .iter()
            .map(|link| link.notify(message.clone(), origin)),
    )
    .await;
}

/// Passes `logging/setLevel` on to the servers with a session: a modern one is told the level with every
/// request, by the keeper.
pub(crate) async fn set_level(links: &[Arc<Link>], inbound: &Inbound, origin: &Origin) {
    let calls = links.iter().filter(|link| logs(link)).map(|link| {
        let call = Call {
            message: inbound.message.clone(),
            envelope: inbound.envelope.clone(),
            params: inbound.params.clone(),
            origin: origin.clone(),
        };
        // One that takes longer is told all the same.
        tokio::time::timeout(PATIENCE, link.call(call, CallHandle::new()))
    });
    join_all(calls).await;
}

/// Tells a server that has come the level that an agent asked for before.
pub(super) async fn levels(link: &Arc<Link>, sessions: &[Arc<Session>]) {
    let level = |session: &Arc<Session>| {
        let level = session.client().log_level.clone()?;
        Some((level, origin(session)))
    };
    let Some((level, origin)) = sessions.iter().rev().find_map(level) else {
        return;
    };
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{{"level":{level}}}}}"#
    );
    if let Ok(inbound) = Inbound::read(message.into()) {
        set_level(std::slice::from_ref(link), &inbound, &origin).await;
    }
}

fn logs(link: &Arc<Link>) -> bool {
    link.hello().is_some_and(|hello| {
        let said = &hello.result;
        hello.era() == Era::Legacy
            && json::at_path(said, 0..said.len(), &["capabilities", "logging"]).is_some()
    })
}
