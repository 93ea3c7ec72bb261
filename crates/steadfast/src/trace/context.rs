//! Trace context of an agent: `traceparent` of its `_meta` (2026-07-28 basic, "OpenTelemetry trace context"; W3C Trace
//! Context, section 3.2).

use std::fmt;

/// Which span of which trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    /// Whether whoever began the trace records it.
    pub(super) is_sampled: bool,
}

impl Context {
    /// Reads a `traceparent`. One that is not valid is as good as none (section 3.2.2.3).
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version: [u8; 1] = hex(parts.next()?)?;
        let (trace, span) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let [flags]: [u8; 1] = hex(parts.next()?)?;
        // Section 3.2.2.1: 255 is forbidden, and only later versions may have more parts.
        let is_known = match version {
            [0] => parts.next().is_none(),
            [0xff] => false,
            [_] => true,
        };
        // All zeros name nothing.
        let is_named = trace != [0; 16] && span != [0; 8];
        (is_known && is_named).then_some(Self {
            trace,
            span,
            is_sampled: flags & 1 == 1,
        })
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", text(&self.trace), text(&self.span))
    }
}

/// Lower case only, as the section asks.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: &u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let (high, low) = (digit(pair.first()?)?, digit(pair.get(1)?)?);
        *byte = high << 4 | low;
    }
    Some(bytes)
}

/// As it is written.
pub(super) fn text(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_valid_is_read_and_nothing_else() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let read = Context::read(good).unwrap();
        assert_eq!(text(&read.trace), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(text(&read.span), "00f067aa0ba902b7");
        assert!(read.is_sampled);
        let later = "01-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00-more";
        assert!(!Context::read(later).unwrap().is_sampled);
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7",
            "00-0AF7651916CD43DD8448EB211C80319C-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Context::read(bad), None, "{bad}");
        }
    }
}
