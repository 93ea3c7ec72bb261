//! Which tools of a server agents may see and call: `tools_allow` and `tools_deny`.

/// The operator's patterns. `*` stands for any run of characters; everything else stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    allow: Vec<String>,
    deny: Vec<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            allow: vec!["*".to_owned()],
            deny: Vec::new(),
        }
    }
}

impl Access {
    /// Of these patterns.
    #[must_use]
    pub fn new(allow: &[String], deny: &[String]) -> Self {
        Self {
            allow: allow.to_vec(),
            deny: deny.to_vec(),
        }
    }

    /// Whether every tool passes, whatever its name.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.deny.is_empty() && self.allow.iter().any(|pattern| pattern == "*")
    }

    /// Whether a tool of this name passes. Denying wins.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        let matched = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
        matched(&self.allow) && !matched(&self.deny)
    }
}

/// Whether `name` is what `pattern` describes. Linear but for the last star, so that no pattern is slow.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Behind the last star: where the pattern goes on, and how much of the name the star has taken.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(n) {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(same) if same == byte => {
                p += 1;
                n += 1;
            }
            Some(_) | None => {
                let Some((after, taken)) = star else {
                    return false;
                };
                star = Some((after, taken + 1));
                p = after;
                n = taken + 1;
            }
        }
    }
    pattern
        .get(p..)
        .unwrap_or_default()
        .iter()
        .all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_run_and_the_rest_stands_for_itself() {
        for (pattern, name, matching) in [
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("read_*", "read_", true),
            ("read_*", "read_mail", true),
            ("read_*", "spread_mail", false),
            ("*_mail", "read_mail", true),
            ("*_mail", "read_mails", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a**c", "ac", true),
            ("größe*", "größer", true),
            ("a.c", "abc", false),
            ("Read", "read", false),
            ("*a", "aaab", false),
            ("*ab", "aaab", true),
        ] {
            assert_eq!(matches(pattern, name), matching, "{pattern} {name}");
        }
    }

    #[test]
    fn denying_wins_and_nothing_allowed_is_nothing() {
        let owned = |patterns: &[&str]| -> Vec<String> {
            patterns.iter().map(|text| (*text).to_owned()).collect()
        };
        let access = |allow: &[&str], deny: &[&str]| Access::new(&owned(allow), &owned(deny));
        assert!(access(&["*"], &["delete_*"]).allows("read"));
        assert!(!access(&["*"], &["delete_*"]).allows("delete_all"));
        assert!(!access(&["delete_all"], &["*_all"]).allows("delete_all"));
        assert!(!access(&[], &[]).allows("read"));
        assert!(Access::default().is_open());
        assert!(access(&["a", "*"], &[]).is_open());
        assert!(!access(&["a*"], &[]).is_open());
        assert!(!access(&["*"], &["b"]).is_open());
    }
}
