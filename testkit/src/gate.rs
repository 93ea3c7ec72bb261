//! Named gates: a test decides what happens next without sleeping.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::PATIENCE;

/// Gates by name. A gate that nobody has named yet is closed.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    gates: Mutex<BTreeMap<String, Gate>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Gate {
    open: bool,
    /// Waiters that may pass although the gate is closed.
    passes: usize,
    arrived: usize,
}

impl Gates {
    /// Opens a gate for everyone, from now on.
    pub fn open(&self, name: &str) {
        self.change(name, |gate| gate.open = true);
    }

    /// Closes a gate again.
    pub fn close(&self, name: &str) {
        self.change(name, |gate| gate.open = false);
    }

    /// Lets one waiter through, the present or the next one.
    pub fn let_one_pass(&self, name: &str) {
        self.change(name, |gate| gate.passes += 1);
    }

    /// Returns once `count` waiters, in all, have come to the gate; fails the test if they do not come.
    pub async fn arrived(&self, name: &str, count: usize) {
        let arrived = self.until(name, |gate| gate.arrived >= count);
        let in_time = tokio::time::timeout(PATIENCE, arrived).await.is_ok();
        assert!(in_time, "fewer than {count} came to the gate {name}");
    }

    /// Waits for the gate.
    pub async fn wait(&self, name: &str) {
        self.change(name, |gate| gate.arrived += 1);
        self.until(name, |gate| {
            if gate.open {
                return true;
            }
            let pass = gate.passes > 0;
            gate.passes = gate.passes.saturating_sub(1);
            pass
        })
        .await;
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Gate)) {
        change(self.inner.gates.lock().entry(name.to_owned()).or_default());
        self.inner.changed.notify_waiters();
    }

    async fn until(&self, name: &str, mut passed: impl FnMut(&mut Gate) -> bool) {
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a change between look and wait is not lost.
            changed.as_mut().enable();
            if passed(self.inner.gates.lock().entry(name.to_owned()).or_default()) {
                return;
            }
            changed.await;
        }
    }
}
