//! The log level of a legacy session. Modern agents say with each request which log messages they want
//! (2026-07-28 server/utilities/logging); a legacy server is told once for all of them, and what one of
//! them did not ask for is not passed on to it.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::bridge::Level;
use steadfast_core::wire::json;
use steadfast_core::{Era, Generation};

use crate::call::{Call, Origin};
use crate::link::Link;
use crate::perform::ask::ask;
use crate::route::Route;

/// What is wanted of one connection, and what its server was told.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// The levels of calls under way.
    in_use: Mutex<Vec<Level>>,
    /// What the server was told last, and in which opening. Held while it is told.
    told: tokio::sync::Mutex<Option<(Generation, Level)>>,
}

/// A level that a call wants, as long as it is under way.
#[derive(Debug)]
pub(crate) struct InUse {
    link: Arc<Link>,
    level: Level,
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut in_use = self.link.levels.in_use.lock();
        if let Some(at) = in_use.iter().position(|level| *level == self.level) {
            in_use.swap_remove(at);
        }
    }
}

/// The level that a call of a modern agent asks for.
pub(crate) fn asked(call: &Call) -> Option<Level> {
    match call.origin {
        Origin::Legacy { .. } => None,
        Origin::Modern { .. } => {
            let range = call.params.log_level.clone()?;
            Level::from_json(call.message.get(range)?)
        }
    }
}

/// Whether a call asked for log messages of this level. A modern server knows that by itself; a legacy one
/// was told the lowest level of all who share its session.
pub(crate) fn wants(call: &Call, server: Era, level: Level) -> bool {
    match (&call.origin, server) {
        // server/utilities/logging: none "for a request that does not include this field".
        (Origin::Modern { .. }, Era::Legacy) => asked(call).is_some_and(|asked| level >= asked),
        (Origin::Legacy { client, .. }, Era::Legacy) => client
            .log_level
            .as_ref()
            .and_then(|set| Level::from_json(set.as_bytes()))
            .is_none_or(|set| level >= set),
        (Origin::Modern { .. } | Origin::Legacy { .. }, Era::Modern) => true,
    }
}

/// Takes note of the level that a call wants.
pub(crate) fn take_note(link: &Arc<Link>, call: &Call) -> Option<InUse> {
    let level = asked(call)?;
    link.levels.in_use.lock().push(level);
    Some(InUse {
        link: Arc::clone(link),
        level,
    })
}

impl InUse {
    /// Tells a legacy server the lowest level that is wanted now, where it was told another one.
    pub(crate) async fn tell(&self, route: &Arc<Route>) {
        let link = &self.link;
        if route.era() == Era::Modern || route.endpoint.is_some() || !has_logging(link) {
            return;
        }
        let mut told = link.levels.told.lock().await;
        let lowest = lowest(link).unwrap_or(self.level);
        if *told == Some((route.generation, lowest)) {
            return;
        }
        let id = link.next_id();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"logging/setLevel","params":{{"level":"{}"}}}}"#,
            lowest.as_str()
        );
        let aside = |message, _| link.aside(route, message);
        let question = (id, Bytes::from(body));
        match ask(&route.upstream, route.headers.clone(), question, &aside).await {
            Ok(_) => *told = Some((route.generation, lowest)),
            // The call is worth more than its log messages.
            Err(fault) => {
                tracing::debug!(server = %link.server, fault = %fault.message, "no log level set");
            }
        }
    }
}

/// The lowest level of the calls under way, and of what legacy agents set.
fn lowest(link: &Link) -> Option<Level> {
    let calls = link.levels.in_use.lock().iter().min().copied();
    let params = link.remembered.lock().log_level.clone();
    let session = params.and_then(|params| level_of_params(&params));
    calls.into_iter().chain(session).min()
}

/// The level in the raw params of a `logging/setLevel`.
fn level_of_params(params: &str) -> Option<Level> {
    let range = json::at_path(params.as_bytes(), 0..params.len(), &["level"])?;
    Level::from_json(params.as_bytes().get(range)?)
}

/// A legacy agent set a level, and the server took it.
pub(crate) fn was_set(link: &Arc<Link>, generation: Generation, params: &str) {
    // Where somebody is telling the server at this moment it is told once more with the next call.
    if let (Some(level), Ok(mut told)) = (level_of_params(params), link.levels.told.try_lock()) {
        *told = Some((generation, level));
    }
}

/// 2025-11-25 server/utilities/logging: only a server that declares it has levels.
fn has_logging(link: &Link) -> bool {
    link.hello().is_some_and(|hello| {
        let result = &hello.result;
        json::at_path(result, 0..result.len(), &["capabilities", "logging"]).is_some()
    })
}
