//! The state of a server that all its connections see.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;

use crate::behaviour::Behaviour;
use crate::gate::Gates;
use crate::ledger::{Ledger, Row};
use crate::log::{Request, RequestLog};
use crate::script::Script;
use crate::session::{Outbox, Session, Sessions};

/// What counts how many are open now, and how many were open at most.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Gauge {
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.peak.fetch_max(now, Ordering::Relaxed);
        Entered(Arc::clone(self))
    }

    pub(crate) fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }
}

pub(crate) struct Entered(Arc<Gauge>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open `subscriptions/listen` of a modern client.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    pub(crate) id: Value,
    pub(crate) filter: Value,
    pub(crate) outbox: Arc<Outbox>,
}

/// Keeps a subscription registered.
pub(crate) struct Registered {
    shared: Arc<Shared>,
    outbox: Arc<Outbox>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared
            .subscriptions
            .lock()
            .retain(|subscription| !Arc::ptr_eq(&subscription.outbox, &self.outbox));
    }
}

/// What answers where no rule of the script does.
pub(crate) enum Role {
    /// The server's [`Behaviour`].
    McpServer,
    /// An authorization server.
    Issuer(Arc<crate::issuer::State>),
}

pub(crate) type ExitHook = Arc<dyn Fn() + Send + Sync>;

/// What every connection of a server sees.
pub(crate) struct Shared {
    pub(crate) role: Role,
    /// Scheme, host and port, as the server calls itself.
    pub(crate) origin: String,
    pub(crate) behaviour: RwLock<Arc<Behaviour>>,
    pub(crate) script: Script,
    pub(crate) log: RequestLog,
    pub(crate) ledger: Ledger,
    pub(crate) gates: Gates,
    pub(crate) sessions: Sessions,
    /// Stands for the session of servers that have none.
    pub(crate) sessionless: Arc<Session>,
    pub(crate) get_streams: Arc<Gauge>,
    pub(crate) connections: Arc<Gauge>,
    pub(crate) connection_numbers: AtomicU64,
    pub(crate) subscriptions: Mutex<Vec<Subscription>>,
    pub(crate) exit_hook: Mutex<Option<ExitHook>>,
    pub(crate) stop: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new(
        behaviour: Behaviour,
        ledger: Ledger,
        origin: String,
        role: Role,
    ) -> Arc<Self> {
        Arc::new(Self {
            role,
            origin,
            behaviour: RwLock::new(Arc::new(behaviour)),
            script: Script::default(),
            log: RequestLog::default(),
            ledger,
            gates: Gates::default(),
            sessions: Sessions::default(),
            sessionless: Arc::default(),
            get_streams: Arc::default(),
            connections: Arc::default(),
            connection_numbers: AtomicU64::new(0),
            subscriptions: Mutex::default(),
            exit_hook: Mutex::default(),
            stop: watch::Sender::new(0),
        })
    }

    pub(crate) fn behaviour(&self) -> Arc<Behaviour> {
        Arc::clone(&self.behaviour.read())
    }

    /// Notes a run of a tool.
    pub(crate) fn row(&self, tool: &str, request: &Request) {
        let arguments = request.arguments();
        let key = arguments
            .get("key")
            .and_then(Value::as_str)
            .map_or_else(|| arguments.to_string(), str::to_owned);
        let written = self.ledger.add(&Row {
            tool: tool.to_owned(),
            key,
            rpc_id: request.rpc_id().cloned().unwrap_or_default(),
        });
        written.expect("the ledger is the truth of every test: without it none means anything");
    }

    pub(crate) fn subscribe(self: &Arc<Self>, subscription: Subscription) -> Registered {
        let outbox = Arc::clone(&subscription.outbox);
        self.subscriptions.lock().push(subscription);
        Registered {
            shared: Arc::clone(self),
            outbox,
        }
    }

    /// The script's way to end the process: the hook, or else the server resets everything.
    pub(crate) fn exit(&self) {
        let hook = self.exit_hook.lock().clone();
        match hook {
            Some(hook) => hook(),
            None => self.stop.send_modify(|stops| *stops += 1),
        }
    }
}
