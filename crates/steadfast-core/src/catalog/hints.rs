//! What a result says about how long, and by whom, it may be kept (2026-07-28 server/utilities/caching).

use super::Life;
use crate::now::{Millis, Mono};
use crate::revision::Era;
use crate::wire::json;

/// Who may be given a kept result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Anybody.
    Public,
    /// Only who asked, with the same authorization. Also where the server does not say.
    #[default]
    Private,
}

/// The caching hints of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// How long it may be taken for fresh; zero where the server does not say, or says something else than
    /// a number of milliseconds ("If `ttlMs` is negative, clients SHOULD ignore it and treat it as `0`").
    pub ttl: Millis,
    /// Who may be given it.
    pub scope: Scope,
}

impl Hints {
    /// Reads the hints of one `result`.
    #[must_use]
    pub fn read(result: &[u8]) -> Self {
        let whole = 0..result.len();
        let ttl = json::at_path(result, whole.clone(), &["ttlMs"])
            .and_then(|range| std::str::from_utf8(result.get(range)?).ok()?.parse().ok())
            .map_or(Millis::ZERO, Millis);
        let scope = match json::at_path(result, whole, &["cacheScope"]) {
            Some(range) if json::is_text(result, range.clone(), "public") => Scope::Public,
            Some(_) | None => Scope::Private,
        };
        Self { ttl, scope }
    }

    /// Of this page and another one: a list is as fresh as its oldest page.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            ttl: self.ttl.min(other.ttl),
            scope: self.scope.max(other.scope),
        }
    }

    /// How long a list with these hints counts as fresh. `announced`: the server says when it changes, and can
    /// be heard. `received`: when its first page came.
    #[must_use]
    pub fn life(self, era: Era, announced: bool, received: Mono) -> Life {
        match era {
            Era::Legacy if announced => Life::UntilNews,
            Era::Legacy => Life::Never,
            Era::Modern if self.ttl == Millis::ZERO => Life::Never,
            Era::Modern => Life::Until(received + self.ttl),
        }
    }
}
