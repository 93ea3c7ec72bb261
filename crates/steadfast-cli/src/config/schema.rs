//! `steadfast.toml` as a whole. The tables of agents, servers, delays and the network are the keeper's own
//! shapes; the others are here. Unknown keys are errors everywhere.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Deserializer};
use steadfast::config::{
    Agent, Catalog, Email, Issuer, MaxMessage, Network, Renewal, Repeat, Retry, Server, SignIn,
    Span,
};
use url::Url;

/// A whole file.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) gateway: Gateway,
    pub(crate) network: Network,
    pub(crate) limits: Limits,
    pub(crate) store: Store,
    pub(crate) renewal: Renewal,
    pub(crate) retry: Retry,
    pub(crate) catalog: Catalog,
    pub(crate) sign_in: SignIn,
    pub(crate) agents: BTreeMap<String, Agent>,
    pub(crate) servers: BTreeMap<String, Server>,
    pub(crate) repeat: Repeat,
    pub(crate) notify: Notify,
}

/// `[gateway]`.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Gateway {
    #[serde(deserialize_with = "address")]
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Option<Url>,
    pub(crate) client_metadata_url: Option<Url>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) config_check: Span,
    pub(crate) keep_alive: Span,
    pub(crate) anonymous_agent: Option<String>,
    pub(crate) issuers: Vec<Issuer>,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7420)),
            public_url: None,
            client_metadata_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            config_check: Span::secs(1),
            keep_alive: Span::secs(15),
            anonymous_agent: None,
            issuers: Vec::new(),
        }
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_address(&text).map_err(serde::de::Error::custom)
}

/// An address to listen on: `127.0.0.1:7420`, `[::1]:7420`, `localhost:7420`.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| {
        format!("`{text}` is not an address to listen on: write an IP address and a port, as in `127.0.0.1:7420`")
    })
}

/// `[limits]`.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) max_message: Size,
}

/// A number of bytes as people write it: `64MiB`, `512KiB`, `100B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl Default for Size {
    fn default() -> Self {
        Self(MaxMessage::default().0)
    }
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = trimmed.split_at(digits);
        let shift = match unit.trim() {
            "B" => Some(0),
            "KiB" => Some(10),
            "MiB" => Some(20),
            "GiB" => Some(30),
            _ => None,
        };
        let bytes = shift.and_then(|shift| number.parse::<usize>().ok()?.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| {
            format!("`{text}` is not a size: write a whole number and one of B, KiB, MiB, GiB, as in `64MiB`")
        })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// `[store]`.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) event_retention: Span,
    pub(crate) event_size: Size,
    pub(crate) audit_retention: Span,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: "sqlite:steadfast.db".to_owned(),
            event_retention: Span::hours(24),
            event_size: Size(1 << 30),
            audit_retention: Span::hours(365 * 24),
        }
    }
}

/// `[notify]`.
#[derive(Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Notify {
    pub(crate) webhook: Option<Url>,
    pub(crate) email: Option<Email>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_numbers_with_a_unit() {
        assert_eq!("64MiB".parse(), Ok(Size(64 << 20)));
        assert_eq!("512 KiB".parse(), Ok(Size(512 << 10)));
        for bad in [
            "64",
            "64MB",
            "MiB",
            "-1B",
            "99999999999999999999B",
            "99999999999GiB",
        ] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_numeric_or_localhost() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 7421));
        assert_eq!(parse_address("localhost:7421"), Ok(local));
        assert_eq!(parse_address("127.0.0.1:7421"), Ok(local));
        assert!(parse_address("[::1]:0").is_ok());
        for bad in ["7420", "127.0.0.1", "example.com:80", ""] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
    }
}
