//! Where spans go, by the environment variables of OpenTelemetry ("OpenTelemetry Protocol Exporter" and "Environment
//! Variable Specification").

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

/// The default of `OTEL_BSP_SCHEDULE_DELAY`.
const DELAY: Duration = Duration::from_secs(5);

/// Where spans go, and what is said of whom they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    pub(super) endpoint: Url,
    /// Sensitive: they do not print.
    pub(super) headers: HeaderMap,
    pub(super) resource: Vec<(String, String)>,
    pub(super) delay: Duration,
}

impl Traces {
    /// As the environment says; none where it names no collector.
    ///
    /// # Errors
    ///
    /// Which variable cannot be used, and why; no value is quoted.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let of_traces = |name: &str| {
            set(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
                .or_else(|| set(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let is_off = set("OTEL_SDK_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || set("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        let own = set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let common = set("OTEL_EXPORTER_OTLP_ENDPOINT");
        let endpoint = match (own, common) {
            _ if is_off => return Ok(None),
            // That of the traces is used as it is, the common one with their path ("Endpoint URLs for OTLP/HTTP").
            (Some(own), _) => own,
            (None, Some(common)) => format!("{}/v1/traces", common.trim_end_matches('/')),
            (None, None) => return Ok(None),
        };
        if of_traces("PROTOCOL").is_some_and(|protocol| !protocol.starts_with("http/")) {
            let why = "only OTLP over HTTP is spoken: set OTEL_EXPORTER_OTLP_PROTOCOL to http/json";
            return Err(why.to_owned());
        }
        let endpoint: Url = endpoint
            .parse()
            .map_err(|error| format!("OTEL_EXPORTER_OTLP_ENDPOINT is not a URL: {error}"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in pairs(&of_traces("HEADERS").unwrap_or_default()) {
            let refused = |_| "OTEL_EXPORTER_OTLP_HEADERS has what no header can carry".to_owned();
            let name = HeaderName::try_from(name).map_err(|_| refused(()))?;
            let mut value = HeaderValue::try_from(value).map_err(|_| refused(()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let mut resource = pairs(&set("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default());
        let service = set("OTEL_SERVICE_NAME");
        let is_named = resource.iter().any(|(key, _)| key == "service.name");
        if service.is_some() || !is_named {
            resource.retain(|(key, _)| key != "service.name");
            let service = service.unwrap_or_else(|| "steadfast".to_owned());
            resource.push(("service.name".to_owned(), service));
        }
        let delay = set("OTEL_BSP_SCHEDULE_DELAY").and_then(|millis| millis.trim().parse().ok());
        Ok(Some(Self {
            endpoint,
            headers,
            resource,
            delay: delay.map_or(DELAY, Duration::from_millis),
        }))
    }
}

/// `key=value,key=value`, percent-encoded as W3C Baggage is.
fn pairs(text: &str) -> Vec<(String, String)> {
    let decoded = |part: &str| {
        percent_encoding::percent_decode_str(part.trim())
            .decode_utf8_lossy()
            .into_owned()
    };
    text.split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<Traces>, String> {
        Traces::from_environment(|name| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_standard_variables_say_where_spans_go() {
        assert_eq!(read(&[]), Ok(None));
        let traces = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=canary%20a"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=other,deployment=a",
            ),
            ("OTEL_SERVICE_NAME", "gate"),
        ]);
        let traces = traces.unwrap().unwrap();
        assert_eq!(traces.endpoint.as_str(), "http://collector:4318/v1/traces");
        assert_eq!(traces.headers["x-key"], "canary a");
        assert!(!format!("{traces:?}").contains("canary"), "{traces:?}");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            traces.resource,
            [pair("deployment", "a"), pair("service.name", "gate")]
        );
        let own = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/in"),
        ]);
        assert_eq!(own.unwrap().unwrap().endpoint.as_str(), "http://traces/in");
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c");
        assert_eq!(read(&[endpoint, ("OTEL_SDK_DISABLED", "true")]), Ok(None));
        assert_eq!(
            read(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]),
            Ok(None)
        );
        assert!(read(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).is_err());
        assert!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense")]).is_err());
    }
}
