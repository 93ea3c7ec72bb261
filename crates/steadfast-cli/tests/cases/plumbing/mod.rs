//! HT: what lies between the protocol and the wire.

mod acknowledged;
mod cookies;
mod old_transport;
mod once;
mod pages;
mod redirects;
