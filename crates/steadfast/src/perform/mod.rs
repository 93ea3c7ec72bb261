//! Sockets. Nothing in here decides: it dials, sends and reads, and says exactly what happened.

pub(crate) mod ask;
pub(crate) mod assertion;
pub(crate) mod dial;
pub(crate) mod discovery;
pub(crate) mod documents;
pub(crate) mod events;
pub(crate) mod exchange;
pub(crate) mod fetch;
pub(crate) mod mail;
pub(crate) mod mask;
pub(crate) mod pool;
pub(crate) mod registration;
pub(crate) mod token;
pub(crate) mod verify;
