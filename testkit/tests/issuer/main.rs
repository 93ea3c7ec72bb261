//! The authorization server, the protected server and the browser do what they say.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod app;
mod consent;
mod protected;
mod renewal;
mod token_endpoint;
