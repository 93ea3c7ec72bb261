//! Reads the standalone GET stream of a legacy session, and says what happens to it.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use steadfast_core::identity::{AttemptId, EventCursor};
use steadfast_core::now::Millis;
use steadfast_core::quirks::{self, Media};
use steadfast_core::stream::listen::Event;
use steadfast_core::wire::sse;

use super::Input;
use crate::link::Link;
use crate::perform::ask::{is_unauthorized, media_of, note_scope, retry_after};
use crate::perform::events::{Events, Read};
use crate::perform::exchange::{Reply, Terms};
use crate::route::Route;

/// Opens and reads one GET stream. Its owner aborts the task to close it.
pub(super) async fn listen(
    link: Arc<Link>,
    route: Arc<Route>,
    attempt: AttemptId,
    cursor: Option<EventCursor>,
) {
    let tell = |event| link.tell(Input::Listen(event));
    let upstream = &route.upstream;
    let revision = Some(route.known.revision);
    let failed = Event::Failed {
        attempt,
        retry_after: None,
    };
    if upstream.ready().await.is_err() {
        return tell(failed);
    }
    let request = upstream.get(revision, route.session.as_ref(), cursor.as_ref());
    let token = request.token;
    let terms = Terms {
        max_idle: None,
        headers_within: upstream.retry.stream_open_timeout.duration(),
    };
    let reply = match upstream.exchange(request, terms).await {
        Ok(reply) => reply,
        Err(_) => return tell(failed),
    };
    let is_newer = note_scope(upstream, token, || "GET".to_owned(), &reply).await;
    if is_newer || (is_unauthorized(&reply) && route.renewed_for_stream(token).await) {
        return tell(failed);
    }
    if let Some(declined) = declined(&reply, attempt) {
        return tell(declined);
    }
    route.stream_accepted();
    tell(Event::Opened { attempt });
    let mut events = Events::new(reply.body, upstream.max_message);
    let how = loop {
        match events.next().await {
            Read::Event(event) => {
                tell(received(&event));
                if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                    link.aside(&route, Bytes::from(data));
                }
            }
            Read::Heard => link.heard(),
            Read::TooLarge => {
                tracing::warn!(server = %link.server, "an event above limits.max_message was dropped");
            }
            Read::PlainJson(_) => {}
            Read::End(how) => break how,
        }
    };
    tell(Event::Broken { attempt, how });
}

/// Whether the answer to the GET is anything but an event stream.
fn declined(reply: &Reply, attempt: AttemptId) -> Option<Event> {
    let status = reply.status;
    if status.is_success() {
        let is_stream = status == StatusCode::OK && media_of(&reply.headers) == Media::EventStream;
        return (!is_stream).then_some(Event::Refused {
            attempt,
            status: None,
        });
    }
    Some(if quirks::is_temporary(status.as_u16()) {
        Event::Failed {
            attempt,
            retry_after: retry_after(&reply.headers),
        }
    } else {
        Event::Refused {
            attempt,
            status: Some(status.as_u16()),
        }
    })
}

/// An event, as the machine looks at it.
fn received(event: &sse::Event) -> Event {
    Event::Received {
        id: event.id.as_deref().map(EventCursor::new),
        retry: event.retry.map(Millis),
    }
}
