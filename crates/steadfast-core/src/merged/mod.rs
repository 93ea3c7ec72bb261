//! What the servers of an agent are together, at the one address that serves them all.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`names`] | how tools and prompts are told apart |
//! | [`keys`] | which servers list a name or a URI |
//! | [`resources`] | which server a URI belongs to |
//! | [`cursor`] | where a list goes on that may have changed between two pages |
//! | [`offer`] | what the servers offer together |

pub mod cursor;
pub mod keys;
pub mod names;
pub mod offer;
pub mod resources;

pub use cursor::Cursor;
pub use keys::Keys;
pub use resources::Owner;
