//! What agents connect to: `/mcp/{server}` and `/mcp`, in both eras at the same address.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`endpoint`] | who asks, for what, in which era |
//! | [`inbound`] | one JSON-RPC message within its limits |
//! | [`legacy`] | sessions: initialize, calls, the GET stream, DELETE |
//! | [`modern`] | requests that stand for themselves |
//! | [`session`] | one session, and what is under way in it |
//! | [`sessions`] | all of them: on record, in memory, forgotten |
//! | [`merged`] | all servers of an agent as if they were one |
//! | [`calling`] | one call while its answer is awaited |
//! | [`covered`] | what an access token covers |
//! | [`events`] | the event log: streams that can be resumed |
//! | [`stream_body`] | server-sent events on their way out |
//! | [`listening`] | every stream that an agent listens on |
//! | [`fanout`] | what servers send outside of any call |
//! | [`routing`] | which upstream connection serves a request |
//! | [`render`] | what is said where the server says nothing |

use steadfast_core::{AgentName, ServerName};

/// Names one connection.
pub(crate) type Connection = (AgentName, ServerName);

/// Names one connection, or without a server all those of an agent.
pub(crate) type Scope = (AgentName, Option<ServerName>);

pub(crate) mod calling;
pub(crate) mod covered;
pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod fanout;
pub(crate) mod hello;
pub(crate) mod inbound;
pub(crate) mod legacy;
pub(crate) mod listening;
pub(crate) mod merged;
pub(crate) mod modern;
pub(crate) mod render;
pub(crate) mod routing;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod stream_body;
