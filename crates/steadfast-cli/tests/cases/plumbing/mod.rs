//! HT: what lies between the protocol and the wire.

mod acknowledged;
mod old_transport;
mod once;
mod pages;
mod redirects;
