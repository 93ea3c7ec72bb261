//! Whether requests can go out on a connection now, and waiting until they can.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::Generation;

use super::{Link, Phase};
use crate::route::Route;

impl Link {
    /// Waits until it is connected, at most this long.
    pub async fn connected(&self, limit: Duration) -> bool {
        let mut phase = self.phase.subscribe();
        tokio::time::timeout(
            limit,
            phase.wait_for(|phase| matches!(phase, Phase::Ready(_))),
        )
        .await
        .is_ok_and(|found| found.is_ok())
    }

    /// Waits until the attempt to connect that is under way has come to an end, at most this long.
    /// Whether it is connected then.
    pub async fn settled(&self, limit: Duration) -> bool {
        self.route(None, limit).await.is_some()
    }

    /// Whether requests can go out now.
    pub fn is_connected(&self) -> bool {
        self.route_now(None).is_some()
    }

    /// A route that is newer than `after`, if there is one now.
    pub(crate) fn route_now(&self, after: Option<Generation>) -> Option<Arc<Route>> {
        match &*self.phase.borrow() {
            Phase::Ready(route) if after.is_none_or(|after| route.generation > after) => {
                Some(Arc::clone(route))
            }
            Phase::Ready(_) | Phase::Opening | Phase::Down => None,
        }
    }

    /// A route that is newer than `after`, waiting while an attempt is under way, at most `limit`.
    pub(crate) async fn route(
        &self,
        after: Option<Generation>,
        limit: Duration,
    ) -> Option<Arc<Route>> {
        let fresh = |route: &Route| after.is_none_or(|after| route.generation > after);
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| match phase {
            Phase::Ready(route) => fresh(route),
            Phase::Opening => false,
            Phase::Down => true,
        });
        match tokio::time::timeout(limit, settled)
            .await
            .ok()?
            .ok()?
            .clone()
        {
            Phase::Ready(route) => Some(route),
            Phase::Opening | Phase::Down => None,
        }
    }
}
