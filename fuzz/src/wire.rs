//! The codecs.

use serde_json::value::RawValue;
use steadfast_core::wire::envelope::{self as message, Invalid};
use steadfast_core::wire::header as mirrored;
use steadfast_core::wire::json::{self, Member};
use steadfast_core::wire::splice::{self as edit, Edit};
use steadfast_core::wire::sse::{Decoder, Item, encode};

use crate::input::Input;

/// Server-sent events: the same items however the bytes are cut, none above the limit, and each event's
/// data comes back when it is written again.
pub fn sse(data: &[u8]) {
    let mut input = Input(data);
    let limit = usize::from(input.byte());
    let widths = [input.byte() % 16 + 1, input.byte() % 16 + 1];
    let mut rest = input.0;
    let mut whole = Vec::new();
    Decoder::new(limit).feed(rest, &mut whole);
    let mut cut = Vec::new();
    let mut decoder = Decoder::new(limit);
    for width in widths.into_iter().cycle() {
        let (chunk, tail) = rest.split_at(usize::from(width).min(rest.len()));
        decoder.feed(chunk, &mut cut);
        rest = tail;
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(whole, cut);
    for item in whole {
        if let Item::Event(event) = item
            && let Some(data) = event.data
        {
            assert!(data.len() <= limit);
            let mut out = Vec::new();
            encode(&mut out, event.id.as_deref(), event.retry, &data);
            let mut again = Vec::new();
            Decoder::new(limit).feed(&out, &mut again);
            let [Item::Event(again)] = &again[..] else {
                panic!("{again:?} from one event");
            };
            assert_eq!((&again.id, again.retry), (&event.id, event.retry));
            assert_eq!(again.data.as_ref(), Some(&data));
        }
    }
}

fn members_of(source: &[u8]) -> Option<Vec<Member>> {
    let mut members = Vec::new();
    json::members(source, 0..source.len(), |member| members.push(member)).ok()?;
    Some(members)
}

/// Splices: any edits leave the rest as it was; members cut and added leave the right ones.
pub fn splice(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.byte();
    let added: [&[(&str, &str)]; 3] = [&[], &[("x", "1")], &[("x", "1"), ("y\"", "{}")]];
    let add = input.pick(added);
    let places = [0; 6].map(|_| usize::from(input.byte()));
    let source = input.0;

    assert_eq!(edit::apply(source, &mut []), source);
    let mut edits: Vec<_> = places
        .chunks(2)
        .map(|pair| Edit {
            range: pair[0]..pair[0].saturating_add(pair[1] % 8),
            with: b"<>",
        })
        .collect();
    let edited = edit::apply(source, &mut edits);
    assert!(edited.len() <= source.len() + 6);

    let Some(members) = members_of(source) else {
        return;
    };
    let is_cut = |at: usize| choice & (1 << (at % 8)) != 0;
    let (cut, kept): (Vec<_>, Vec<_>) = members.iter().enumerate().partition(|(at, _)| is_cut(*at));
    let cut: Vec<_> = cut.into_iter().map(|(_, member)| member.clone()).collect();
    let change = edit::change_members(source, 0..source.len(), &cut, add);
    let mut edits: Vec<_> = change.edits().collect();
    let changed = edit::apply(source, &mut edits);
    let kept = kept
        .into_iter()
        .map(|(_, member)| &source[member.value.clone()]);
    let expected: Vec<_> = kept
        .chain(add.iter().map(|(_, value)| value.as_bytes()))
        .collect();
    let found = members_of(&changed).unwrap_or_default();
    let found: Vec<_> = found
        .into_iter()
        .map(|member| &changed[member.value])
        .collect();
    assert_eq!(found, expected);
}

/// Mirrored headers: every text comes back from a value that is safe in a header, and what a schema makes us
/// mirror is safe as well. A schema and arguments are two lines.
pub fn header(data: &[u8]) {
    let is_safe = |value: &str| {
        value
            .bytes()
            .all(|byte| matches!(byte, b'\t' | b' '..=b'~'))
            && value.trim_matches([' ', '\t']) == value
    };
    if let Ok(text) = std::str::from_utf8(data) {
        let value = mirrored::encode_value(text);
        assert!(is_safe(&value));
        assert_eq!(mirrored::decode_value(&value).as_deref(), Some(text));
        let _ = mirrored::decode_value(text);
    }
    let mut lines = data.split(|byte| *byte == b'\n');
    let schema = lines.next().unwrap_or_default();
    let arguments = lines.next().unwrap_or_default();
    for param in mirrored::param_headers(schema).unwrap_or_default() {
        assert!(param.header.len() > "Mcp-Param-".len());
        assert!(
            param
                .header
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b':')
        );
        if let Some(value) = mirrored::param_value(arguments, &param) {
            assert!(is_safe(&value));
        }
    }
}

/// Messages: JSON is told from other bytes as `serde_json` does, all parts are values inside the source, and a
/// spliced id changes the id and nothing else.
pub fn envelope(data: &[u8]) {
    let is_json = serde_json::from_slice::<&RawValue>(data).is_ok();
    let envelope = match message::read(data) {
        Ok(envelope) => envelope,
        Err(Invalid::Json(error)) => {
            assert!(!is_json && error.at <= data.len());
            return;
        }
        Err(Invalid::Message(_)) => return assert!(is_json),
        Err(Invalid::Batch) => {
            assert!(is_json);
            for range in message::read_batch(data).unwrap_or_default() {
                assert_eq!(json::validate(&data[range]), Ok(()));
            }
            return;
        }
    };
    assert!(is_json);
    let params = message::read_params(data, &envelope);
    let parts = [
        &envelope.id,
        &envelope.method,
        &envelope.params,
        &envelope.result,
        &envelope.error,
        &params.meta,
        &params.progress_token,
        &params.protocol_version,
        &params.name,
        &params.arguments,
    ];
    for range in parts.into_iter().flatten() {
        assert_eq!(json::validate(&data[range.clone()]), Ok(()));
    }
    let _ = message::read_error(data, &envelope);
    let Some(id) = envelope.id.clone() else {
        return;
    };
    assert!(envelope.rpc_id(data).is_some());
    let spliced = edit::apply(
        data,
        &mut [Edit {
            range: id.clone(),
            with: b"17",
        }],
    );
    assert!(spliced.starts_with(&data[..id.start]) && spliced.ends_with(&data[id.end..]));
    let again = message::read(&spliced);
    assert!(again.is_ok_and(|again| again.kind == envelope.kind
        && again.method(&spliced) == envelope.method(data)
        && again.rpc_id(&spliced).is_some()));
}
