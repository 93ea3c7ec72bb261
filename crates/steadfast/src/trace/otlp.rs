//! Spans as OTLP writes them in JSON (opentelemetry-proto 1, "JSON Protobuf Encoding"): ids in hexadecimal digits,
//! times as texts, names in lowerCamelCase.

use serde_json::{Value, json};

use super::Span;
use super::context::text;

/// `SpanKind.SPAN_KIND_SERVER`: an agent asks, and is answered here.
const SERVER: u8 = 2;
/// `Status.StatusCode.STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

/// One `ExportTraceServiceRequest`.
pub(super) fn request(resource: &[(String, String)], spans: &[Span]) -> Value {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes(resource)},
        "scopeSpans": [{
            "scope": {"name": "steadfast", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]})
}

fn span(span: &Span) -> Value {
    let mut written = json!({
        "traceId": text(&span.trace),
        "spanId": text(&span.id),
        "name": span.name,
        "kind": SERVER,
        "startTimeUnixNano": span.began.to_string(),
        "endTimeUnixNano": span.ended.to_string(),
        "attributes": attributes(&span.attributes),
    });
    if let Some(parent) = &span.parent {
        written["parentSpanId"] = text(parent).into();
    }
    if span.is_error {
        written["status"] = json!({"code": ERROR});
    }
    written
}

fn attributes<K: AsRef<str>>(pairs: &[(K, String)]) -> Value {
    let pairs = pairs.iter();
    let written =
        pairs.map(|(key, value)| json!({"key": key.as_ref(), "value": {"stringValue": value}}));
    written.collect()
}
