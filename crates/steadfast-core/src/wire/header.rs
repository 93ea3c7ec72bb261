//! Mirrored headers of 2026-07-28 (streamable-http, "Request Metadata"): always derived from the
//! outgoing body (PV-08).

use std::borrow::Cow;

/// A header value for `text`: as it is where it is plain, else in the Base64 sentinel
/// (streamable-http, "Value Encoding").
#[must_use]
pub fn encode_value(text: &str) -> Cow<'_, str> {
    let _ = text;
    unimplemented!()
}

/// Undoes [`encode_value`]. `None` where the sentinel holds no valid Base64 of UTF-8.
#[must_use]
pub fn decode_value(value: &str) -> Option<Cow<'_, str>> {
    let _ = value;
    unimplemented!()
}

/// One parameter of a tool that is mirrored: the header's full name (`Mcp-Param-Region`) and the chain
/// of keys below `arguments`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    /// `Mcp-Param-{Name}`.
    pub header: String,
    /// Keys from the root of `arguments`.
    pub path: Vec<String>,
}

/// Reads the `x-mcp-header` annotations of an inputSchema (raw JSON). An error names the broken rule;
/// such a tool must be left out of tools/list ("Schema Extension").
pub fn param_headers(input_schema: &[u8]) -> Result<Vec<ParamHeader>, String> {
    let _ = input_schema;
    unimplemented!()
}

/// The value of one mirrored parameter in `arguments` (raw JSON object), encoded; `None` where it is
/// absent or null, and where it is not a string, an integer or a boolean.
#[must_use]
pub fn param_value(arguments: &[u8], header: &ParamHeader) -> Option<String> {
    let _ = (arguments, header);
    unimplemented!()
}
