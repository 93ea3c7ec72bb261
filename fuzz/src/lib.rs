//! Fuzz targets: one function for each. Each takes any bytes and asserts what must hold for all of them.
//!
//! `tests/replay.rs` replays the committed inputs (`corpus/<target>/`) in every test run, on stable Rust.
//! To search for new ones, with a nightly toolchain and cargo-fuzz:
//!
//! ```text
//! cargo +nightly fuzz run --fuzz-dir fuzz/targets sse fuzz/corpus/sse
//! ```
//!
//! An input that made a target fail goes into its corpus together with the fix.

mod handshake;
mod input;
mod machines;
mod wire;

pub use handshake::handshake_step;
pub use machines::{answer_step, connection_step, listen_step, session_step};
pub use wire::{envelope, header, splice, sse};

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name: the name of the corpus and of the cargo-fuzz binary.
pub const TARGETS: [(&str, Target); 9] = [
    ("answer_step", answer_step),
    ("connection_step", connection_step),
    ("envelope", envelope),
    ("handshake_step", handshake_step),
    ("header", header),
    ("listen_step", listen_step),
    ("session_step", session_step),
    ("splice", splice),
    ("sse", sse),
];
