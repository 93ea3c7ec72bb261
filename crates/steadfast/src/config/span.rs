//! Lengths of time in the configuration.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steadfast_core::now::Millis;

/// A length of time as people write it: `500ms`, `30s`, `20m`, `24h`, `7d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Millis);

impl Span {
    /// Seconds.
    #[must_use]
    pub const fn secs(seconds: u64) -> Self {
        Self(Millis::secs(seconds))
    }

    /// Minutes.
    #[must_use]
    pub const fn mins(minutes: u64) -> Self {
        Self(Millis::mins(minutes))
    }

    /// Hours.
    #[must_use]
    pub const fn hours(hours: u64) -> Self {
        Self(Millis::mins(hours * 60))
    }

    /// As the standard library's type.
    #[must_use]
    pub const fn duration(self) -> std::time::Duration {
        self.0.duration()
    }
}

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let factor = match unit.trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => 0,
        };
        match number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(factor))
        {
            Some(millis) if factor > 0 => Ok(Self(Millis(millis))),
            _ if text == "0" => Ok(Self(Millis::ZERO)),
            _ => Err(format!(
                "`{text}` is not a duration: write a whole number and one of ms, s, m, h, d, as in `30s`"
            )),
        }
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = self.0.0;
        for (unit, factor) in [
            ("d", 86_400_000),
            ("h", 3_600_000),
            ("m", 60_000),
            ("s", 1_000),
        ] {
            if millis >= factor && millis.is_multiple_of(factor) {
                return write!(f, "{}{unit}", millis / factor);
            }
        }
        write!(f, "{millis}ms")
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written_alike() {
        for text in ["500ms", "30s", "20m", "36h", "7d", "90s"] {
            assert_eq!(
                text.parse::<Span>().map(|span| span.to_string()),
                Ok(text.to_owned())
            );
        }
        assert_eq!("0".parse::<Span>(), Ok(Span::default()));
        assert!("soon".parse::<Span>().is_err());
        assert!("99999999999999999999d".parse::<Span>().is_err());
    }
}
