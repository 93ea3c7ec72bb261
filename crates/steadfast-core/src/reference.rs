//! `${vault:NAME}`: a value of the configuration that names secrets instead of holding them. It may have text around
//! it, and several of them may stand in one value. Other text with a dollar sign is text.

use std::fmt;

const OPENING: &str = "${vault:";

/// A value, parted into its text and its references.
#[derive(Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    Secret(Box<str>),
}

/// A reference is not written as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reference is written ${{vault:NAME}}, with a name of 1 to 64 of A-Z a-z 0-9 _ -")]
pub struct BadReference;

/// Whether a secret may have this name.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

impl Template {
    /// Reads a value.
    ///
    /// # Errors
    ///
    /// Where a reference has no end, or no name that a secret could have.
    pub fn read(value: &str) -> Result<Self, BadReference> {
        let mut parts = Vec::new();
        let mut rest = value;
        while let Some((text, after)) = rest.split_once(OPENING) {
            if !text.is_empty() {
                parts.push(Part::Text(text.into()));
            }
            let (name, after) = after.split_once('}').ok_or(BadReference)?;
            if !is_secret_name(name) {
                return Err(BadReference);
            }
            parts.push(Part::Secret(name.into()));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Ok(Self(parts))
    }

    /// The names of its secrets, in the order in which they stand there.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Secret(name) => Some(&**name),
            Part::Text(_) => None,
        })
    }

    /// The value as people may see it: its references, and `mask` for the text around them.
    #[must_use]
    pub fn masked(&self, mask: &str) -> String {
        let mut value = String::new();
        for part in &self.0 {
            match part {
                Part::Text(_) => value.push_str(mask),
                Part::Secret(name) => value.extend([OPENING, name, "}"]),
            }
        }
        value
    }

    /// The value, with the secrets in their places.
    ///
    /// # Errors
    ///
    /// The first name that `secret` does not know.
    pub fn fill<S: AsRef<str>>(
        &self,
        mut secret: impl FnMut(&str) -> Option<S>,
    ) -> Result<String, &str> {
        let mut value = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => value.push_str(text),
                Part::Secret(name) => value.push_str(secret(name).ok_or(&**name)?.as_ref()),
            }
        }
        Ok(value)
    }
}

/// The text around a reference may be half of a secret.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(value: &str) -> Result<String, String> {
        let template = Template::read(value).map_err(|error| error.to_string())?;
        let secret = |name: &str| match name {
            "A" => Some("one"),
            "B_2-x" => Some("${vault:A}"),
            _ => None,
        };
        template.fill(secret).map_err(str::to_owned)
    }

    #[test]
    fn references_are_replaced_and_text_stays() {
        for (value, filled) in [
            ("", ""),
            ("plain $5 ${x} {vault:A}", "plain $5 ${x} {vault:A}"),
            ("${vault:A}", "one"),
            ("Bearer ${vault:A}", "Bearer one"),
            ("${vault:A}:${vault:A}!", "one:one!"),
            // What a secret holds is no reference.
            ("${vault:B_2-x}", "${vault:A}"),
        ] {
            assert_eq!(fill(value).as_deref(), Ok(filled), "{value}");
        }
    }

    #[test]
    fn the_first_missing_name_is_told() {
        assert_eq!(fill("${vault:A}${vault:C}${vault:D}"), Err("C".to_owned()));
    }

    #[test]
    fn a_reference_without_an_end_or_a_name_is_none() {
        for value in [
            "${vault:",
            "${vault:A",
            "${vault:}",
            "${vault:a b}",
            "${vault:ä}",
        ] {
            assert_eq!(Template::read(value), Err(BadReference), "{value}");
        }
        let long = format!("${{vault:{}}}", "x".repeat(65));
        assert_eq!(Template::read(&long), Err(BadReference));
    }

    #[test]
    fn only_names_are_shown() {
        let template = Template::read("canary ${vault:A}").unwrap();
        assert_eq!(format!("{template:?}"), r#"["A"]"#);
        assert_eq!(template.masked("…"), "…${vault:A}");
    }
}
