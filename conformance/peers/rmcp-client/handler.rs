//! What the peer answers to servers, and what it notes of what they say.

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
    ProgressNotificationParam, ResourceUpdatedNotificationParam, SamplingMessage,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::json;
use tokio::sync::mpsc;

/// The progress of the calls so far.
pub(crate) type Progress = Arc<Mutex<Vec<f64>>>;

pub(crate) struct Handler {
    progress: Progress,
    updates: mpsc::UnboundedSender<String>,
}

impl Handler {
    /// With where it notes progress, and updates of resources.
    pub(crate) fn new() -> (Self, Progress, mpsc::UnboundedReceiver<String>) {
        let progress = Progress::default();
        let (updates, updated) = mpsc::unbounded_channel();
        let handler = Self {
            progress: Arc::clone(&progress),
            updates,
        };
        (handler, progress, updated)
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder()
            .enable_elicitation()
            .enable_sampling()
            .build();
        ClientConfig::new(
            capabilities,
            Implementation::new("peer-rmcp", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let content = json!({ "username": "peer", "email": "peer@example.com" });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn create_message(
        &self,
        _request: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let message = SamplingMessage::assistant_text("the peer says so");
        let result = CreateMessageResult::new(message, "peer".to_owned());
        Ok(result.with_stop_reason(CreateMessageResult::STOP_REASON_END_TURN))
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().push(progress.progress);
    }

    async fn on_resource_updated(
        &self,
        update: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        // Nobody waits for it any more once the peer ends.
        let _ = self.updates.send(update.uri);
    }
}
