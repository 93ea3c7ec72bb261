//! PV: eras, revisions and the headers that carry them.

mod bridge;
mod codes;
mod eras;
mod handshake_header;
mod mirrored;
mod subscriptions;
mod versions;
