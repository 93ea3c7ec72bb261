//! Asks again for lists whose changes a modern server does not announce, while somebody listens.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::catalog::List;
use steadfast_core::now::{Millis, Mono};
use steadfast_core::stream::Policy;
use steadfast_core::stream::subscription::{Filter, ask_again_at};

use crate::catalog::Listing;
use crate::clock;
use crate::link::Link;

/// One list that is looked after.
struct Watched {
    list: List,
    /// The notification that its change would have been.
    method: &'static str,
    /// What agents know of.
    seen: Option<Arc<Listing>>,
    due: Mono,
}

/// Looks after these lists until it is aborted.
pub(super) async fn watch(link: Arc<Link>, lists: Filter, policy: Policy) {
    let now = clock::mono();
    let mut watched: Vec<Watched> = lists
        .list_methods()
        .flat_map(|method| List::of_changed(method).map(move |list| (method, list)))
        .map(|(method, list)| {
            let seen = link.listed(list);
            let ttl = ttl(seen.as_ref());
            Watched {
                list,
                method,
                // A first look shows what there is to compare with.
                due: if seen.is_some() {
                    ask_again_at(now, ttl, &policy)
                } else {
                    now
                },
                seen,
            }
        })
        .collect();
    while let Some(next) = watched.iter().map(|it| it.due).min() {
        clock::wait_until(Some(next)).await;
        let mut changed = Vec::new();
        for it in watched.iter_mut().filter(|it| it.due <= next) {
            let is_new = link.is_listened_to() && it.look(&link).await;
            if is_new && !changed.contains(&it.method) {
                changed.push(it.method);
            }
            it.due = ask_again_at(clock::mono(), ttl(it.seen.as_ref()), &policy);
        }
        for method in changed {
            let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            link.tell_listener(Bytes::from(message));
        }
    }
}

impl Watched {
    /// Asks. Whether the list is another one than agents know of.
    async fn look(&mut self, link: &Arc<Link>) -> bool {
        // What was listed before it was asked for anew is what agents may know.
        let before = self.seen.take().or_else(|| link.listed(self.list));
        let Some(listing) = link.list(self.list).await else {
            self.seen = before;
            return false;
        };
        self.seen = Some(Arc::clone(&listing));
        before.is_some_and(|before| before.entries != listing.entries)
    }
}

fn ttl(listing: Option<&Arc<Listing>>) -> Millis {
    listing.map_or(Millis::ZERO, |listing| listing.hints.ttl)
}
