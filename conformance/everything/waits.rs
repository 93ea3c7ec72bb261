//! Calls that last until their client cancels them, and a count of them for whoever wants to know.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::service::RequestContext;

/// A client that never cancels shall not keep the server busy for ever.
const LONGEST: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    begun: u32,
    cancelled: u32,
}

/// By a key that the caller chooses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits(Arc<Mutex<BTreeMap<String, Count>>>);

impl Waits {
    /// Waits to be cancelled.
    pub(crate) async fn wait(&self, key: &str, context: &RequestContext<RoleServer>) {
        self.0.lock().entry(key.to_owned()).or_default().begun += 1;
        // Where the stream of a request is closed, its handler may be dropped before it sees its own cancellation.
        let mut call = Call {
            waits: self,
            key,
            cancelled: true,
        };
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = tokio::time::sleep(LONGEST) => call.cancelled = false,
        }
    }

    pub(crate) fn report(&self, key: &str) -> String {
        let Count { begun, cancelled } = self.0.lock().get(key).copied().unwrap_or_default();
        format!("{begun} begun, {cancelled} cancelled")
    }
}

struct Call<'a> {
    waits: &'a Waits,
    key: &'a str,
    cancelled: bool,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.cancelled {
            let mut counts = self.waits.0.lock();
            counts.entry(self.key.to_owned()).or_default().cancelled += 1;
        }
    }
}
