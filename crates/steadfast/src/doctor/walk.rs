//! The order of the walk, and what is said of each step.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use http::header::AUTHORIZATION;
use steadfast_core::doctor::{Check, Diagnosis, Findings, Subject, diagnose};
use steadfast_core::grant::State as Grant;
use steadfast_core::sleep::Slept;
use steadfast_core::{Fault, Kind};
use steadfast_store::Error;

use super::redact::{Redactor, shown};
use super::{Act, Examination, Outcome, Proof, Step};
use crate::clock;
use crate::config;
use crate::fleet::Fleet;
use crate::grants::{Credential, Doors, Grants, Looked};
use crate::link::Link;
use crate::perform::dial::Dialer;
use crate::perform::fetch::Asked;
use crate::report::{FaultReport, NextReport, rfc3339};
use crate::route::Upstream;
use crate::secrets::Secrets;

/// What an examination uses of the keeper.
pub(crate) struct Instruments {
    pub(crate) settings: config::Settings,
    pub(crate) retry: Arc<config::Retry>,
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) grants: Arc<Grants>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) ids: Arc<AtomicI64>,
    /// The last sleep of the machine.
    pub(crate) slept: Option<Slept>,
}

/// Who is examined.
pub(crate) struct Patient {
    /// The connection; `None` for an address.
    pub(crate) link: Option<Arc<Link>>,
    /// The server, as it is configured.
    pub(crate) config: config::Server,
    /// Where browsers would come back to.
    pub(crate) doors: Doors,
}

/// One walk, as far as it has come.
pub(super) struct Walk<'i> {
    pub(super) instruments: &'i Instruments,
    pub(super) config: config::Server,
    pub(super) findings: Findings,
    /// The grant, where there is one.
    pub(super) looked: Option<Looked>,
    pub(super) link: Option<Arc<Link>>,
    steps: Vec<Step>,
    pub(super) redactor: Redactor,
}

/// Walks the whole way.
pub(crate) async fn examine(
    instruments: &Instruments,
    patient: Patient,
) -> Result<Examination, Error> {
    let Patient {
        link,
        config,
        doors,
    } = patient;
    let subject = match &link {
        Some(link) => Subject::Connection(link.agent.clone(), link.server.clone()),
        None => Subject::Address,
    };
    let looked = match &link {
        Some(link) => {
            let owner = (link.agent.clone(), link.server.clone());
            instruments.grants.look(&owner, &config).await?
        }
        None => None,
    };
    let policy = *instruments.grants.policy();
    let mut walk = Walk {
        instruments,
        config,
        findings: Findings::new(subject, clock::wall(), policy),
        looked,
        link,
        steps: Vec::new(),
        redactor: Redactor::default(),
    };
    walk.go(&doors).await?;
    Ok(walk.finish())
}

impl Walk<'_> {
    async fn go(&mut self, doors: &Doors) -> Result<(), Error> {
        self.redactor.add_url(&self.config.url);
        for secret in self.looked.iter().flat_map(|looked| &looked.secrets) {
            self.redactor.add(secret);
        }
        self.findings.own_credential = has_authorization(&self.config);
        self.findings.for_itself = self.config.machine().is_some();
        self.findings.slept = self.instruments.slept;
        if let Some(looked) = &self.looked {
            self.findings.grant = looked.state.clone();
            self.findings.scope = looked.scope.clone();
        }
        let Some(configured) = self.configuration() else {
            return Ok(());
        };
        if !self.reach().await {
            self.grant();
            return Ok(());
        }
        let challenged = self.question().await;
        let wants_sign_in = matches!(
            &self.findings.question,
            Some(Err(fault)) if fault.kind == Kind::SignInRequired
        );
        let is_up = !is_silent(self.findings.question.as_ref());
        if is_up && !self.findings.own_credential && (wants_sign_in || self.looked.is_some()) {
            self.chain(challenged.as_deref(), doors).await?;
        }
        self.grant();
        self.sleep();
        if is_up {
            self.credential(configured).await;
        }
        self.connection();
        Ok(())
    }

    pub(super) fn step(
        &mut self,
        check: Check,
        outcome: Outcome,
        asked: impl Into<String>,
        answered: impl Into<String>,
    ) {
        self.steps.push(Step {
            check,
            outcome,
            asked: asked.into(),
            answered: answered.into(),
            details: Vec::new(),
        });
    }

    /// Something to know about the last step.
    pub(super) fn detail(&mut self, line: String) {
        if let Some(step) = self.steps.last_mut() {
            step.details.push(line);
        }
    }

    /// What went wrong at the step before the last one is no fault after all.
    pub(super) fn forgive(&mut self) {
        if let [.., before, _] = self.steps.as_mut_slice() {
            before.outcome = Outcome::Noted;
        }
    }

    /// A step of several requests.
    pub(super) fn lines(
        &mut self,
        check: Check,
        outcome: Outcome,
        answered: &str,
        lines: &[Asked],
    ) {
        let asked = match lines {
            [] => String::new(),
            [.., last] if lines.len() == 1 || outcome != Outcome::Failed => {
                format!("GET {}", shown(&last.url))
            }
            several => format!("GET at {} places", several.len()),
        };
        self.step(check, outcome, asked, answered);
        if lines.len() > 1 {
            lines
                .iter()
                .for_each(|asked| self.detail(asked.line.clone()));
        }
    }

    /// A way to the server of its own, without a grant.
    pub(super) fn upstream(&self, config: config::Server) -> Result<Upstream, Fault> {
        let instruments = self.instruments;
        Upstream::new(
            config,
            &instruments.settings,
            Arc::clone(&instruments.retry),
            Arc::clone(&instruments.dialer),
            &instruments.fleet,
            Credential::of_nobody(&instruments.grants),
            Arc::clone(&instruments.secrets),
        )
    }

    /// What would keep a person from signing in is no fault while nobody needs to.
    fn soften(&mut self, diagnosis: Option<&Diagnosis>) {
        if !matches!(self.findings.token, Some(Ok(()))) {
            return;
        }
        let matters = diagnosis.map(|found| found.at);
        for step in &mut self.steps {
            let is_for_later = matches!(
                step.check,
                Check::Question
                    | Check::ResourceMetadata
                    | Check::IssuerMetadata
                    | Check::SignIn
                    | Check::Registration
            );
            if is_for_later && step.outcome == Outcome::Failed && matters != Some(step.check) {
                step.outcome = Outcome::Noted;
                let line = "no matter now: the credential is taken";
                step.details.push(line.to_owned());
            }
        }
    }

    fn finish(mut self) -> Examination {
        let diagnosis = diagnose(&self.findings);
        self.soften(diagnosis.as_ref());
        let (agent, server) = match &self.findings.subject {
            Subject::Connection(agent, server) => (
                Some(agent.as_str().to_owned()),
                Some(server.as_str().to_owned()),
            ),
            Subject::Address => (None, None),
        };
        let mut examination = Examination {
            agent,
            server,
            url: shown(&self.config.url),
            examined_at: rfc3339(self.findings.now),
            next: self.next(diagnosis.as_ref()),
            fault: diagnosis.as_ref().map(|diagnosis| self.fault(diagnosis)),
            proof: diagnosis.as_ref().and_then(|found| self.proof(found.at)),
            act: diagnosis.map(|diagnosis| Act {
                who: diagnosis.who,
                what: diagnosis.what,
                quote: diagnosis.quote.map(str::to_owned),
            }),
            sign_in_url: self
                .link
                .as_ref()
                .and_then(|link| link.credential.sign_in_url()),
            steps: self.steps,
        };
        self.redactor.redact(&mut examination);
        examination
    }

    fn fault(&self, diagnosis: &Diagnosis) -> FaultReport {
        let mut message = diagnosis.message.clone();
        // A grant that was refused after a sleep says so itself.
        if diagnosis.overslept
            && !message.contains("asleep from")
            && let Some(slept) = self.findings.slept
        {
            message.push_str(&format!("; {slept}, renewal window missed"));
        }
        FaultReport {
            code: diagnosis.code.to_string(),
            kind: diagnosis.code.name.to_owned(),
            message,
            hint: diagnosis.code.hint.to_owned(),
            person_needed: diagnosis.person_needed(),
        }
    }

    /// The step that shows the fault: one that failed, or that tells of it.
    fn proof(&self, at: Check) -> Option<Proof> {
        let of_check = || self.steps.iter().filter(move |step| step.check == at);
        let failed = of_check().find(|step| step.outcome == Outcome::Failed);
        let step = failed.or_else(|| of_check().next_back())?;
        Some(Proof {
            check: at,
            asked: step.asked.clone(),
            answered: step.answered.clone(),
        })
    }

    /// What happens by itself: the renewal where it is the grant that ails, else what the connection plans.
    fn next(&self, diagnosis: Option<&Diagnosis>) -> Option<NextReport> {
        let link = self.link.as_ref()?;
        let is_of_grant =
            diagnosis.is_some_and(|found| matches!(found.at, Check::Grant | Check::TokenEndpoint));
        let wake_at = self.looked.as_ref().and_then(|looked| looked.wake_at);
        let is_renewed = !matches!(
            self.findings.grant,
            Grant::None | Grant::Refused { .. } | Grant::Unrenewable { .. }
        );
        match wake_at {
            Some(at) if is_of_grant && is_renewed => Some(NextReport {
                at: rfc3339(at),
                kind: "renew".to_owned(),
                reason: "renew the grant".to_owned(),
            }),
            Some(_) | None => link.report().next,
        }
    }
}

/// Whether nothing at all came back: then there is no use in asking for more.
fn is_silent(question: Option<&Result<(), Fault>>) -> bool {
    match question {
        Some(Err(fault)) => matches!(fault.kind, Kind::Timeout | Kind::Network | Kind::Tls),
        Some(Ok(())) | None => false,
    }
}

fn has_authorization(config: &config::Server) -> bool {
    let mut names = config.headers.keys();
    names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()))
}
