//! `WWW-Authenticate`: what a server that refuses a credential says about the one that it wants
//! (RFC 9110 sections 11.2, 11.3 and 11.6.1; DS-06).

use std::borrow::Cow;

use super::token::scopes;

/// One challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// The scheme, as it is written.
    pub scheme: &'a str,
    /// The parameters in their order; none where the scheme came with a token68.
    pub params: Vec<(&'a str, Cow<'a, str>)>,
}

impl<'a> Challenge<'a> {
    /// A parameter by its name, in any case. Of two with the same name the first counts.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_ref())
    }

    /// Whether it is of this scheme.
    #[must_use]
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }
}

/// Reads one header value. What cannot be read ends the list; what was read before it stays.
#[must_use]
pub fn read(value: &str) -> Vec<Challenge<'_>> {
    let mut rest = Rest(value);
    let mut challenges: Vec<Challenge<'_>> = Vec::new();
    loop {
        rest.skip_separators();
        let Some(word) = rest.token() else {
            return challenges;
        };
        let had_space = rest.skip_spaces();
        // `name = value` belongs to the challenge before; anything else begins one.
        if rest.0.starts_with('=') && !rest.0[1..].starts_with('=') && !challenges.is_empty() {
            let Some(value) = rest.value() else {
                return challenges;
            };
            if let Some(challenge) = challenges.last_mut() {
                challenge.params.push((word, value));
            }
            continue;
        }
        challenges.push(Challenge {
            scheme: word,
            params: Vec::new(),
        });
        if had_space {
            rest.skip_token68();
        }
    }
}

/// The `Bearer` challenge among the values of all header lines; other schemes are not for us.
#[must_use]
pub fn bearer<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<Challenge<'a>> {
    let challenges = values.into_iter().flat_map(read);
    challenges
        .filter(|challenge| challenge.is("bearer"))
        // Of several the one that says something.
        .max_by_key(|challenge| usize::from(!challenge.params.is_empty()))
}

/// What a server wants that refuses a call because its token is good for less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeNeeded {
    /// The scopes that the call needs; `None` where the server names none (SC-04).
    pub scopes: Option<Vec<String>>,
    /// Where its metadata is.
    pub resource_metadata: Option<String>,
}

/// The challenge with `insufficient_scope` among the values of all header lines (RFC 6750 section 3.1; RFC 9449
/// section 7.1 has the same error under another scheme). It comes with 403; some servers answer 401, and a new token for
/// the same grant would be refused as well (SC-02).
#[must_use]
pub fn scope_needed<'a>(
    status: u16,
    values: impl IntoIterator<Item = &'a str>,
) -> Option<ScopeNeeded> {
    if !matches!(status, 401 | 403) {
        return None;
    }
    let mut challenges = values.into_iter().flat_map(read);
    let challenge = challenges.find(|it| it.param("error") == Some("insufficient_scope"))?;
    let named = challenge.param("scope").map(scopes);
    Some(ScopeNeeded {
        scopes: named.filter(|scopes| !scopes.is_empty()),
        resource_metadata: challenge.param("resource_metadata").map(str::to_owned),
    })
}

/// What is not read yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn skip_spaces(&mut self) -> bool {
        let before = self.0.len();
        self.0 = self.0.trim_start_matches([' ', '\t']);
        self.0.len() < before
    }

    /// Commas between challenges and parameters; empty elements are allowed (RFC 9110 section 5.6.1).
    fn skip_separators(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t', ',']);
    }

    /// RFC 9110 section 5.6.2.
    fn token(&mut self) -> Option<&'a str> {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let end = self
            .0
            .bytes()
            .position(|byte| !is_token(byte))
            .unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }

    /// `= value`, where the value is a token or a quoted string. Servers write urls without quotes, too:
    /// what stands there up to the next comma or space is taken.
    fn value(&mut self) -> Option<Cow<'a, str>> {
        self.0 = self.0.strip_prefix('=')?;
        self.skip_spaces();
        if let Some(quoted) = self.0.strip_prefix('"') {
            self.0 = quoted;
            return self.quoted();
        }
        let end = self.0.find([',', ' ', '\t']).unwrap_or(self.0.len());
        let (value, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(Cow::Borrowed(value))
    }

    /// The rest of a quoted string, with its escapes taken out (RFC 9110 section 5.6.4).
    fn quoted(&mut self) -> Option<Cow<'a, str>> {
        let mut escaped = false;
        let end = self.0.bytes().position(|byte| {
            let is_end = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            is_end
        })?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        if !text.contains('\\') {
            return Some(Cow::Borrowed(text));
        }
        let mut plain = String::with_capacity(text.len());
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            plain.extend(if char == '\\' {
                chars.next()
            } else {
                Some(char)
            });
        }
        Some(Cow::Owned(plain))
    }

    /// A token68 after a scheme (`Negotiate a87421000492aa874209af8bc028==`): up to the next comma, where what
    /// stands there is no parameter.
    fn skip_token68(&mut self) {
        let end = self.0.find(',').unwrap_or(self.0.len());
        let element = self.0[..end].trim_end();
        let is_68 = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        let body = element.trim_end_matches('=');
        // `name=` without a value would be a parameter; a token68 with one `=` at its end looks the same.
        if !body.is_empty() && body.bytes().all(is_68) {
            self.0 = &self.0[end..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(value: &str) -> Vec<(String, Vec<(String, String)>)> {
        read(value)
            .into_iter()
            .map(|challenge| {
                let params = challenge.params.into_iter();
                let params = params.map(|(key, value)| (key.to_owned(), value.into_owned()));
                (challenge.scheme.to_owned(), params.collect())
            })
            .collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn ds_06_unusual_and_legal_forms_are_read() {
        for (value, expected) in [
            (
                r#"Bearer realm="a, b", resource_metadata = "https://rs.test/custom/prm""#,
                vec![
                    ("realm", "a, b"),
                    ("resource_metadata", "https://rs.test/custom/prm"),
                ],
            ),
            (
                r#"bearer error=invalid_token,resource_metadata="https://rs.test/custom/prm""#,
                vec![
                    ("error", "invalid_token"),
                    ("resource_metadata", "https://rs.test/custom/prm"),
                ],
            ),
            (
                "Bearer resource_metadata=https://rs.test/custom/prm",
                vec![("resource_metadata", "https://rs.test/custom/prm")],
            ),
            (
                r#"Bearer realm="say \"hi\" \\ , x=1""#,
                vec![("realm", r#"say "hi" \ , x=1"#)],
            ),
            ("Bearer ,, scope=a", vec![("scope", "a")]),
            ("Bearer", vec![]),
        ] {
            let read = params(value);
            assert_eq!(read.len(), 1, "{value}: {read:?}");
            assert_eq!(read[0].1, pairs(&expected), "{value}");
        }
    }

    #[test]
    fn several_challenges_stand_in_one_line_or_in_several() {
        let one =
            r#"Basic realm="x", Negotiate a874==, Bearer scope="a b", error="insufficient_scope""#;
        let schemes: Vec<_> = params(one).into_iter().map(|(scheme, _)| scheme).collect();
        assert_eq!(schemes, ["Basic", "Negotiate", "Bearer"]);
        let bearer_in = |values: &[&'static str]| bearer(values.iter().copied());
        let found = bearer_in(&[one]).unwrap();
        assert_eq!(found.param("SCOPE"), Some("a b"));
        let found = bearer_in(&[r#"Basic realm="x""#, r#"BEARER resource_metadata="u""#]).unwrap();
        assert_eq!(found.param("resource_metadata"), Some("u"));
        let found = bearer_in(&["Bearer", "Bearer scope=a"]).unwrap();
        assert_eq!(found.param("scope"), Some("a"));
        assert_eq!(
            bearer_in(&["Basic QWxhZGRpbg==", "DPoP algs=\"ES256\""]),
            None
        );
    }

    #[test]
    fn the_needed_scopes_are_found_in_any_challenge() {
        let needed = |lines: &[&'static str]| scope_needed(403, lines.iter().copied());
        let found = needed(&[
            r#"Basic realm="a, error=insufficient_scope""#,
            r#"Bearer realm="x", ERROR = insufficient_scope, scope="a b", resource_metadata="u""#,
        ]);
        let found = found.unwrap();
        assert_eq!(found.scopes.unwrap(), ["a", "b"]);
        assert_eq!(found.resource_metadata.as_deref(), Some("u"));
        for unnamed in [
            r#"Bearer error="insufficient_scope""#,
            r#"Bearer error="insufficient_scope", scope="""#,
        ] {
            assert_eq!(needed(&[unnamed]).unwrap().scopes, None);
        }
        assert_eq!(
            needed(&[r#"Bearer error="invalid_token", scope="a""#]),
            None
        );
        assert_eq!(needed(&[]), None);
        let line = [r#"Bearer error="insufficient_scope""#];
        assert!(scope_needed(401, line).is_some());
        assert_eq!(scope_needed(400, line), None);
    }

    #[test]
    fn garbage_ends_the_list_and_loses_nothing_before_it() {
        assert_eq!(
            params(r#"Bearer scope="a", realm="never ends"#)[0].1,
            pairs(&[("scope", "a")])
        );
        assert_eq!(params("\u{7f}\u{0}").len(), 0);
        assert_eq!(params("").len(), 0);
        assert_eq!(params("=,=,=").len(), 0);
    }
}
