//! Legacy sessions, and the outboxes that streams are fed from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

/// One event of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) data: String,
    pub(crate) retry: Option<u64>,
}

/// The events of one stream, kept, so that a stream can be followed from any position, also after a drop.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Set where events carry ids: the ids are `{name}-{position}`.
    name: Option<String>,
    frames: Mutex<(Vec<Frame>, bool)>,
    changed: Notify,
}

impl Outbox {
    /// Events without ids.
    pub(crate) fn anonymous() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Events with ids; begins with a priming event (id and empty data), as 2025-11-25 asks of resumable streams.
    pub(crate) fn resumable(name: String, retry: Option<u64>) -> Arc<Self> {
        let outbox = Self {
            name: Some(name),
            ..Self::default()
        };
        outbox.add(Frame {
            retry,
            ..Frame::default()
        });
        Arc::new(outbox)
    }

    pub(crate) fn push(&self, message: &Value) {
        self.add(Frame {
            data: message.to_string(),
            ..Frame::default()
        });
    }

    pub(crate) fn add(&self, mut frame: Frame) {
        let mut frames = self.frames.lock();
        if frames.1 {
            return;
        }
        frame.id = self
            .name
            .as_ref()
            .map(|name| format!("{name}-{}", frames.0.len()));
        frames.0.push(frame);
        drop(frames);
        self.changed.notify_waiters();
    }

    /// No further event: the stream ends after the last.
    pub(crate) fn close(&self) {
        self.frames.lock().1 = true;
        self.changed.notify_waiters();
    }

    /// The event at a position, once there is one; `None` after the end.
    pub(crate) async fn frame(&self, position: usize) -> Option<Frame> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let frames = self.frames.lock();
                match frames.0.get(position) {
                    Some(frame) => return Some(frame.clone()),
                    None if frames.1 => return None,
                    None => {}
                }
            }
            changed.await;
        }
    }
}

/// A legacy session, or the only one of a server that issues no session ids.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) revision: String,
    pub(crate) capabilities: Mutex<Value>,
    streams: Mutex<BTreeMap<String, Arc<Outbox>>>,
    stream_count: AtomicUsize,
    /// The outbox of the current GET stream.
    pub(crate) listening: Mutex<Option<Arc<Outbox>>>,
    /// Runs by the JSON text of their request id.
    running: Mutex<BTreeMap<String, (usize, AbortHandle)>>,
    /// Questions to the client that wait for its answer.
    questions: Mutex<BTreeMap<String, oneshot::Sender<Value>>>,
    question_count: AtomicUsize,
    pub(crate) log_level: Mutex<Option<String>>,
    pub(crate) subscriptions: Mutex<Vec<String>>,
    pub(crate) initialized: AtomicBool,
}

impl Session {
    /// A new stream; its events have ids where `resumable` is set.
    pub(crate) fn open_stream(&self, resumable: bool, retry: Option<u64>) -> Arc<Outbox> {
        if !resumable {
            return Outbox::anonymous();
        }
        let name = format!(
            "{}s{}",
            self.id,
            self.stream_count.fetch_add(1, Ordering::Relaxed)
        );
        let outbox = Outbox::resumable(name.clone(), retry);
        self.streams.lock().insert(name, Arc::clone(&outbox));
        outbox
    }

    /// The stream and position after an event id.
    pub(crate) fn resume(&self, event_id: &str) -> Option<(Arc<Outbox>, usize)> {
        let (name, position) = event_id.rsplit_once('-')?;
        let outbox = self.streams.lock().get(name).cloned()?;
        Some((outbox, position.parse::<usize>().ok()? + 1))
    }

    pub(crate) fn started(&self, id: &Value, index: usize, run: AbortHandle) {
        self.running.lock().insert(id.to_string(), (index, run));
    }

    pub(crate) fn finished(&self, id: &Value) {
        self.running.lock().remove(&id.to_string());
    }

    /// Stops the run of a request; its position in the log, if it was running.
    pub(crate) fn cancel(&self, id: &Value) -> Option<usize> {
        let (index, run) = self.running.lock().remove(&id.to_string())?;
        run.abort();
        Some(index)
    }

    /// Registers a question; its request id and where the answer will arrive.
    pub(crate) fn question(&self) -> (String, oneshot::Receiver<Value>) {
        let id = format!(
            "ask-{}",
            self.question_count.fetch_add(1, Ordering::Relaxed) + 1
        );
        let (sender, receiver) = oneshot::channel();
        self.questions.lock().insert(id.clone(), sender);
        (id, receiver)
    }

    /// Hands in the client's answer to a question.
    pub(crate) fn answered(&self, response: &Value) {
        let waiting = response
            .get("id")
            .and_then(Value::as_str)
            .and_then(|id| self.questions.lock().remove(id));
        if let Some(waiting) = waiting {
            // The run may have been cancelled in the meantime.
            let _run_gone = waiting.send(response.clone());
        }
    }

    /// Sends a message on the GET stream; one that was dropped gets it when it is resumed.
    pub(crate) fn notify(&self, message: &Value) {
        if let Some(outbox) = &*self.listening.lock() {
            outbox.push(message);
        }
    }

    fn end(&self) {
        if let Some(outbox) = self.listening.lock().take() {
            outbox.close();
        }
    }
}

/// The sessions of one server.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    live: Mutex<BTreeMap<String, Arc<Session>>>,
    created: AtomicUsize,
    peak: AtomicUsize,
}

impl Sessions {
    pub(crate) fn create(&self, prefix: &str, revision: &str, capabilities: Value) -> Arc<Session> {
        let number = self.created.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("{prefix}{number}");
        let revision = revision.to_owned();
        let session = Arc::new(Session {
            id: id.clone(),
            revision,
            capabilities: Mutex::new(capabilities),
            ..Session::default()
        });
        let mut live = self.live.lock();
        live.insert(id, Arc::clone(&session));
        self.peak.fetch_max(live.len(), Ordering::Relaxed);
        session
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.live.lock().get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.live.lock().values().cloned().collect()
    }

    pub(crate) fn remove(&self, id: &str) -> bool {
        let removed = self.live.lock().remove(id);
        if let Some(session) = &removed {
            session.end();
        }
        removed.is_some()
    }

    pub(crate) fn forget_all(&self) {
        for session in std::mem::take(&mut *self.live.lock()).into_values() {
            session.end();
        }
    }

    pub(crate) fn live(&self) -> usize {
        self.live.lock().len()
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn created(&self) -> usize {
        self.created.load(Ordering::Relaxed)
    }
}
