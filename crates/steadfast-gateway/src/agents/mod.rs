//! What agents connect to: `/mcp/{server}`, in both eras at the same address.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`endpoint`] | who asks, for what, in which era |
//! | [`inbound`] | one JSON-RPC message within its limits |
//! | [`legacy`] | sessions: initialize, calls, the GET stream, DELETE |
//! | [`modern`] | requests that stand for themselves |
//! | [`sessions`] | the sessions, and what is under way in them |
//! | [`calling`] | one call while its answer is awaited |
//! | [`events`] | the event log: streams that can be resumed |
//! | [`stream_body`] | server-sent events on their way out |
//! | [`fanout`] | what servers send outside of any call |
//! | [`render`] | what is said where the server says nothing |

pub(crate) mod calling;
pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod fanout;
pub(crate) mod hello;
pub(crate) mod inbound;
pub(crate) mod legacy;
pub(crate) mod modern;
pub(crate) mod render;
pub(crate) mod sessions;
pub(crate) mod stream_body;
