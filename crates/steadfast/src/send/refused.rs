//! One try of one call that the server does not take: refused for its session, its era, its headers or its
//! credential, which may be mended, or led elsewhere.

use bytes::Bytes;
use http::header::LOCATION;
use steadfast_core::catalog::List;
use steadfast_core::effect::Executed;
use steadfast_core::quirks::{self, Media};
use steadfast_core::wire::challenge::{self as challenges, ScopeNeeded};
use steadfast_core::wire::envelope::{self, Kind as MessageKind};
use steadfast_core::wire::json;
use steadfast_core::{Fault, Kind, session};

use super::once::Attempt;
use super::{Tried, Why, not_observed};
use crate::call::{Answer, Failure};
use crate::drive::Input;
use crate::grants::{Refused, operation};
use crate::perform::ask::{challenge, retry_after};
use crate::perform::exchange::Reply;
use crate::route::redirect;

impl Attempt<'_> {
    /// A 4xx or 5xx.
    pub(super) async fn refused(
        &mut self,
        status: u16,
        media: Media,
        headers: &http::HeaderMap,
        body: &Bytes,
    ) -> Tried {
        let challenge = challenge(headers);
        let answer = quirks::Answer {
            status,
            media,
            body,
            challenge: challenge.as_deref(),
            retry_after: retry_after(headers),
            session_attached: self.route.session.is_some(),
            era: self.route.era(),
        };
        if let Some(needed) = challenges::scope_needed(status, challenge.as_deref()) {
            return self.scope_refused(status, needed).await;
        }
        let generation = self.route.generation;
        if let Some(rule) = quirks::unknown_session(&answer) {
            tracing::info!(
                agent = %self.link.agent, server = %self.link.server, rule = rule.name,
                "the server does not know the session any more"
            );
            self.link.tell(Input::Session(session::Event::Refused {
                generation,
                rule: rule.name,
            }));
            return Tried::Again {
                after: Some(generation),
                why: Why::Session,
                sent: self.sent,
            };
        }
        if quirks::other_era(&answer).is_some() {
            // 2026-07-28 versioning: "re-probing if the cached assumption later fails".
            let said = "the server speaks another era or revision now";
            let fault = Fault::new(Kind::SessionLost, said);
            self.link.lost(generation, fault);
            return Tried::Again {
                after: Some(generation),
                why: Why::Session,
                sent: self.sent,
            };
        }
        if quirks::header_mismatch(&answer).is_some() && self.headers_changed().await {
            return Tried::Again {
                after: None,
                why: Why::Headers,
                sent: self.sent,
            };
        }
        if status == 401 {
            // Never passed on: the agent would renew the wrong token (architecture, connections 10).
            return self.credential_refused(quirks::fault_of(&answer)).await;
        }
        let read = envelope::read(body).ok();
        if let Some(read) = read
            && (self.is_own_id(&read, body) || (status < 500 && status != 429 && read.id.is_none()))
            && matches!(read.kind, MessageKind::Result | MessageKind::Error)
        {
            return self.observed(status, body, &read);
        }
        // A status proves nothing about execution (WR-05).
        let fault = quirks::fault_of(&answer);
        self.link.doubt(generation);
        self.lost(fault.message.clone(), Some(fault))
    }

    /// 401 refuses before execution, so the call may be sent again with a newer token: once (AU-02).
    async fn credential_refused(&self, fault: Fault) -> Tried {
        let generation = self.route.generation;
        let renewed = match self.token {
            Some(token) => self.route.upstream.credential().refused(token).await,
            None => Err(fault),
        };
        match renewed {
            Ok(()) => Tried::Again {
                after: None,
                why: Why::Credential,
                sent: self.sent,
            },
            Err(fault) => {
                self.link.lost(generation, fault);
                Tried::Again {
                    after: Some(generation),
                    why: Why::Unsent,
                    sent: self.sent,
                }
            }
        }
    }

    /// The grant is too narrow. The server refused before execution; nothing is renewed, and nothing is sent again but to
    /// try a newer token: that is up to the agent once a person has signed in for more (SC-02).
    pub(super) async fn scope_refused(&self, status: u16, needed: ScopeNeeded) -> Tried {
        let fault = quirks::scope_insufficient(status, &needed);
        let mut refused = not_observed(
            self.link,
            &self.job.policy,
            self.sent,
            fault.message.clone(),
            Some(fault),
        );
        refused.executed = Executed::No;
        // The operator's own credential is nothing that anybody could sign in for.
        if let Some(generation) = self.token {
            let lacking = Refused {
                generation,
                operation: self.operation(),
                needed,
            };
            let credential = self.route.upstream.credential();
            let patience = self.link.patience();
            if credential.lacks_scope(lacking, patience).await {
                return Tried::Again {
                    after: None,
                    why: Why::Credential,
                    sent: self.sent,
                };
            }
            refused.connection = Some(Box::new(self.link.report()));
        }
        Tried::Done(Answer::Failed(Failure::NotObserved(refused)))
    }

    /// What is called, as it is named where its scope is missing.
    pub(super) fn operation(&self) -> String {
        let call = &self.job.call;
        let target = call.params.name.as_ref().or(call.params.uri.as_ref());
        let target = target.and_then(|range| json::text(&call.message, range.clone()));
        operation(&self.job.policy.method, target.as_deref())
    }

    /// Whether the list of tools now asks for other headers than were sent (2026-07-28
    /// streamable-http, "Client Behavior": call tools/list, then retry with the appropriate headers).
    async fn headers_changed(&self) -> bool {
        let Some(tool) = &self.job.policy.tool else {
            return false;
        };
        let before = self.link.listed(List::Tools);
        self.link.ask_again_for_tools().await;
        let after = self.link.listed(List::Tools);
        match (before, after) {
            (Some(before), Some(after)) => before.mirrored(tool) != after.mirrored(tool),
            (None, Some(after)) => !after.mirrored(tool).is_empty(),
            (Some(_) | None, None) => false,
        }
    }

    /// 307 and 308 within the origin are followed; anything else is not, for a call (HT-01).
    pub(super) fn redirected(&mut self, reply: &Reply) -> Tried {
        let status = reply.status.as_u16();
        match redirect(&self.route.upstream, reply.headers.get(LOCATION)) {
            Ok(to) if matches!(status, 307 | 308) => Tried::Moved {
                to,
                sent: self.sent,
            },
            Ok(_) => {
                // The new address is learned through a harmless request.
                self.link.doubt(self.route.generation);
                self.lost("redirected", None)
            }
            Err(fault) => {
                let evidence = format!("redirected: {}", fault.message);
                self.lost(evidence, Some(fault))
            }
        }
    }
}
