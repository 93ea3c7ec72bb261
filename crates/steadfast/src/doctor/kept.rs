//! What is kept here: the grant, the last sleep, the state of the connection. Nobody is asked.

use steadfast_core::doctor::Check;
use steadfast_core::grant::State as Grant;

use super::Outcome;
use super::walk::Walk;
use crate::report::rfc3339;

impl Walk<'_> {
    pub(super) fn grant(&mut self) {
        let Some(looked) = &self.looked else {
            if self.link.is_some() && !self.findings.own_credential {
                let answered = if self.findings.for_itself {
                    "the client has no token yet"
                } else {
                    "nobody is signed in"
                };
                self.step(Check::Grant, Outcome::Skipped, "", answered);
            }
            return;
        };
        let now = self.findings.now;
        let state = &looked.state;
        let Some(tokens) = state.tokens().cloned() else {
            return;
        };
        let is_good = tokens.good(now);
        let outcome = match state {
            Grant::Valid { .. } if is_good => Outcome::Passed,
            Grant::Unrenewable { .. } | Grant::Due { .. } | Grant::Renewing { .. } if is_good => {
                Outcome::Noted
            }
            Grant::None
            | Grant::Valid { .. }
            | Grant::Due { .. }
            | Grant::Renewing { .. }
            | Grant::Delayed { .. }
            | Grant::Suspect { .. }
            | Grant::Refused { .. }
            | Grant::Unrenewable { .. } => Outcome::Failed,
        };
        let mut answered = state.name().to_owned();
        if let Some(fault) = state.fault() {
            answered.push_str(&format!(": {}", fault.message));
        }
        let verb = if is_good { "is good until" } else { "ended at" };
        let mut details = vec![
            format!("the access token {verb} {}", rfc3339(tokens.expires_at)),
            format!("the issuer is {}", looked.issuer),
        ];
        details.push(if tokens.renewable {
            "there is a refresh token".to_owned()
        } else {
            "there is no refresh token".to_owned()
        });
        if !tokens.scopes.is_empty() {
            details.push(format!("scopes: {}", tokens.scopes.join(" ")));
        }
        if let Some(lacking) = &looked.scope {
            details.push(lacking.message.clone());
        }
        if let Some(at) = state.renews_at() {
            details.push(format!("to be renewed at {}", rfc3339(at)));
        }
        if let Some(last) = &looked.last_renewal {
            let outcome = last.outcome.replace('_', " ");
            details.push(format!("last renewal at {}: {outcome}", rfc3339(last.at)));
        }
        self.step(Check::Grant, outcome, "the grant that is kept", answered);
        details.into_iter().for_each(|line| self.detail(line));
    }

    pub(super) fn sleep(&mut self) {
        if let Some(slept) = self.findings.slept {
            let asked = "whether the machine slept";
            self.step(Check::Sleep, Outcome::Noted, asked, slept.to_string());
        }
    }

    pub(super) fn connection(&mut self) {
        let Some(link) = &self.link else {
            return;
        };
        let (state, since) = {
            let view = link.view.lock();
            (view.state.clone(), view.since)
        };
        let name = state.name().replace('_', " ");
        let mut answered = format!("{name} since {}", rfc3339(since));
        let outcome = match state.fault() {
            None => Outcome::Passed,
            Some(fault) => {
                answered.push_str(&format!(": {}", fault.message));
                Outcome::Failed
            }
        };
        self.step(
            Check::Connection,
            outcome,
            "the connection as it is shown",
            answered,
        );
        self.findings.connection = Some(state);
    }
}
