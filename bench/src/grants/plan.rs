//! Which grants there are, and when each expires.

use std::net::SocketAddr;

use steadfast::config::{Renewal, Settings, Span};
use steadfast_core::grant::{State, Strikes, Tokens};
use steadfast_core::identity::GrantGeneration;
use steadfast_core::now::Millis;
use steadfast_core::oauth::client::Auth;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::{AgentName, ServerName, Wall};
use steadfast_store::{ClientOrigin, GrantClient, GrantRecord, Version};

use crate::options::GrantsOptions;

/// The server that all grants are for. It is never asked: nobody connects.
pub(super) const SERVER: &str = "booking";

/// Every so many issuers one whose grants all expire at the same moment, as after a day on which everybody signed in.
const RUSH: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) options: GrantsOptions,
    /// When the hour begins.
    pub(super) begins: Wall,
}

impl Plan {
    /// How long an hour takes, in milliseconds.
    pub(super) fn hour(&self) -> i64 {
        i64::try_from(self.options.hour.saturating_mul(1_000)).unwrap_or(i64::MAX)
    }

    /// Twenty minutes, the default of `renewal.window`.
    fn window(&self) -> i64 {
        self.hour() / 3
    }

    pub(super) fn ends(&self) -> Wall {
        Wall(self.begins.0 + self.hour())
    }

    pub(super) fn issuer_of(&self, number: usize) -> usize {
        number % self.options.issuers.max(1)
    }

    /// Within the hour, and none so early that it is due before the hour begins.
    pub(super) fn expires_at(&self, number: usize) -> Wall {
        let span = (self.hour() - self.window()).unsigned_abs().max(1);
        let after = if self.issuer_of(number).is_multiple_of(RUSH) {
            span / 2
        } else {
            mixed(self.options.seed, number as u64) % span
        };
        Wall((self.begins.0 + self.window()).saturating_add_unsigned(after))
    }

    /// The grant without its secrets.
    pub(super) fn grant(&self, number: usize, address: SocketAddr) -> GrantRecord {
        let expires_at = self.expires_at(number);
        let renew_at = Wall(expires_at.0 - self.window());
        let tokens = Tokens {
            generation: GrantGeneration(1),
            issued_at: Wall(expires_at.0 - self.hour()),
            expires_at,
            renewable: true,
            scopes: Vec::new(),
        };
        let issuer = format!("http://{address}/issuer-{}", self.issuer_of(number));
        GrantRecord {
            agent: agent(number),
            server: SERVER.into(),
            version: Version::NONE,
            generation: tokens.generation,
            state: State::Valid {
                tokens,
                renew_at,
                strikes: Strikes::default(),
            },
            wake_at: Some(renew_at),
            resource: None,
            token_endpoint: Some(format!("{issuer}/token")),
            issuer,
            client: GrantClient::new("bench".to_owned(), Auth::None, ClientOrigin::Imported),
            last_renewal: None,
            step_up: StepUp::default(),
            sealed: None,
        }
    }

    /// The defaults, on the clock on which an hour passes sooner. A request takes as long as ever, and so does a lease.
    pub(super) fn settings(&self) -> Settings {
        let defaults = Renewal::default();
        let scaled = |span: Span| Span(Millis((span.0.0 * self.options.hour / 3_600).max(1)));
        Settings {
            renewal: Renewal {
                window: scaled(defaults.window),
                assumed_lifetime: scaled(defaults.assumed_lifetime),
                check_every: scaled(defaults.check_every),
                retry_first: scaled(defaults.retry_first),
                retry_max: scaled(defaults.retry_max),
                ..defaults
            },
            ..Settings::default()
        }
    }
}

/// Each has one grant.
pub(super) fn agent(number: usize) -> AgentName {
    format!("agent-{number}").as_str().into()
}

pub(super) fn servers() -> [ServerName; 1] {
    [SERVER.into()]
}

/// A number that looks random and follows from the seed: the finaliser of SplitMix64.
fn mixed(seed: u64, number: u64) -> u64 {
    let mut mixed = seed
        .wrapping_add(number)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
