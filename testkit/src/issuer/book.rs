//! What an authorization server has issued: codes, tokens, their families, and who presented what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::client::Client;
use super::policy::{Policy, Reuse, Rotation};
use crate::log::Parameters;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For resources.
    Access,
    /// For the token endpoint.
    Refresh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Good,
    Spent(Instant),
    Revoked,
}

/// One token that was issued.
#[derive(Clone, Debug)]
pub struct Token {
    /// Its value.
    pub value: String,
    /// What it is for.
    pub kind: Kind,
    /// Number of the authorization that it goes back to.
    pub family: u64,
    /// The code or refresh token that it was issued for.
    pub parent: Option<String>,
    /// Whom it was issued to.
    pub client: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// What it is good for (RFC 8707).
    pub resource: Option<String>,
    issued: Instant,
    used: Instant,
    expires: Option<Instant>,
    fate: Fate,
}

impl Token {
    /// Whether it is neither spent nor revoked, and not expired by the lifetime that it was issued with.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.fate == Fate::Good && self.expires.is_none_or(|end| Instant::now() < end)
    }

    /// Time since it was issued.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.issued.elapsed()
    }
}

/// An authorization code.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) client: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: Option<String>,
    pub(super) consented: Consented,
    pub(super) made: Instant,
    /// The family that its redemption began.
    pub(super) redeemed: Option<u64>,
}

/// What the person agreed to.
#[derive(Clone, Debug)]
pub(super) struct Consented {
    pub(super) scopes: Vec<String>,
    pub(super) resource: Option<String>,
    /// Whether a refresh token goes with it.
    pub(super) refresh: bool,
}

/// Tokens as they are handed out.
#[derive(Clone, Debug)]
pub(super) struct Handed {
    pub(super) access: Token,
    /// The refresh token of the answer; `None` is an answer without one.
    pub(super) refresh: Option<String>,
}

/// An error of the token endpoint (RFC 6749 section 5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) error: &'static str,
    pub(super) description: String,
}

impl Refusal {
    pub(super) fn new(error: &'static str, description: impl Into<String>) -> Self {
        Self {
            error,
            description: description.into(),
        }
    }

    pub(super) fn grant(description: &str) -> Self {
        Self::new("invalid_grant", description)
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients registered.
    pub registrations: u64,
    /// Renewals that succeeded.
    pub refreshes: u64,
    /// Spent refresh tokens that were presented again.
    pub reuses: u64,
    /// Families revoked because of that.
    pub families_revoked: u64,
    /// Requests to the token endpoint.
    pub token_requests: u64,
    /// Requests to the token endpoint that were answered 429.
    pub throttled: u64,
    /// Tokens revoked at the revocation endpoint.
    pub revocations: u64,
}

/// Everything that changes while the server runs.
#[derive(Debug, Default)]
pub(super) struct Book {
    prefix: String,
    numbers: BTreeMap<&'static str, u64>,
    pub(super) clients: BTreeMap<String, Client>,
    pub(super) codes: BTreeMap<String, Code>,
    /// Authorization requests whose form waits for a button.
    pub(super) forms: BTreeMap<String, Parameters>,
    tokens: BTreeMap<String, Token>,
    families: Vec<Vec<String>>,
    pub(super) counts: Counts,
    pub(super) authorizations: Vec<Parameters>,
    pub(super) presented: Vec<String>,
    /// `jti` of the assertions so far.
    pub(super) assertions: BTreeSet<String>,
    recent: VecDeque<Instant>,
}

impl Book {
    pub(super) fn new(prefix: String) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// The next value of a kind: `AT1`, `AT2`, …
    pub(super) fn name(&mut self, kind: &'static str, unguessable: bool) -> String {
        let number = self.numbers.entry(kind).or_default();
        *number += 1;
        let suffix = if unguessable {
            format!("-{:032x}", random())
        } else {
            String::new()
        };
        format!("{}{kind}{number}{suffix}", self.prefix)
    }

    pub(super) fn token(&self, value: &str) -> Option<&Token> {
        self.tokens.get(value)
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = &Token> {
        let values = self.families.iter().flatten();
        values.filter_map(|value| self.tokens.get(value))
    }

    /// Counts a request, and says whether it is beyond the limit.
    pub(super) fn throttles(&mut self, now: Instant, limit: Option<u32>) -> bool {
        self.counts.token_requests += 1;
        let Some(limit) = limit else {
            return false;
        };
        while self
            .recent
            .front()
            .is_some_and(|at| now.duration_since(*at) >= Duration::from_secs(1))
        {
            self.recent.pop_front();
        }
        if self.recent.len() >= limit as usize {
            self.counts.throttled += 1;
            return true;
        }
        self.recent.push_back(now);
        false
    }

    /// The tokens of a new family.
    pub(super) fn begin(
        &mut self,
        policy: &Policy,
        client: &str,
        parent: Option<&str>,
        consented: &Consented,
    ) -> Handed {
        let family = self.families.len() as u64 + 1;
        self.families.push(Vec::new());
        let blank = Token {
            value: String::new(),
            kind: Kind::Access,
            family,
            parent: parent.map(str::to_owned),
            client: client.to_owned(),
            scopes: consented.scopes.clone(),
            resource: consented.resource.clone(),
            issued: Instant::now(),
            used: Instant::now(),
            expires: None,
            fate: Fate::Good,
        };
        let refresh = consented
            .refresh
            .then(|| self.issue(policy, Kind::Refresh, blank.clone()).value);
        let access = self.issue(policy, Kind::Access, blank);
        Handed { access, refresh }
    }

    fn issue(&mut self, policy: &Policy, kind: Kind, like: Token) -> Token {
        let (name, life) = match kind {
            Kind::Access => ("AT", policy.tokens.lifetime),
            Kind::Refresh => ("RT", policy.tokens.refresh_lifetime),
        };
        let now = Instant::now();
        let token = Token {
            value: self.name(name, policy.tokens.unguessable),
            kind,
            issued: now,
            used: now,
            expires: life.map(|life| now + life),
            fate: Fate::Good,
            ..like
        };
        if let Some(family) = self.families.get_mut(token.family as usize - 1) {
            family.push(token.value.clone());
        }
        self.tokens.insert(token.value.clone(), token.clone());
        token
    }

    /// Redeems a code once; a second time ends what came of it (RFC 6749 section 4.1.2).
    pub(super) fn redeem(
        &mut self,
        policy: &Policy,
        client: &str,
        value: &str,
    ) -> Result<Handed, Refusal> {
        let Some(code) = self.codes.get(value).cloned() else {
            return Err(Refusal::grant("unknown code"));
        };
        if let Some(family) = code.redeemed {
            self.revoke_family(family);
            return Err(Refusal::grant("the code was redeemed before"));
        }
        if code.made.elapsed() >= policy.authorization.code_lifetime {
            return Err(Refusal::grant("the code has expired"));
        }
        let handed = self.begin(policy, client, Some(value), &code.consented);
        if let Some(code) = self.codes.get_mut(value) {
            code.redeemed = Some(handed.access.family);
        }
        Ok(handed)
    }

    /// Renews with a refresh token (RFC 6749 section 6).
    pub(super) fn refresh(
        &mut self,
        policy: &Policy,
        client: &str,
        value: &str,
        scopes: Vec<String>,
        resource: Option<&str>,
    ) -> Result<Handed, Refusal> {
        let token = self.good_refresh_token(policy, client, value)?;
        // RFC 8707 section 2.2.
        if resource.is_some() && resource != token.resource.as_deref() {
            return Err(Refusal::new(
                "invalid_target",
                "the resource is another one",
            ));
        }
        if scopes.iter().any(|scope| !token.scopes.contains(scope)) {
            return Err(Refusal::new(
                "invalid_scope",
                "the scope exceeds what was granted",
            ));
        }
        let granted = if scopes.is_empty() {
            token.scopes.clone()
        } else {
            scopes
        };
        if policy.tokens.renewal_ends_previous {
            self.end(|other| other.family == token.family && other.kind == Kind::Access);
        }
        let next = Token {
            parent: Some(value.to_owned()),
            ..token.clone()
        };
        let refresh = match policy.tokens.rotation {
            Rotation::Rotates => {
                // Within the grace it is spent already, and its time counts from the first use.
                if token.fate == Fate::Good {
                    self.set_fate(value, Fate::Spent(Instant::now()));
                }
                Some(self.issue(policy, Kind::Refresh, next.clone()).value)
            }
            Rotation::Repeats => Some(value.to_owned()),
            Rotation::Omits => None,
        };
        if let Some(token) = self.tokens.get_mut(value) {
            token.used = Instant::now();
        }
        let like = Token {
            // A scope that the server has stopped granting is gone from now on.
            scopes: policy.authorization.grants(&granted),
            ..next
        };
        self.counts.refreshes += 1;
        let access = self.issue(policy, Kind::Access, like);
        Ok(Handed { access, refresh })
    }

    fn good_refresh_token(
        &mut self,
        policy: &Policy,
        client: &str,
        value: &str,
    ) -> Result<Token, Refusal> {
        let token = self
            .tokens
            .get(value)
            .filter(|token| token.kind == Kind::Refresh)
            .ok_or_else(|| Refusal::grant("unknown refresh token"))?
            .clone();
        if token.client != client {
            return Err(Refusal::grant("the refresh token is another client's"));
        }
        match token.fate {
            Fate::Good => {}
            Fate::Revoked => return Err(Refusal::grant("the refresh token was revoked")),
            Fate::Spent(at) if at.elapsed() < policy.tokens.reuse_grace => {}
            Fate::Spent(_) => {
                self.counts.reuses += 1;
                if policy.tokens.reuse == Reuse::RevokesFamily {
                    self.counts.families_revoked += 1;
                    self.revoke_family(token.family);
                }
                return Err(Refusal::grant("the refresh token was used before"));
            }
        }
        let idle = policy
            .tokens
            .refresh_idle
            .is_some_and(|limit| token.used.elapsed() >= limit);
        if idle || token.expires.is_some_and(|end| Instant::now() >= end) {
            return Err(Refusal::grant("the refresh token has expired"));
        }
        Ok(token)
    }

    /// Revokes a token of a client's; a refresh token takes its family along (RFC 7009 section 2.1).
    pub(super) fn revoke(&mut self, client: &str, value: &str) {
        let Some(token) = self.tokens.get(value).filter(|it| it.client == client) else {
            return;
        };
        self.counts.revocations += 1;
        match token.kind {
            Kind::Access => self.set_fate(value, Fate::Revoked),
            Kind::Refresh => self.revoke_family(token.family),
        }
    }

    fn revoke_family(&mut self, family: u64) {
        self.end(|token| token.family == family);
    }

    /// Revokes the tokens that satisfy a condition. Spent ones stay spent: presenting them is still a reuse.
    pub(super) fn end(&mut self, condition: impl Fn(&Token) -> bool) {
        for token in self.tokens.values_mut() {
            if token.fate == Fate::Good && condition(token) {
                token.fate = Fate::Revoked;
            }
        }
    }

    /// Lets the tokens of a kind expire now.
    pub(super) fn expire(&mut self, kind: Kind) {
        let now = Instant::now();
        for token in self.tokens.values_mut() {
            if token.kind == kind {
                token.expires = Some(token.expires.map_or(now, |end| end.min(now)));
            }
        }
    }

    fn set_fate(&mut self, value: &str, fate: Fate) {
        if let Some(token) = self.tokens.get_mut(value) {
            token.fate = fate;
        }
    }
}

fn random() -> u128 {
    let random: Result<ring::rand::Random<[u8; 16]>, _> =
        ring::rand::generate(&ring::rand::SystemRandom::new());
    let random = random.expect("the system has random numbers");
    u128::from_be_bytes(random.expose())
}
