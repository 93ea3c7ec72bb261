//! Which agent a request comes from: its credential decides, on every request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use parking_lot::RwLock;
use steadfast_core::oauth::bearer::Refusal;
use steadfast_core::{AgentName, Millis, Mono};
use steadfast_store::KeyHash;

/// How long a key is good without another look at the store: another daemon on it may have made a new one.
const FRESH: Millis = Millis::secs(1);

/// How long a pass is good that nobody uses. Whoever asked for it asks for another one.
const PASS_IDLE: Millis = Millis::secs(3_600);

/// The agents by the hash of their keys. Lookups by a hash tell nothing about the key.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    by_key: RwLock<HashMap<[u8; 32], Known>>,
    /// The passes of this process, by their hash.
    passes: RwLock<HashMap<[u8; 32], Known>>,
    /// Who a request without a credential is.
    anonymous: Option<AgentName>,
}

/// A key that the store had when it was looked at last.
#[derive(Debug)]
struct Known {
    agent: AgentName,
    /// When that was.
    seen: AtomicU64,
}

impl Known {
    fn seen_at(&self) -> Mono {
        Mono(self.seen.load(Ordering::Relaxed))
    }
}

/// What a request shows of its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// This is who it is.
    Agent(AgentName),
    /// A key that the store must be asked about. The agent is whose it was, if it is known.
    Key(KeyHash, Option<AgentName>),
}

/// Why a request comes from nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no credential.
    Missing,
    /// There is one, and it is nobody's.
    Unknown,
    /// There is an access token, and it is not accepted.
    Token(Refusal),
    /// There is an access token, and its issuer has to be asked and cannot be.
    Unavailable,
}

impl Credentials {
    /// `anonymous` is who a request without a credential is.
    pub(crate) fn new(anonymous: Option<AgentName>) -> Self {
        Self {
            by_key: RwLock::default(),
            passes: RwLock::default(),
            anonymous,
        }
    }

    /// Lets whoever shows this pass be the agent, beside whoever has its key. It ends with that key, with this process,
    /// and when nobody uses it.
    pub(crate) fn add_pass(&self, agent: &AgentName, pass: KeyHash, now: Mono) {
        let mut passes = self.passes.write();
        passes.retain(|_, known| now.since(known.seen_at()) < PASS_IDLE);
        let known = Known {
            agent: agent.clone(),
            seen: AtomicU64::new(now.0),
        };
        passes.insert(pass.0, known);
    }

    fn by_pass(&self, pass: KeyHash, now: Mono) -> Option<AgentName> {
        let passes = self.passes.read();
        let known = passes.get(&pass.0)?;
        if now.since(known.seen_at()) >= PASS_IDLE {
            return None;
        }
        known.seen.fetch_max(now.0, Ordering::Relaxed);
        Some(known.agent.clone())
    }

    /// Gives an agent its key; the one before is worth nothing from now on. Whether that is news.
    pub(crate) fn set(&self, agent: &AgentName, key: Option<KeyHash>, now: Mono) -> bool {
        let mut by_key = self.by_key.write();
        let before = by_key.len();
        by_key.retain(|hash, known| known.agent != *agent || key.is_some_and(|key| key.0 == *hash));
        let had_another = by_key.len() < before;
        if had_another || key.is_none() {
            let mut passes = self.passes.write();
            passes.retain(|_, known| known.agent != *agent);
        }
        let Some(key) = key else {
            return had_another;
        };
        let seen = AtomicU64::new(now.0);
        let agent = agent.clone();
        by_key.insert(key.0, Known { agent, seen }).is_none()
    }

    /// The store still has this key: it is good for a while.
    pub(crate) fn saw(&self, key: KeyHash, now: Mono) {
        if let Some(known) = self.by_key.read().get(&key.0) {
            known.seen.store(now.0, Ordering::Relaxed);
        }
    }

    /// Whose a key was when it was seen last.
    pub(crate) fn owner(&self, key: KeyHash) -> Option<AgentName> {
        let by_key = self.by_key.read();
        by_key.get(&key.0).map(|known| known.agent.clone())
    }

    /// Who sent this, as far as it is known without the store.
    pub(crate) fn shown(&self, headers: &HeaderMap, now: Mono) -> Result<Shown, Refused> {
        let Some(value) = headers.get(AUTHORIZATION) else {
            let anonymous = self.anonymous.clone().ok_or(Refused::Missing)?;
            return Ok(Shown::Agent(anonymous));
        };
        let key = bearer(value).ok_or(Refused::Unknown)?;
        let hash = KeyHash::of(key);
        if let Some(agent) = self.by_pass(hash, now) {
            return Ok(Shown::Agent(agent));
        }
        let by_key = self.by_key.read();
        let Some(known) = by_key.get(&hash.0) else {
            return Ok(Shown::Key(hash, None));
        };
        let agent = known.agent.clone();
        if now.since(known.seen_at()) < FRESH {
            Ok(Shown::Agent(agent))
        } else {
            Ok(Shown::Key(hash, Some(agent)))
        }
    }

    /// Whose a credential is by what was seen last, however long ago.
    pub(crate) fn known(&self, headers: &HeaderMap) -> Result<AgentName, Refused> {
        match self.shown(headers, Mono(0))? {
            Shown::Agent(agent) | Shown::Key(_, Some(agent)) => Ok(agent),
            Shown::Key(_, None) => Err(Refused::Unknown),
        }
    }
}

/// The token of `Authorization: Bearer …`. The scheme's name has no case (RFC 9110 section 11.1).
pub(crate) fn bearer(value: &HeaderValue) -> Option<&str> {
    let value = value.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_matches(' '))
}

impl Refused {
    /// In words: nothing of the credential itself.
    pub(crate) fn detail(&self) -> &'static str {
        match self {
            Self::Missing => "a credential is needed",
            Self::Unknown => "the credential is not known here",
            Self::Token(refusal) => refusal.description(),
            Self::Unavailable => "the issuer of the access token cannot be asked now",
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_store::make_key;

    use super::*;

    fn with(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn a_key_is_its_agent_and_nobody_elses() {
        let credentials = Credentials::new(None);
        let (key, hash) = make_key().unwrap();
        let agent = AgentName::from("support");
        let now = Mono(5_000);
        assert!(credentials.set(&agent, Some(hash), now));
        assert!(!credentials.set(&agent, Some(hash), now));
        let header = format!("Bearer {}", key.reveal());
        for spelled in [header.clone(), header.replace("Bearer", "bEARER")] {
            let shown = credentials.shown(&with(&spelled), now);
            assert_eq!(shown, Ok(Shown::Agent(agent.clone())));
        }
        let strange = credentials.shown(&with("Bearer sfk_x"), now);
        assert_eq!(strange, Ok(Shown::Key(KeyHash::of("sfk_x"), None)));
        for (headers, refused) in [
            (with(key.reveal()), Refused::Unknown),
            (HeaderMap::new(), Refused::Missing),
        ] {
            assert_eq!(credentials.shown(&headers, now), Err(refused.clone()));
            assert_eq!(credentials.known(&headers), Err(refused));
        }

        let (_, second) = make_key().unwrap();
        assert!(credentials.set(&agent, Some(second), now));
        let replaced = credentials.shown(&with(&header), now);
        assert_eq!(replaced, Ok(Shown::Key(hash, None)));
        assert_eq!(credentials.known(&with(&header)), Err(Refused::Unknown));
        assert!(credentials.set(&agent, None, now));
    }

    #[test]
    fn a_key_that_was_seen_long_ago_is_looked_up_again() {
        let credentials = Credentials::new(None);
        let (key, hash) = make_key().unwrap();
        let agent = AgentName::from("support");
        credentials.set(&agent, Some(hash), Mono(5_000));
        let headers = with(&format!("Bearer {}", key.reveal()));
        let doubtful = Ok(Shown::Key(hash, Some(agent.clone())));
        assert_eq!(credentials.shown(&headers, Mono(6_000)), doubtful);
        assert_eq!(credentials.known(&headers), Ok(agent.clone()));
        credentials.saw(hash, Mono(6_000));
        let shown = credentials.shown(&headers, Mono(6_999));
        assert_eq!(shown, Ok(Shown::Agent(agent)));
    }

    #[test]
    fn a_pass_is_good_beside_the_key_until_that_changes_or_nobody_uses_it() {
        let credentials = Credentials::new(None);
        let agent = AgentName::from("support");
        let (_, hash) = make_key().unwrap();
        let (pass, pass_hash) = make_key().unwrap();
        let headers = with(&format!("Bearer {}", pass.reveal()));
        let shown = |at: u64| credentials.shown(&headers, Mono(at));
        let good = Ok(Shown::Agent(agent.clone()));
        let strange = Ok(Shown::Key(pass_hash, None));
        credentials.set(&agent, Some(hash), Mono(1));
        credentials.add_pass(&agent, pass_hash, Mono(1));
        assert_eq!(shown(PASS_IDLE.0), good, "each use makes it good again");
        assert_eq!(shown(2 * PASS_IDLE.0 - 1), good);
        assert_eq!(shown(3 * PASS_IDLE.0), strange);
        for key in [Some(make_key().unwrap().1), None] {
            credentials.add_pass(&agent, pass_hash, Mono(1));
            assert_eq!(shown(2), good);
            credentials.set(&agent, key, Mono(1));
            assert_eq!(shown(2), strange);
        }
    }

    #[test]
    fn the_anonymous_agent_is_only_for_requests_without_a_credential() {
        let credentials = Credentials::new(Some(AgentName::from("dev")));
        let dev = Ok(AgentName::from("dev"));
        assert_eq!(credentials.known(&HeaderMap::new()), dev);
        for wrong in ["Bearer wrong", "Basic ZGV2"] {
            assert_eq!(credentials.known(&with(wrong)), Err(Refused::Unknown));
        }
    }
}
