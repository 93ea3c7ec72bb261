//! What a message of one era becomes in the other. Raw JSON in, raw JSON out; nothing but what the
//! eras differ in is touched. What needs server-to-client requests comes with the gateway issue.

use crate::revision::Revision;

/// Who asks, in the words of the modern era: raw JSON, taken from the agent's own `initialize` or `_meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// `clientInfo`.
    pub info: String,
    /// `clientCapabilities`.
    pub capabilities: String,
    /// The log level that the agent asked for, as a JSON string; `None` for no log notifications.
    pub log_level: Option<String>,
}

/// A legacy request for a modern server: puts the metadata into `params._meta`, and takes nothing out.
/// `message` is one valid JSON-RPC request.
#[must_use]
pub fn request_to_modern(message: &[u8], revision: Revision, client: &Client) -> Vec<u8> {
    let _ = (message, revision, client);
    unimplemented!()
}

/// A modern request for a legacy server: takes the `io.modelcontextprotocol/…` keys of this revision
/// (protocolVersion, clientInfo, clientCapabilities, logLevel) out of `_meta`, and an empty `_meta` with them.
#[must_use]
pub fn request_to_legacy(message: &[u8]) -> Vec<u8> {
    let _ = message;
    unimplemented!()
}

/// A legacy server's result for a modern agent: `resultType: "complete"` where it is missing
/// (changelog, major 8), and for the results of `method` that are cacheable `ttlMs: 0` and
/// `cacheScope: "private"` where they are missing (server/utilities/caching).
#[must_use]
pub fn result_to_modern(method: &str, message: &[u8]) -> Vec<u8> {
    let _ = (method, message);
    unimplemented!()
}

/// A modern server's result for a legacy agent: unknown members are harmless there, so only
/// `resultType: "complete"` is taken out; `None` for `input_required`, which the gateway must translate.
#[must_use]
pub fn result_to_legacy(message: &[u8]) -> Option<Vec<u8>> {
    let _ = message;
    unimplemented!()
}
