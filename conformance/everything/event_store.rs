//! The events of all streams, in memory: what a client resumes from.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::stream;
use parking_lot::Mutex;
use rmcp::model::ServerJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, ServerSseMessage,
};
use tokio::sync::watch;

/// How many events are kept; the oldest go first.
const CAPACITY: usize = 10_000;

#[derive(Debug, Clone)]
pub(crate) struct MemoryEventStore {
    log: Arc<Mutex<Log>>,
    appended: watch::Sender<u64>,
    /// Part of every identifier, so that none from before a restart is taken for one of ours.
    epoch: u64,
}

#[derive(Debug, Default)]
struct Log {
    events: VecDeque<Stored>,
    last: u64,
}

#[derive(Debug)]
struct Stored {
    number: u64,
    stream: Arc<str>,
    event: ServerSseMessage,
}

impl MemoryEventStore {
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        Ok(Self {
            log: Arc::default(),
            appended: watch::channel(0).0,
            epoch: getrandom::u64()?,
        })
    }

    fn id(&self, number: u64) -> EventId {
        format!("{:016x}-{number}", self.epoch)
    }

    fn number(&self, id: &str) -> Option<u64> {
        let (epoch, number) = id.split_once('-')?;
        (u64::from_str_radix(epoch, 16).ok()? == self.epoch).then(|| number.parse().ok())?
    }
}

impl Log {
    fn find(&self, number: u64) -> Option<&Stored> {
        let at = self
            .events
            .binary_search_by_key(&number, |stored| stored.number)
            .ok()?;
        self.events.get(at)
    }

    fn next(&self, stream: &str, after: u64) -> Option<&Stored> {
        let from = self.events.partition_point(|stored| stored.number <= after);
        self.events
            .range(from..)
            .find(|stored| &*stored.stream == stream)
    }
}

/// The response is the last event of a request's stream.
fn is_last(event: &ServerSseMessage) -> bool {
    matches!(
        event.message.as_deref(),
        Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
    )
}

#[async_trait]
impl EventStore for MemoryEventStore {
    async fn store_event(
        &self,
        stream_id: &str,
        event: &ServerSseMessage,
    ) -> Result<EventId, EventStoreError> {
        let number = {
            let mut log = self.log.lock();
            log.last += 1;
            let number = log.last;
            let mut event = event.clone();
            event.event_id = Some(self.id(number));
            if log.events.len() == CAPACITY {
                log.events.pop_front();
            }
            log.events.push_back(Stored {
                number,
                stream: stream_id.into(),
                event,
            });
            number
        };
        self.appended.send_replace(number);
        Ok(self.id(number))
    }

    /// Replays, and then goes on with what is appended: a resumed stream is live again.
    async fn replay_events_after(
        &self,
        last_event_id: &str,
    ) -> Result<EventStream, EventStoreError> {
        let (stream, number, ended) = self
            .number(last_event_id)
            .and_then(|number| {
                let log = self.log.lock();
                let stored = log.find(number)?;
                Some((Arc::clone(&stored.stream), number, is_last(&stored.event)))
            })
            .ok_or_else(|| format!("unknown event id {last_event_id}"))?;
        let log = Arc::clone(&self.log);
        let appended = self.appended.subscribe();
        let events = stream::unfold(
            (number, ended, appended),
            move |(after, ended, mut appended)| {
                let (log, stream) = (Arc::clone(&log), Arc::clone(&stream));
                async move {
                    if ended {
                        return None;
                    }
                    loop {
                        appended.mark_unchanged();
                        let next = log
                            .lock()
                            .next(&stream, after)
                            .map(|stored| (stored.number, stored.event.clone()));
                        if let Some((number, event)) = next {
                            let ended = is_last(&event);
                            return Some((event, (number, ended, appended)));
                        }
                        appended.changed().await.ok()?;
                    }
                }
            },
        );
        Ok(Box::pin(events))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::time::Duration;

    use futures_util::StreamExt as _;

    use super::*;

    fn event() -> ServerSseMessage {
        ServerSseMessage::retry(Duration::from_millis(1))
    }

    #[tokio::test]
    async fn a_replay_yields_only_later_events_of_its_stream_and_then_goes_on_live() {
        let store = MemoryEventStore::new().unwrap();
        let first = store.store_event("a", &event()).await.unwrap();
        store.store_event("b", &event()).await.unwrap();
        let second = store.store_event("a", &event()).await.unwrap();
        let mut replay = store.replay_events_after(&first).await.unwrap();
        assert_eq!(replay.next().await.unwrap().event_id.unwrap(), second);
        let appending = store.clone();
        let (next, third) = tokio::join!(replay.next(), async move {
            appending.store_event("b", &event()).await.unwrap();
            appending.store_event("a", &event()).await.unwrap()
        });
        assert_eq!(next.unwrap().event_id.unwrap(), third);
    }

    #[tokio::test]
    async fn an_identifier_of_another_run_is_unknown() {
        let (store, other) = (
            MemoryEventStore::new().unwrap(),
            MemoryEventStore::new().unwrap(),
        );
        store.store_event("a", &event()).await.unwrap();
        let foreign = other.store_event("a", &event()).await.unwrap();
        assert!(store.replay_events_after(&foreign).await.is_err());
    }
}
