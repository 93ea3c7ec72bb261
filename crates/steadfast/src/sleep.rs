//! Watches for sleep of the machine, or of this process.

use steadfast_core::sleep::{Policy, Slept, slept};

use crate::clock;

/// Tells of each sleep once it is over, until `tell` says that nobody listens any more.
pub(crate) async fn watch(policy: Policy, tell: impl Fn(Slept) -> bool) {
    let mut before = clock::now();
    loop {
        tokio::time::sleep(policy.every().duration()).await;
        let now = clock::now();
        if let Some(slept) = slept(before, now, &policy)
            && !tell(slept)
        {
            return;
        }
        before = now;
    }
}
