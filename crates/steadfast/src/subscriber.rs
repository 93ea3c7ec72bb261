//! Who wants to hear of changes of single resources. All conversations of an agent share its
//! connection: what one of them gives up another may still want.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::stream::subscription::{Filter, is_within};
use steadfast_core::wire::{envelope, splice};
use steadfast_core::{Era, bridge};
use tokio::sync::watch;

use crate::call::{Answer, Call, Message, Origin};
use crate::drive::Input;
use crate::handle::CallHandle;
use crate::link::Link;
use crate::report::Report;

/// What a modern server was asked to announce, and what it agreed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) asked: Filter,
    pub(crate) honoured: Filter,
}

/// The wishes of all subscribers of a connection.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    by_uri: Mutex<BTreeMap<String, BTreeSet<u64>>>,
    numbers: AtomicU64,
    /// What a modern server last said to them; `None` before it was asked.
    pub(crate) announced: watch::Sender<Option<Announced>>,
    /// Held while a legacy server is told: subscribing and unsubscribing do not overtake each other.
    telling: tokio::sync::Mutex<()>,
}

impl Wishes {
    /// Everything that anybody wants.
    pub(crate) fn uris(&self) -> BTreeSet<String> {
        self.by_uri.lock().keys().cloned().collect()
    }

    /// Whether nobody wanted it before.
    fn add(&self, number: u64, uri: &str) -> bool {
        let mut by_uri = self.by_uri.lock();
        if let Some(those) = by_uri.get_mut(uri) {
            those.insert(number);
            return false;
        }
        by_uri.insert(uri.to_owned(), BTreeSet::from([number]));
        true
    }

    /// Whether nobody wants it any more.
    fn remove(&self, number: u64, uri: &str) -> bool {
        let mut by_uri = self.by_uri.lock();
        let Some(those) = by_uri.get_mut(uri) else {
            return true;
        };
        those.remove(&number);
        let last = those.is_empty();
        if last {
            by_uri.remove(uri);
        }
        last
    }

    /// Whether anybody of those wants to hear of this resource, or of one that it lies beneath.
    fn is_wanted(&self, uri: &str, by: impl Fn(&BTreeSet<u64>) -> bool) -> bool {
        let by_uri = self.by_uri.lock();
        by_uri
            .iter()
            .any(|(of, those)| is_within(uri, of) && by(those))
    }

    /// The resources that nobody wants any more, now that this one is gone.
    fn remove_all(&self, number: u64) -> Vec<String> {
        let mut by_uri = self.by_uri.lock();
        let unwanted = by_uri.extract_if(.., |_, those| those.remove(&number) && those.is_empty());
        unwanted.map(|(uri, _)| uri).collect()
    }
}

/// One conversation's wishes to hear of changes of single resources. They end when it is dropped.
#[derive(Debug)]
pub struct Subscriber {
    link: Arc<Link>,
    number: u64,
}

impl Link {
    /// Somebody who has no wishes yet.
    pub fn subscriber(self: &Arc<Self>) -> Subscriber {
        Subscriber {
            link: Arc::clone(self),
            number: self.wishes.numbers.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether somebody asked to hear of changes of this resource.
    pub fn is_wanted(&self, uri: &str) -> bool {
        self.wishes.is_wanted(uri, |_| true)
    }

    /// What the server announces: what a legacy one declares, and what a modern one agreed to send.
    /// One that was never seen may announce all its lists.
    pub fn honoured(&self) -> Filter {
        let Some(hello) = self.hello() else {
            return Filter::all_lists();
        };
        let declared = Filter::declared(&hello.result);
        match hello.era() {
            Era::Legacy => Filter {
                uris: self.wishes.uris(),
                ..declared
            },
            Era::Modern => {
                let announced = self.wishes.announced.borrow();
                announced
                    .as_ref()
                    .map_or(declared, |it| it.honoured.clone())
            }
        }
    }
}

impl Subscriber {
    /// Whether it asked to hear of changes of this resource.
    #[must_use]
    pub fn wants(&self, uri: &str) -> bool {
        let wishes = &self.link.wishes;
        wishes.is_wanted(uri, |those| those.contains(&self.number))
    }

    /// Wants to hear of these resources. Those of them that the server is going to announce, once it
    /// has said so; or why it cannot be asked.
    ///
    /// # Errors
    ///
    /// Where the server is not available.
    pub async fn subscribe(&self, uris: BTreeSet<String>) -> Result<BTreeSet<String>, Box<Report>> {
        let link = &self.link;
        if uris.is_empty() {
            return Ok(uris);
        }
        let unavailable = || Box::new(link.report());
        let upstream = link.upstream.read().clone().ok_or_else(unavailable)?;
        let patience = upstream.retry.connect_timeout.duration();
        let route = link.route(None, patience).await.ok_or_else(unavailable)?;
        let honoured = match route.era() {
            Era::Modern => {
                let limit = upstream.retry.request_timeout.duration();
                self.subscribe_modern(&uris, limit).await
            }
            Era::Legacy => self.subscribe_legacy(&uris).await,
        };
        for uri in uris.difference(&honoured) {
            self.unsubscribe(uri).await;
        }
        Ok(honoured)
    }

    /// Waits for an acknowledgment that answers for these resources.
    async fn subscribe_modern(
        &self,
        uris: &BTreeSet<String>,
        limit: std::time::Duration,
    ) -> BTreeSet<String> {
        for uri in uris {
            self.link.wishes.add(self.number, uri);
        }
        let mut announced = self.link.wishes.announced.subscribe();
        self.link.tell(Input::Wanted);
        let answered = announced.wait_for(|it| {
            it.as_ref()
                .is_some_and(|announced| uris.is_subset(&announced.asked.uris))
        });
        match tokio::time::timeout(limit, answered).await {
            Ok(Ok(answer)) => {
                let honoured = answer.as_ref().map(|it| &it.honoured.uris);
                honoured.map_or_else(BTreeSet::new, |it| uris.intersection(it).cloned().collect())
            }
            Ok(Err(_)) | Err(_) => BTreeSet::new(),
        }
    }

    async fn subscribe_legacy(&self, uris: &BTreeSet<String>) -> BTreeSet<String> {
        let _telling = self.link.wishes.telling.lock().await;
        let mut honoured = BTreeSet::new();
        for uri in uris {
            let is_new = self.link.wishes.add(self.number, uri);
            if !is_new || tell(&self.link, "resources/subscribe", uri).await {
                honoured.insert(uri.clone());
            }
        }
        honoured
    }

    /// Does not want to hear of a resource any more.
    pub async fn unsubscribe(&self, uri: &str) {
        if self.link.wishes.remove(self.number, uri) {
            unwanted(&self.link, vec![uri.to_owned()]).await;
        }
    }

    /// The agent's own `resources/subscribe` goes to a legacy server as it is.
    pub fn joins(&self, uri: &str) {
        self.link.wishes.add(self.number, uri);
    }

    /// The same for `resources/unsubscribe`. Whether nobody else wants to hear of the resource, so
    /// that the server may be told.
    #[must_use]
    pub fn leaves(&self, uri: &str) -> bool {
        self.link.wishes.remove(self.number, uri)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let uris = self.link.wishes.remove_all(self.number);
        if uris.is_empty() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let link = Arc::clone(&self.link);
            runtime.spawn(async move { unwanted(&link, uris).await });
        }
    }
}

/// Nobody wants to hear of these resources any more.
async fn unwanted(link: &Arc<Link>, uris: Vec<String>) {
    let era = link.hello().map(|hello| hello.era());
    match era {
        Some(Era::Modern) => link.tell(Input::Wanted),
        Some(Era::Legacy) => {
            let _telling = link.wishes.telling.lock().await;
            for uri in uris {
                // Somebody may have come meanwhile.
                if !link.wishes.by_uri.lock().contains_key(&uri) {
                    tell(link, "resources/unsubscribe", &uri).await;
                }
            }
        }
        None => {}
    }
}

/// Sends a request of the keeper's own to a legacy server, as an agent's call would go: it outlives a
/// lost session, and the next session remembers it. Whether there was a result.
async fn tell(link: &Arc<Link>, method: &str, uri: &str) -> bool {
    let Some(hello) = link.hello() else {
        return false;
    };
    let uri = splice::quote(uri);
    let message = Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"uri":{uri}}}}}"#
    ));
    let Ok(envelope) = envelope::read(&message) else {
        return false;
    };
    let call = Call {
        params: envelope::read_params(&message, &envelope),
        message,
        envelope,
        origin: Origin::Legacy {
            revision: hello.revision,
            client: Arc::new(bridge::Client {
                info: "{}".to_owned(),
                capabilities: "{}".to_owned(),
                log_level: None,
            }),
        },
    };
    let is_result =
        |message: &Bytes| envelope::read(message).is_ok_and(|it| it.kind == envelope::Kind::Result);
    match link.call(call, CallHandle::new()).await {
        Answer::Whole { message, .. } => is_result(&message),
        Answer::Stream(mut stream) => loop {
            match stream.next().await {
                Some(Message::Response(message)) => break is_result(&message),
                Some(Message::Notification(_) | Message::Request(_)) => {}
                Some(Message::Failed(_)) | None => break false,
            }
        },
        Answer::Failed(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_gives_up_another_may_still_want() {
        let wishes = Wishes::default();
        assert!(wishes.add(1, "a"));
        assert!(!wishes.add(2, "a"));
        assert!(wishes.add(2, "b"));
        assert!(!wishes.remove(1, "a"));
        assert_eq!(wishes.uris().len(), 2);
        assert_eq!(wishes.remove_all(2), ["a", "b"]);
        assert!(wishes.uris().is_empty());
        assert!(wishes.remove(1, "a"), "nobody wants what nobody wanted");
    }
}
