//! How long an answer may be used again, for a private cache (RFC 9111). No heuristics: what names no lifetime is asked
//! for each time, since a person who is sent to an address that was right yesterday costs more than one question.

use crate::now::{Millis, Wall};

/// What an answer says about that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said<'a> {
    /// `Cache-Control`, its lines as one.
    pub cache_control: Option<&'a str>,
    /// `Expires`; `Some(None)` where it is no date, which means that it has expired (section 5.3).
    pub expires: Option<Option<Wall>>,
    /// `Date`.
    pub date: Option<Wall>,
    /// `Age`, in seconds.
    pub age: Option<u64>,
    /// Whether `Vary` is `*`: then no request is like this one (section 4.1).
    pub varies: bool,
}

/// Until when an answer is fresh whose request left at `asked`, and at most `limit` long; `None` where it must not be kept
/// at all.
#[must_use]
pub fn fresh_until(said: &Said<'_>, asked: Wall, limit: Millis) -> Option<Wall> {
    let (mut no_cache, mut max_age) = (said.varies, None);
    let directives = said.cache_control.unwrap_or_default().split(',');
    for directive in directives.map(str::trim) {
        let (name, value) = match directive.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
            None => (directive, None),
        };
        match name.to_ascii_lowercase().as_str() {
            "no-store" => return None,
            "no-cache" => no_cache = true,
            // Section 4.2.1: of several the most restrictive; what cannot be read is stale.
            "max-age" => {
                let seconds = value.and_then(|value| value.parse().ok()).unwrap_or(0);
                max_age = Some(max_age.unwrap_or(u64::MAX).min(seconds));
            }
            // `s-maxage` and the like are for caches that many share.
            _ => {}
        }
    }
    let lifetime = match (max_age, said.expires) {
        (_, _) if no_cache => Millis::ZERO,
        (Some(seconds), _) => Millis(seconds.saturating_mul(1_000)),
        (None, Some(Some(expires))) => {
            let from = said.date.unwrap_or(asked);
            Millis(expires.0.saturating_sub(from.0).max(0).unsigned_abs())
        }
        (None, Some(None) | None) => Millis::ZERO,
    };
    let age = said.age.unwrap_or_default().saturating_mul(1_000);
    let left = lifetime.0.saturating_sub(age).min(limit.0);
    Some(Wall(asked.0.saturating_add_unsigned(left)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Wall = Wall(1_000_000);
    const DAY: Millis = Millis::mins(24 * 60);

    fn left(said: Said<'_>) -> Option<i64> {
        fresh_until(&said, ASKED, DAY).map(|until| until.0 - ASKED.0)
    }

    fn control(cache_control: &str) -> Option<i64> {
        left(Said {
            cache_control: Some(cache_control),
            ..Said::default()
        })
    }

    #[test]
    fn cache_control_is_read_in_any_spelling() {
        assert_eq!(control("max-age=60"), Some(60_000));
        assert_eq!(
            control("public, Max-Age = \"60\" , must-revalidate"),
            Some(60_000)
        );
        assert_eq!(control("max-age=60, max-age=5"), Some(5_000));
        assert_eq!(control("s-maxage=60"), Some(0));
        assert_eq!(control("no-cache=\"set-cookie\", max-age=60"), Some(0));
        assert_eq!(control("max-age=60, no-store"), None);
        for unreadable in ["max-age", "max-age=-1", "max-age=soon", "", ",=,"] {
            assert_eq!(control(unreadable), Some(0), "{unreadable}");
        }
        let for_ever = u64::MAX.to_string();
        assert_eq!(control(&format!("max-age={for_ever}")), Some(DAY.0 as i64));
    }

    #[test]
    fn expires_counts_from_the_date_where_there_is_no_max_age() {
        let said = Said {
            expires: Some(Some(Wall(70_000))),
            date: Some(Wall(10_000)),
            ..Said::default()
        };
        assert_eq!(
            left(said),
            Some(60_000),
            "the server's clock may be another one"
        );
        let cache_control = Some("max-age=5");
        assert_eq!(
            left(Said {
                cache_control,
                ..said
            }),
            Some(5_000)
        );
        let past = Some(Some(Wall(9_000)));
        assert_eq!(
            left(Said {
                expires: past,
                ..said
            }),
            Some(0)
        );
        let no_date = Some(None);
        assert_eq!(
            left(Said {
                expires: no_date,
                ..said
            }),
            Some(0)
        );
        assert_eq!(left(Said { date: None, ..said }), Some(0));
        assert_eq!(left(Said::default()), Some(0), "nothing is guessed");
    }

    #[test]
    fn what_is_old_already_or_varies_is_fresh_for_less() {
        let said = Said {
            cache_control: Some("max-age=60"),
            age: Some(20),
            ..Said::default()
        };
        assert_eq!(left(said), Some(40_000));
        let age = Some(u64::MAX);
        assert_eq!(left(Said { age, ..said }), Some(0));
        let varies = true;
        assert_eq!(left(Said { varies, ..said }), Some(0));
    }
}
