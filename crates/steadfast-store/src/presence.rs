//! Which daemons are at work on a store now. Unlike a lease, which ends by the clock, presence ends with the process, however
//! it ends: whoever comes after a daemon that was killed need not wait to know that.

use std::any::Any;
use std::fmt;

use async_trait::async_trait;

use crate::error::Error;

/// A daemon is at work, as long as this lives.
pub struct Present {
    _guard: Box<dyn Any + Send + Sync>,
}

impl Present {
    pub(crate) fn new(guard: impl Any + Send + Sync) -> Self {
        let _guard = Box::new(guard);
        Self { _guard }
    }
}

impl fmt::Debug for Present {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Present")
    }
}

/// The daemons that are at work on a store.
#[async_trait]
pub trait Presence: Send + Sync + fmt::Debug {
    /// Says that a daemon of this name, which no other ever has, is at work.
    async fn appear(&self, daemon: &str) -> Result<Present, Error>;
    /// Whether the daemon of this name is.
    async fn is_present(&self, daemon: &str) -> Result<bool, Error>;
}
