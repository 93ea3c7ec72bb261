//! Pure codecs for what is on the wire. Bytes that are not ours are never re-serialised: [`splice`]
//! cuts ids and tokens out of raw JSON and puts others in (architecture, events and bytes 17).
//!
//! | module | what it reads and writes |
//! | --- | --- |
//! | [`json`] | a strict RFC 8259 scanner that finds members without building a tree |
//! | [`envelope`] | JSON-RPC 2.0 messages: kind, id, method, the parts of params we look at |
//! | [`splice`] | edits of raw JSON |
//! | [`sse`] | server-sent events, both ways |
//! | [`header`] | `Mcp-Name`, `Mcp-Param-*` and their Base64 sentinel |
//! | [`caching`] | `Cache-Control`, `Expires`, `Age` |
//! | [`challenge`] | `WWW-Authenticate` |
//! | [`token`] | answers of a token endpoint, in JSON or form-encoded |

pub mod caching;
pub mod challenge;
pub mod envelope;
pub mod header;
pub mod json;
pub mod splice;
pub mod sse;
pub mod token;
