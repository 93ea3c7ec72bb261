//! Sessions of the revisions before 2026-07-28: rmcp's own, with replay, and with streams that a tool can close.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, SessionError,
};
use rmcp::transport::streamable_http_server::session::{
    EventStore as _, ServerSseMessage, SessionId, SessionManager,
};
use tokio_util::sync::CancellationToken;

use crate::event_store::MemoryEventStore;

/// Given to the handler of every request of a session: closes the response stream, and nothing else. What the handler
/// sends afterwards is kept for the client to resume (2025-11-25, Transports, "Sending Messages to the Server", 6).
#[derive(Debug, Clone)]
pub(crate) struct CloseStream(CancellationToken);

impl CloseStream {
    pub(crate) fn close(&self) {
        self.0.cancel();
    }
}

/// The event store is hidden from the service itself, which would otherwise make requests of 2026-07-28 resumable too.
#[derive(Debug)]
pub(crate) struct Sessions {
    inner: LocalSessionManager,
    events: MemoryEventStore,
    retry: Duration,
}

impl Sessions {
    pub(crate) fn new(retry: Duration) -> Result<Self, getrandom::Error> {
        let events = MemoryEventStore::new()?;
        let mut inner = LocalSessionManager::default().with_event_store(Arc::new(events.clone()));
        inner.session_config.sse_retry = Some(retry);
        Ok(Self {
            inner,
            events,
            retry,
        })
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.inner.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<rmcp::model::ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let close = CancellationToken::new();
        message.insert_extension(CloseStream(close.clone()));
        let stream = self.inner.create_stream(id, message).await?;
        Ok(stream.take_until(close.cancelled_owned()))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.inner.create_standalone_stream(id).await?;
        let mut priming = ServerSseMessage::retry(self.retry);
        // The name that rmcp's sessions give to this stream.
        let event_id = self
            .events
            .store_event(&format!("{id}:common"), &priming)
            .await
            .map_err(SessionError::EventStore)?;
        priming.event_id = Some(event_id);
        Ok(futures_util::stream::once(async move { priming }).chain(stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.resume(id, last_event_id).await
    }
}
