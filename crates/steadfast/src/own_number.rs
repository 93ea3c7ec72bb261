//! What tells this daemon from all others that share its store.

/// A number that nobody else draws. Without random numbers, two daemons of one machine differ by their process at least.
pub(crate) fn draw() -> u64 {
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}
