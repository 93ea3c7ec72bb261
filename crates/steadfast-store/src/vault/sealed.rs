//! The sealed form of a secret, and the place it is bound to.

use std::fmt;

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use steadfast_core::identity::GrantGeneration;
use steadfast_core::{AgentName, OperationId, ServerName};
use zeroize::Zeroizing;

use super::key::{Key, KeyId};
use crate::clients::ClientRecord;
use crate::error::{Error, Problem};
use crate::grants::GrantRecord;
use crate::keys::IdHash;
use crate::notices::NoticeRecord;
use crate::sign_ins::SignInRecord;

/// The vault, as errors name it.
pub(super) const PLACE: &str = "the vault";

/// The first byte of a sealed value: which form the rest has. After it come the id of the key, the nonce, and the
/// secret with its tag.
const FORM: u8 = 1;
const NONCE: usize = 24;
/// The length of form and key id: what tells values under one key from those under another.
pub(crate) const HEAD: usize = 1 + KeyId::LENGTH;

/// A sealed secret: bytes that say nothing without the key.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Box<[u8]>);

impl Sealed {
    /// The bytes, to be stored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What every value begins with that is sealed under this key.
    pub(crate) fn head(key: KeyId) -> [u8; HEAD] {
        let mut head = [FORM; HEAD];
        head[1..].copy_from_slice(&key.0);
        head
    }
}

/// Bytes that were stored; whether they are whole is found out when they are opened.
impl From<Vec<u8>> for Sealed {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

/// Where a sealed value belongs. It is authenticated with the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The tokens of a grant.
    Grant {
        /// Whose.
        agent: AgentName,
        /// For which server.
        server: ServerName,
        /// Which set of tokens.
        generation: GrantGeneration,
    },
    /// The secret of a registered client.
    Client {
        /// At which issuer.
        issuer: String,
        /// For which redirect URI.
        redirect_uri: String,
    },
    /// What an attempt to sign in needs at its end.
    SignIn {
        /// For which agent.
        agent: AgentName,
        /// At which server.
        server: ServerName,
        /// Which attempt.
        state_hash: IdHash,
    },
    /// A secret that has a name.
    Entry {
        /// The name.
        name: String,
    },
    /// What a consequential call says.
    Operation {
        /// Which.
        id: OperationId,
    },
    /// The answer to a consequential call.
    OperationResult {
        /// Of which.
        id: OperationId,
    },
    /// Nothing: that it opens shows that the link of this notice was made here. It is not stored.
    Notice {
        /// Whose connection.
        agent: AgentName,
        /// To which server.
        server: ServerName,
        /// Which opening of the notice.
        number: u64,
    },
    /// A known text, which tells whether the key is the right one.
    Check,
}

/// The kinds of places that a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// [`Slot::Grant`].
    Grants,
    /// [`Slot::Client`].
    Clients,
    /// [`Slot::SignIn`].
    SignIns,
    /// [`Slot::Entry`].
    Entries,
    /// [`Slot::Operation`].
    Operations,
    /// [`Slot::OperationResult`].
    OperationResults,
}

impl SlotKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Grants,
        Self::Clients,
        Self::SignIns,
        Self::Entries,
        Self::Operations,
        Self::OperationResults,
    ];
}

impl Slot {
    /// The place of a grant's tokens.
    #[must_use]
    pub fn of_grant(grant: &GrantRecord) -> Self {
        Self::Grant {
            agent: grant.agent.clone(),
            server: grant.server.clone(),
            generation: grant.generation,
        }
    }

    /// The place of a registered client's secret.
    #[must_use]
    pub fn of_client(client: &ClientRecord) -> Self {
        Self::Client {
            issuer: client.issuer.clone(),
            redirect_uri: client.redirect_uri.clone(),
        }
    }

    /// The place of what an attempt to sign in needs.
    #[must_use]
    pub fn of_sign_in(sign_in: &SignInRecord) -> Self {
        Self::SignIn {
            agent: sign_in.agent.clone(),
            server: sign_in.server.clone(),
            state_hash: sign_in.state_hash,
        }
    }

    /// The place of a notice's link.
    #[must_use]
    pub fn of_notice(notice: &NoticeRecord) -> Self {
        Self::Notice {
            agent: notice.agent.clone(),
            server: notice.server.clone(),
            number: notice.number,
        }
    }

    /// The key of its row.
    pub(crate) fn key(&self) -> (&str, &str) {
        match self {
            Self::Grant { agent, server, .. }
            | Self::SignIn { agent, server, .. }
            | Self::Notice { agent, server, .. } => (agent.as_str(), server.as_str()),
            Self::Client {
                issuer,
                redirect_uri,
            } => (issuer, redirect_uri),
            Self::Entry { name } => (name, ""),
            Self::Operation { id } | Self::OperationResult { id } => (id.as_str(), ""),
            Self::Check => ("", ""),
        }
    }

    /// What is authenticated beside the secret. Parts have their lengths before them, so that no two places have the
    /// same bytes.
    fn associated_data(&self, key: KeyId) -> Vec<u8> {
        let mut data = b"steadfast vault".to_vec();
        data.extend(Sealed::head(key));
        let mut kind = |kind: u8, parts: &[&[u8]]| {
            data.push(kind);
            for part in parts {
                data.extend((part.len() as u64).to_be_bytes());
                data.extend(*part);
            }
        };
        match self {
            Self::Grant {
                agent,
                server,
                generation,
            } => kind(
                1,
                &[
                    agent.as_str().as_bytes(),
                    server.as_str().as_bytes(),
                    &generation.0.to_be_bytes(),
                ],
            ),
            Self::Client {
                issuer,
                redirect_uri,
            } => kind(2, &[issuer.as_bytes(), redirect_uri.as_bytes()]),
            Self::SignIn {
                agent,
                server,
                state_hash,
            } => kind(
                3,
                &[
                    agent.as_str().as_bytes(),
                    server.as_str().as_bytes(),
                    state_hash,
                ],
            ),
            Self::Entry { name } => kind(4, &[name.as_bytes()]),
            Self::Check => kind(5, &[]),
            Self::Operation { id } => kind(6, &[id.as_str().as_bytes()]),
            Self::OperationResult { id } => kind(7, &[id.as_str().as_bytes()]),
            Self::Notice {
                agent,
                server,
                number,
            } => kind(
                8,
                &[
                    agent.as_str().as_bytes(),
                    server.as_str().as_bytes(),
                    &number.to_be_bytes(),
                ],
            ),
        }
        data
    }
}

/// As errors name it.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grant { agent, server, .. } => {
                write!(f, "the grant of agent {agent} for server {server}")
            }
            Self::Client {
                issuer,
                redirect_uri,
            } => write!(f, "the client registered at {issuer} for {redirect_uri}"),
            Self::SignIn { agent, server, .. } => {
                write!(f, "the sign-in of agent {agent} at server {server}")
            }
            Self::Entry { name } => write!(f, "the secret {name}"),
            Self::Operation { id } => write!(f, "the operation {id}"),
            Self::OperationResult { id } => write!(f, "the result of operation {id}"),
            Self::Notice { agent, server, .. } => {
                write!(f, "the link for agent {agent} and server {server}")
            }
            Self::Check => f.write_str("its check value"),
        }
    }
}

pub(super) fn tampered(slot: &Slot) -> Error {
    Error::new(
        Problem::Tampered,
        PLACE,
        format!("{slot} does not open: it was changed, or belongs elsewhere"),
    )
}

/// Under which key a value is sealed.
pub(super) fn key_id(slot: &Slot, value: &Sealed) -> Result<KeyId, Error> {
    match value.0.split_first() {
        Some((&FORM, rest)) => rest
            .first_chunk()
            .map(|id| KeyId(*id))
            .ok_or_else(|| tampered(slot)),
        Some((_, _)) => Err(Error::new(
            Problem::Newer,
            PLACE,
            format!("{slot} has a form that this version of Steadfast does not know"),
        )),
        None => Err(tampered(slot)),
    }
}

pub(super) fn seal(key: &Key, slot: &Slot, plain: &[u8]) -> Result<Sealed, Error> {
    let id = key.id();
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce)
        .map_err(|error| Error::new(Problem::Io, PLACE, format!("no random numbers: {error}")))?;
    let payload = Payload {
        msg: plain,
        aad: &slot.associated_data(id),
    };
    let cipher = XChaCha20Poly1305::new(key.bytes().into());
    let secret = cipher
        .encrypt(&XNonce::from(nonce), payload)
        // RFC 8439 section 2.8: only a text of 256 GiB is too long.
        .map_err(|_| {
            Error::new(
                Problem::Io,
                PLACE,
                format!("{slot} is too long to be sealed"),
            )
        })?;
    let mut bytes = Vec::with_capacity(HEAD + NONCE + secret.len());
    bytes.extend(Sealed::head(id));
    bytes.extend(nonce);
    bytes.extend(secret);
    Ok(Sealed::from(bytes))
}

pub(super) fn open(key: &Key, slot: &Slot, value: &Sealed) -> Result<Zeroizing<Vec<u8>>, Error> {
    let id = key.id();
    let rest = value.0.get(HEAD..).unwrap_or_default();
    let (nonce, secret) = rest
        .split_first_chunk::<NONCE>()
        .ok_or_else(|| tampered(slot))?;
    let payload = Payload {
        msg: secret,
        aad: &slot.associated_data(id),
    };
    XChaCha20Poly1305::new(key.bytes().into())
        .decrypt(&XNonce::from(*nonce), payload)
        .map(Zeroizing::new)
        .map_err(|_| tampered(slot))
}
