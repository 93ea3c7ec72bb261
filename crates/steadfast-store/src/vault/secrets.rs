//! The secrets that are sealed together, and their form before sealing.

use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

/// The secrets of a grant: what a renewal needs beside the record.
#[derive(Clone, Debug)]
pub struct GrantSecrets {
    /// The access token.
    pub access_token: SecretString,
    /// The refresh token; `None` where none was ever issued.
    pub refresh_token: Option<SecretString>,
    /// The secret of the client that they were issued to, unless it is in the configuration.
    pub client_secret: Option<SecretString>,
}

impl GrantSecrets {
    pub(super) fn write(&self) -> Zeroizing<Vec<u8>> {
        write([
            Some(&self.access_token),
            self.refresh_token.as_ref(),
            self.client_secret.as_ref(),
        ])
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [access_token, refresh_token, client_secret] = read(bytes)?;
        Some(Self {
            access_token: access_token?,
            refresh_token,
            client_secret,
        })
    }
}

/// The secrets of a sign-in under way.
#[derive(Clone, Debug)]
pub struct SignInSecrets {
    /// The PKCE verifier (RFC 7636 section 4.1).
    pub verifier: SecretString,
    /// The link, which holds `state`.
    pub link: SecretString,
    /// The secret of the client, unless it is in the configuration.
    pub client_secret: Option<SecretString>,
}

impl SignInSecrets {
    pub(super) fn write(&self) -> Zeroizing<Vec<u8>> {
        write([
            Some(&self.verifier),
            Some(&self.link),
            self.client_secret.as_ref(),
        ])
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [verifier, link, client_secret] = read(bytes)?;
        Some(Self {
            verifier: verifier?,
            link: link?,
            client_secret,
        })
    }
}

/// What a consequential call says: as private as what it does.
#[derive(Clone, Debug)]
pub struct OperationSecrets {
    /// Its params, as the agent sent them: JSON text.
    pub params: SecretString,
    /// The agent's own key for its intention.
    pub operation_key: Option<SecretString>,
    /// The key with which the provider prevents duplicates: JSON text.
    pub provider_key: Option<SecretString>,
}

impl OperationSecrets {
    pub(super) fn write(&self) -> Zeroizing<Vec<u8>> {
        write([
            Some(&self.params),
            self.operation_key.as_ref(),
            self.provider_key.as_ref(),
        ])
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [params, operation_key, provider_key] = read(bytes)?;
        Some(Self {
            params: params?,
            operation_key,
            provider_key,
        })
    }
}

/// The first byte: which form the rest has. Each text has its length before it in eight bytes, and one that is not
/// there has the largest length. Not JSON: its buffers grow, and leave copies of secrets behind.
const FORM: u8 = 1;
const ABSENT: u64 = u64::MAX;

fn write<const N: usize>(texts: [Option<&SecretString>; N]) -> Zeroizing<Vec<u8>> {
    let texts = texts.map(|text| text.map(SecretString::expose_secret));
    let length: usize = texts.iter().flatten().map(|text| text.len()).sum();
    let mut bytes = Zeroizing::new(Vec::with_capacity(1 + 8 * N + length));
    bytes.push(FORM);
    for text in texts {
        let length = text.map_or(ABSENT, |text| text.len() as u64);
        bytes.extend(length.to_be_bytes());
        bytes.extend(text.unwrap_or_default().as_bytes());
    }
    bytes
}

fn read<const N: usize>(bytes: &[u8]) -> Option<[Option<SecretString>; N]> {
    let mut rest = bytes.strip_prefix(&[FORM])?;
    let mut texts = [const { None }; N];
    for text in &mut texts {
        let (length, after) = rest.split_first_chunk()?;
        rest = after;
        let length = u64::from_be_bytes(*length);
        if length != ABSENT {
            let (bytes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            rest = after;
            *text = Some(std::str::from_utf8(bytes).ok()?.into());
        }
    }
    rest.is_empty().then_some(texts)
}
