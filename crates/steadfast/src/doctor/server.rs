//! The server itself: its configuration, the way to it, and what it answers without and with the credential.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use steadfast_core::connection::handshake::Transport;
use steadfast_core::doctor::Check;
use steadfast_core::oauth::reach::Reach;
use steadfast_core::{Era, Fault, Kind, SessionId};

use super::Outcome;
use super::question::{Heard, in_session, knock};
use super::walk::Walk;
use crate::link::{Link, Phase};
use crate::perform::dial::Origin;
use crate::route::{Route, Upstream};

impl Walk<'_> {
    /// Whether the configuration can work; the server as it is configured, without a grant.
    pub(super) fn configuration(&mut self) -> Option<Upstream> {
        let asked = match &self.link {
            Some(link) => format!("servers.{}", link.server),
            None => "the address".to_owned(),
        };
        if !self.config.enabled {
            self.findings.disabled = true;
            self.step(Check::Configuration, Outcome::Failed, asked, "switched off");
            self.grant();
            return None;
        }
        let configured = self.upstream(self.config.clone());
        match configured.and_then(|upstream| upstream.check_secrets().map(|()| upstream)) {
            Ok(upstream) => {
                let headers = upstream.sensitive_headers();
                headers
                    .iter()
                    .for_each(|value| self.redactor.add_header(value));
                let answered = if self.findings.own_credential {
                    "complete, with an Authorization header of its own"
                } else {
                    "complete"
                };
                self.step(Check::Configuration, Outcome::Passed, asked, answered);
                Some(upstream)
            }
            Err(fault) => {
                self.step(Check::Configuration, Outcome::Failed, asked, &fault.message);
                self.findings.configuration = Some(fault);
                None
            }
        }
    }

    /// Name, TCP and TLS.
    pub(super) async fn reach(&mut self) -> bool {
        let origin = match Origin::of(&self.config.url) {
            Ok(origin) => origin,
            Err(fault) => return self.out_of_reach(Check::Name, "", fault),
        };
        let host = origin.host.clone();
        match self.instruments.dialer.look_up(&origin).await {
            Ok(answered) => self.step(Check::Name, Outcome::Passed, host, answered),
            Err(fault) => return self.out_of_reach(Check::Name, &host, fault),
        }
        let asked = format!("TCP to {}", origin.authority());
        let dialled = self.instruments.dialer.dial(&origin, Reach::Anywhere).await;
        let tls = format!("TLS with {}", origin.authority());
        match dialled {
            Ok(dialled) => {
                self.step(Check::Connect, Outcome::Passed, asked, "connected");
                let http = if dialled.http2 { "HTTP/2" } else { "HTTP/1.1" };
                if origin.tls {
                    let answered = format!("trusted, {http}");
                    self.step(Check::Tls, Outcome::Passed, tls, answered);
                } else {
                    self.step(Check::Tls, Outcome::Skipped, "", "plain http");
                }
                true
            }
            Err(fault) if fault.kind == Kind::Tls => {
                self.step(Check::Connect, Outcome::Passed, asked, "connected");
                self.out_of_reach(Check::Tls, "TLS", fault)
            }
            Err(fault) => self.out_of_reach(Check::Connect, "TCP", fault),
        }
    }

    fn out_of_reach(&mut self, at: Check, asked: &str, fault: Fault) -> bool {
        self.step(at, Outcome::Failed, asked, &fault.message);
        self.findings.reach = Some((at, fault));
        false
    }

    /// The server without a credential; its challenge.
    pub(super) async fn question(&mut self) -> Option<String> {
        let mut config = self.config.clone();
        config
            .headers
            .retain(|name, _| !name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        let heard = match self.upstream(config) {
            Ok(stranger) => knock(&stranger, &self.instruments.ids).await,
            // It was complete a moment ago, with more headers.
            Err(_) => return None,
        };
        let challenge = heard.challenge.clone();
        let outcome = self.heard(
            Check::Question,
            "an MCP request without a credential",
            heard,
        );
        self.findings.question = Some(outcome);
        challenge
    }

    fn heard(&mut self, check: Check, asked: &str, heard: Heard) -> Result<(), Fault> {
        let (outcome, answered) = match &heard.outcome {
            Ok(known) => {
                let era = known.era.as_str();
                let old = match known.transport {
                    Transport::StreamableHttp => "",
                    Transport::HttpSse => ", on the old transport",
                };
                let answered = format!("an MCP server that speaks {} ({era}){old}", known.revision);
                (Outcome::Passed, answered)
            }
            Err(fault) if fault.kind == Kind::SignInRequired && check == Check::Question => {
                (Outcome::Passed, fault.message.clone())
            }
            Err(fault) => (Outcome::Failed, fault.message.clone()),
        };
        self.step(check, outcome, asked, answered);
        heard.lines.into_iter().for_each(|line| self.detail(line));
        heard.outcome.map(drop)
    }

    /// The server with the credential: in the open session where there is one.
    pub(super) async fn credential(&mut self, configured: Upstream) {
        let bearer = self
            .looked
            .as_ref()
            .and_then(|looked| looked.bearer.clone());
        let tokens = self.findings.grant.tokens();
        let is_good = tokens.is_some_and(|tokens| tokens.good(self.findings.now));
        let (upstream, asked) = match bearer {
            _ if self.findings.own_credential => (configured, "the configured credential"),
            Some(bearer) if is_good => (configured.carrying(bearer), "the access token"),
            // A token that is known to be dead goes nowhere (RT-07).
            Some(_) => {
                let answered = "not presented: it has ended";
                self.step(Check::Token, Outcome::Skipped, "the access token", answered);
                return;
            }
            None => return self.session(&configured, None).await,
        };
        let asked = format!("an MCP request with {asked}");
        if self.open_session().is_some() {
            return self.session(&upstream, Some(&asked)).await;
        }
        let heard = knock(&upstream, &self.instruments.ids).await;
        let outcome = self.heard(Check::Token, &asked, heard);
        self.findings.token = Some(outcome);
    }

    fn open_session(&self) -> Option<(Arc<Link>, Arc<Route>, SessionId)> {
        let link = self.link.clone()?;
        let phase = link.phase.borrow().clone();
        let Phase::Ready(route) = phase else {
            return None;
        };
        let is_usable =
            route.era() == Era::Legacy && route.known.transport == Transport::StreamableHttp;
        let session = route.session.clone().filter(|_| is_usable)?;
        Some((link, route, session))
    }

    /// Asks in the open session; with a credential, where `with` names it.
    async fn session(&mut self, upstream: &Upstream, with: Option<&str>) {
        let Some((link, route, session)) = self.open_session() else {
            return;
        };
        let outcome = in_session(&link, upstream, (&route, &session)).await;
        let is_of_session = outcome
            .as_ref()
            .err()
            .is_none_or(|fault| fault.kind == Kind::SessionLost);
        if let Some(with) = with {
            let (shown, answered) = match &outcome {
                Err(fault) if !is_of_session => (Outcome::Failed, fault.message.clone()),
                Ok(()) | Err(_) => (Outcome::Passed, "taken".to_owned()),
            };
            self.step(Check::Token, shown, with, answered);
            self.findings.token = Some(match &outcome {
                Err(fault) if !is_of_session => Err(fault.clone()),
                Ok(()) | Err(_) => Ok(()),
            });
            if !is_of_session {
                return;
            }
        }
        let (shown, answered) = match &outcome {
            Ok(()) => (Outcome::Passed, "known".to_owned()),
            Err(fault) => (Outcome::Failed, fault.message.clone()),
        };
        self.step(Check::Session, shown, "the open session", answered);
        self.findings.session = Some(outcome);
    }
}
