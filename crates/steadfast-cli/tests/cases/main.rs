//! What breaks in the field, played on the wire against the real binary. Each test is named after its
//! case, and asserts what the server saw as well as what the agent got.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod admin;
mod bridge;
mod catalog;
mod common;
mod connect;
mod console;
mod doctor;
mod grants;
mod merged;
mod operating;
mod operations;
mod plumbing;
mod revisions;
mod rig;
mod routing;
mod secrets;
mod sessions;
mod sse;
mod streams;
mod tokens;
mod writes;
