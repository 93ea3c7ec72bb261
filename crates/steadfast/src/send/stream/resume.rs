//! A legacy answer that broke: the rest of it is fetched by GET with Last-Event-ID, as
//! `core::stream::answer` says.

use steadfast_core::identity::AttemptId;
use steadfast_core::quirks::{self, Media};
use steadfast_core::stream::{Break, answer};
use steadfast_core::{Era, EventCursor};

use super::Reader;
use crate::clock;
use crate::perform::ask::{is_unauthorized, media_of, note_scope, retry_after};
use crate::perform::events::Events;

impl Reader {
    /// The body ended before the response: resumes it where the era and the stream allow.
    pub(in crate::send) async fn broken(&mut self, how: Break) -> Result<Events, String> {
        if how == Break::Reset || how == Break::CutShort {
            self.link.doubt(self.route.generation);
        }
        if self.route.era() == Era::Modern {
            // 2026-07-28: "Resumable SSE streams via Last-Event-ID are not supported".
            return Err(how.evidence().to_owned());
        }
        let mut actions = self.step(answer::Event::Broken { how });
        loop {
            let mut resume = None;
            for action in actions {
                match action {
                    answer::Action::GiveUp { evidence } => return Err(evidence),
                    answer::Action::Resume { attempt, cursor } => resume = Some((attempt, cursor)),
                    answer::Action::Close => {}
                }
            }
            actions = match resume {
                Some((attempt, cursor)) => {
                    self.attempts = self.attempts.max(attempt.0);
                    match self.resume(attempt, &cursor).await {
                        Ok(events) => {
                            self.step(answer::Event::Resumed { attempt });
                            return Ok(events);
                        }
                        Err(event) => self.step(event),
                    }
                }
                None => {
                    clock::wait_until(self.deadline()).await;
                    self.step(answer::Event::Due)
                }
            };
        }
    }

    /// GET with Last-Event-ID (2025-11-25 transports, "Resumability and Redelivery").
    async fn resume(
        &self,
        attempt: AttemptId,
        cursor: &EventCursor,
    ) -> Result<Events, answer::Event> {
        let upstream = &self.route.upstream;
        let revision = Some(self.route.known.revision);
        let failed = |retry_after| answer::Event::ResumeFailed {
            attempt,
            retry_after,
        };
        upstream.ready().await.map_err(|_| failed(None))?;
        let request = upstream.get(revision, self.route.session.as_ref(), Some(cursor));
        let token = request.token;
        let mut terms = upstream.terms();
        terms.headers_within = upstream.retry.stream_open_timeout.duration();
        let reply = upstream
            .exchange(request, terms)
            .await
            .map_err(|_| failed(None))?;
        let status = reply.status.as_u16();
        if reply.status.is_success() && media_of(&reply.headers) == Media::EventStream {
            return Ok(Events::new(reply.body, upstream.max_message));
        }
        let is_newer = note_scope(upstream, token, || "GET".to_owned(), &reply).await;
        if is_newer || (is_unauthorized(&reply) && self.route.renewed_for_stream(token).await) {
            return Err(failed(None));
        }
        if quirks::is_temporary(status) {
            return Err(failed(retry_after(&reply.headers)));
        }
        self.link.doubt(self.route.generation);
        Err(answer::Event::ResumeRefused {
            attempt,
            why: format!("the stream broke, and resuming it was refused ({status})"),
        })
    }
}
