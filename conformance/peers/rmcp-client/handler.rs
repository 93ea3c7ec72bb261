//! What the peer answers to servers, and what it notes of what they say.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, Implementation,
    ProgressNotificationParam, ResourceUpdatedNotificationParam, SamplingMessage,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::json;
use tokio::sync::{mpsc, watch};

/// How long the last progress may be on its way, once the result of its call is here.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was said of one call.
#[derive(Debug, Default)]
struct Said {
    progress: Vec<f64>,
    is_complete: bool,
}

/// The progress of the present call.
#[derive(Clone)]
pub(crate) struct Progress(Arc<watch::Sender<Said>>);

impl Progress {
    /// Before a call.
    pub(crate) fn forget(&self) {
        self.0.send_replace(Said::default());
    }

    /// Waits for the last of it: the SDK handles each notification in a task of its own, so that the
    /// result of the call may be here first.
    pub(crate) async fn to_its_end(&self) -> Vec<f64> {
        let mut said = self.0.subscribe();
        let complete = said.wait_for(|said| said.is_complete);
        // Where it does not come, what did come tells the story.
        let _ = tokio::time::timeout(PATIENCE, complete).await;
        self.0.borrow().progress.clone()
    }
}

pub(crate) struct Handler {
    progress: Progress,
    updates: mpsc::UnboundedSender<String>,
}

impl Handler {
    /// With where it notes progress, and updates of resources.
    pub(crate) fn new() -> (Self, Progress, mpsc::UnboundedReceiver<String>) {
        let progress = Progress(Arc::new(watch::Sender::new(Said::default())));
        let (updates, updated) = mpsc::unbounded_channel();
        let handler = Self {
            progress: progress.clone(),
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
        said: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.0.send_modify(|so_far| {
            so_far.progress.push(said.progress);
            so_far.is_complete = said.total.is_some_and(|total| said.progress >= total);
        });
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
