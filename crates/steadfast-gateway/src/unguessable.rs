//! Ids that nobody can guess: hashes of a counter and of a secret that was drawn once. As good as
//! random numbers of the operating system, without a call of it for each.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

/// Draws ids.
pub(crate) struct Unguessable {
    secret: [u8; 32],
    drawn: AtomicU64,
}

impl std::fmt::Debug for Unguessable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unguessable(…)")
    }
}

impl Unguessable {
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self {
            secret,
            drawn: AtomicU64::new(0),
        })
    }

    fn draw(&self) -> [u8; 32] {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        Sha256::new()
            .chain_update(self.secret)
            .chain_update(number.to_le_bytes())
            .finalize()
            .into()
    }

    /// 128 bits.
    pub(crate) fn name(&self) -> u128 {
        let drawn = self.draw();
        let half = drawn.iter().take(16);
        half.fold(0, |name, byte| name << 8 | u128::from(*byte))
    }

    /// 32 bits.
    pub(crate) fn number(&self) -> u32 {
        let drawn = self.draw();
        let part = drawn.iter().take(4);
        part.fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    /// 256 bits, as 64 hexadecimal digits.
    pub(crate) fn text(&self) -> String {
        let drawn = self.draw();
        drawn
            .iter()
            .fold(String::with_capacity(64), |mut text, byte| {
                // Writing to a String cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_comes_twice_and_none_tells_of_another_process() {
        let (one, other) = (Unguessable::new().unwrap(), Unguessable::new().unwrap());
        let mut ids: Vec<String> = (0..1_000)
            .flat_map(|_| [one.text(), other.text()])
            .collect();
        assert!(
            ids.iter()
                .all(|id| id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
        );
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 2_000);
        assert_ne!(one.name(), one.name());
    }
}
