#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;

const LIMIT: usize = 1024 * 1024;

fn decode(limit: usize, chunks: &[&[u8]]) -> Vec<Item> {
    let mut decoder = Decoder::new(limit);
    let mut found = Vec::new();
    for chunk in chunks {
        decoder.feed(chunk, &mut found);
    }
    found
}

fn decode_all(source: &[u8]) -> Vec<Item> {
    decode(LIMIT, &[source])
}

fn event(id: Option<&str>, data: Option<&str>) -> Item {
    Item::Event(Event {
        id: id.map(str::to_owned),
        data: data.map(|data| data.as_bytes().to_vec()),
        ..Event::default()
    })
}

/// One stream with each shape: priming, comments, several data lines, no space, no colon, cut characters.
const STREAM: &str = "\u{feff}id: 1\nretry: 3000\ndata: \n\n\
    : keep-alive\n\
    event: message\nid: 2\ndata: {\"text\":\"é世😀\"}\n\n\
    data:first\ndata\ndata:  third: with colon\nunknown: x\nnot a field\n\n\
    id: 3\n\n\
    :\n\n\n\
    data: last\nid\n\n\
    data: unfinished\n";

fn expected() -> Vec<Item> {
    vec![
        Item::Event(Event {
            name: String::new(),
            id: Some("1".into()),
            retry: Some(3000),
            data: Some(Vec::new()),
        }),
        Item::Comment,
        Item::Event(Event {
            name: "message".into(),
            id: Some("2".into()),
            retry: None,
            data: Some("{\"text\":\"é世😀\"}".into()),
        }),
        event(None, Some("first\n\n third: with colon")),
        event(Some("3"), None),
        Item::Comment,
        event(Some(""), Some("last")),
    ]
}

/// The stream with LF, CRLF, CR, and all three in turn.
fn line_end_styles() -> [(&'static str, Vec<u8>); 4] {
    let mut turn = [&b"\n"[..], b"\r\n", b"\r"].into_iter().cycle();
    let mixed = STREAM
        .split_inclusive('\n')
        .flat_map(|line| {
            let text = line.trim_end_matches('\n').as_bytes();
            // A CR before an LF that is meant alone would make one line end of the two.
            let end = turn.next().unwrap();
            [
                text,
                if text.is_empty() && end == b"\n" {
                    b"\r\n"
                } else {
                    end
                },
            ]
            .concat()
        })
        .collect();
    [
        ("LF", STREAM.into()),
        ("CRLF", STREAM.replace('\n', "\r\n").into()),
        ("CR", STREAM.replace('\n', "\r").into()),
        ("mixed", mixed),
    ]
}

#[test]
fn all_line_ends_give_the_same_events_at_every_cut() {
    for (style, stream) in line_end_styles() {
        assert_eq!(decode_all(&stream), expected(), "{style}, whole");
        for cut in 0..=stream.len() {
            let (head, tail) = stream.split_at(cut);
            assert_eq!(
                decode(LIMIT, &[head, tail]),
                expected(),
                "{style}, cut at {cut}"
            );
            assert_eq!(
                decode(LIMIT, &[head, b"", tail]),
                expected(),
                "{style}, cut at {cut}, empty chunk"
            );
        }
        let bytes: Vec<_> = stream.chunks(1).collect();
        assert_eq!(decode(LIMIT, &bytes), expected(), "{style}, byte by byte");
    }
}

#[test]
fn priming_events_in_all_shapes() {
    let primed = [event(Some("1"), Some(""))];
    assert_eq!(decode_all(b"id: 1\ndata:\n\n"), primed);
    assert_eq!(decode_all(b"id: 1\ndata\n\n"), primed);
    assert_eq!(decode_all(b"data:\nid: 1\n\n"), primed);
    assert_eq!(decode_all(b"id: 2\n\n"), [event(Some("2"), None)]);
    let retry = Event {
        retry: Some(10),
        ..Event::default()
    };
    assert_eq!(decode_all(b"retry: 10\n\n"), [Item::Event(retry)]);
}

#[test]
fn a_lone_cr_dispatches_before_the_next_byte_comes() {
    assert_eq!(decode_all(b"data: x\r\r"), [event(None, Some("x"))]);
    assert_eq!(
        decode(LIMIT, &[b"data: x\r\n\r", b"\n\ndata: y\n\n"]),
        [event(None, Some("x")), event(None, Some("y"))]
    );
}

#[test]
fn fields_that_do_not_count_are_ignored() {
    assert_eq!(
        decode_all(b"id: a\0b\ndata: x\n\n"),
        [event(None, Some("x"))]
    );
    assert_eq!(decode_all(b"id: 1\nid: \0\n\n"), [event(Some("1"), None)]);
    for retry in [
        "",
        "-1",
        "1.5",
        "1 ",
        "1e3",
        "\u{0663}",
        "99999999999999999999",
    ] {
        let stream = format!("retry: {retry}\n\ndata: x\n\n");
        assert_eq!(
            decode_all(stream.as_bytes()),
            [event(None, Some("x"))],
            "retry {retry:?}"
        );
    }
    assert_eq!(
        decode_all(b"retry: 5\nretry: x\n\n"),
        decode_all(b"retry: 5\n\n")
    );
    assert_eq!(
        decode_all(b"Data: x\n data: x\ndata : x\ndatas: x\nretry2: 1\neventually: x\n\n"),
        []
    );
    assert_eq!(
        decode_all(b"event: ping\n\n"),
        [],
        "an event without data is none"
    );
}

#[test]
fn a_byte_order_mark_counts_only_at_the_start() {
    let x = [event(None, Some("x"))];
    assert_eq!(decode_all(b"\xef\xbb\xbfdata: x\n\n"), x);
    assert_eq!(decode_all(b"\xef\xbb\xbf: hello\n\n"), [Item::Comment]);
    assert_eq!(decode_all(b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n"), []);
    assert_eq!(decode_all(b"\n\xef\xbb\xbfdata: x\n\n"), []);
    assert_eq!(decode_all(b"\xef\xbb\xbf\ndata: x\n\n"), x);
}

#[test]
fn invalid_bytes_of_data_are_kept_for_the_reader_to_judge() {
    let found = decode_all(b"data: \xff\xc3\n\ndata: y\n\n");
    let broken = Event {
        data: Some(b"\xff\xc3".to_vec()),
        ..Event::default()
    };
    assert_eq!(found, [Item::Event(broken), event(None, Some("y"))]);
}

#[test]
fn data_up_to_the_limit_passes_and_one_byte_more_does_not() {
    for lines in [
        "data: 12345678\n\n",
        "data: 1234\ndata: 678\n\n",
        "data: 1234567\ndata\n\n",
    ] {
        assert!(
            matches!(decode(8, &[lines.as_bytes()])[..], [Item::Event(_)]),
            "{lines:?}"
        );
        assert_eq!(
            decode(7, &[lines.as_bytes()]),
            [Item::TooLarge],
            "{lines:?}"
        );
    }
}

#[test]
fn a_too_large_event_is_said_once_and_the_stream_goes_on() {
    let stream = b"id: 7\ndata: 123456789\ndata: more\nid: 8\n\ndata: next\n\ndata: 123456789\n\n";
    for cut in 0..stream.len() {
        let (head, tail) = stream.split_at(cut);
        assert_eq!(
            decode(8, &[head, tail]),
            [
                Item::TooLarge,
                event(Some("8"), None),
                event(None, Some("next")),
                Item::TooLarge
            ],
            "cut at {cut}"
        );
    }
}

#[test]
fn a_too_large_event_is_said_before_it_ends() {
    assert_eq!(decode(8, &[b"data: 12345", b"6789"]), [Item::TooLarge]);
}

/// The bytes that a decoder holds on the heap.
fn held(decoder: &Decoder) -> usize {
    decoder.value.capacity()
        + decoder.block.name.capacity()
        + decoder.block.id.as_ref().map_or(0, String::capacity)
        + decoder.block.data.as_ref().map_or(0, Vec::capacity)
}

#[test]
fn nothing_endless_grows_the_memory() {
    let limit = 64 * 1024;
    let endless: [(&[u8], &[u8]); 7] = [
        (b"data: ", b"xxxxxxxxxxxxxxxx"),
        (b"id: ", b"xxxxxxxxxxxxxxxx"),
        (b"event: ", b"xxxxxxxxxxxxxxxx"),
        (b": ", b"xxxxxxxxxxxxxxxx"),
        (b"", b"xxxxxxxxxxxxxxxx"),
        (b"", b"data:\ndata\ndata:"),
        (b"", b"id:1\nretry:1\nx:\n"),
    ];
    for (start, more) in endless {
        let mut decoder = Decoder::new(limit);
        let mut found = Vec::new();
        decoder.feed(start, &mut found);
        let chunk = more.repeat(64);
        for _ in 0..2000 {
            decoder.feed(&chunk, &mut found);
            assert!(
                held(&decoder) <= 2 * limit,
                "after {start:?}: {}",
                held(&decoder)
            );
        }
        assert!(found.len() <= 1, "after {start:?}: {found:?}");
        assert!(found.is_empty() || held(&decoder) <= SHORT_FIELD_LIMIT);
    }
}

#[test]
fn a_twelve_mebibyte_line_in_small_chunks_passes_whole() {
    let text = "x".repeat(12 * 1024 * 1024);
    let mut stream = Vec::new();
    encode(&mut stream, Some("9"), None, text.as_bytes());
    let chunks: Vec<_> = stream.chunks(1400).collect();
    assert_eq!(decode(16 * LIMIT, &chunks), [event(Some("9"), Some(&text))]);
}

#[test]
fn knows_whether_a_block_is_unfinished() {
    let mut decoder = Decoder::new(8);
    let mut found = Vec::new();
    let steps: [(&[u8], bool); 9] = [
        (b"", false),
        (b"d", true),
        (b"ata: x\n", true),
        (b"\n", false),
        (b"id: 1\r", true),
        (b"\r", false),
        (b"\n", false),
        (b"data: 123456789\n", true),
        (b"\n", false),
    ];
    for (at, (chunk, expected)) in steps.into_iter().enumerate() {
        decoder.feed(chunk, &mut found);
        assert_eq!(decoder.is_mid_event(), expected, "step {at}");
    }
}

#[test]
fn encodes_what_it_decodes() {
    let mut out = Vec::new();
    encode(&mut out, Some("c-1"), Some(250), b"a\nb");
    assert_eq!(out, b"id: c-1\nretry: 250\ndata: a\ndata: b\n\n");
    out.clear();
    encode(&mut out, None, None, b"");
    assert_eq!(decode_all(&out), [event(None, Some(""))]);
    out.clear();
    encode(&mut out, Some("1\ndata: forged"), None, b"x");
    assert_eq!(decode_all(&out), [event(None, Some("x"))]);
}

/// The algorithm of WHATWG HTML once more, simply: whole text, lines, fields.
fn reference(stream: &str) -> Vec<Item> {
    let text = stream.strip_prefix('\u{feff}').unwrap_or(stream);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut found = Vec::new();
    let mut block = Event::default();
    let Some((complete, _)) = text.rsplit_once('\n') else {
        return found;
    };
    for line in complete.split('\n') {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" if line.is_empty() => {
                let mut event = std::mem::take(&mut block);
                if event.data.is_none() {
                    event.name.clear();
                }
                if event != Event::default() {
                    found.push(Item::Event(event));
                }
            }
            "" => found.push(Item::Comment),
            "event" => block.name = value.to_owned(),
            "data" => match &mut block.data {
                Some(data) => data.extend_from_slice(format!("\n{value}").as_bytes()),
                none => *none = Some(value.into()),
            },
            "id" if !value.contains('\0') => block.id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                block.retry = value.parse().ok().or(block.retry);
            }
            _ => {}
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_plain_algorithm_however_it_is_cut(
        parts in prop::collection::vec(prop::sample::select(vec![
            "data", "event", "id", "retry", "x", ":", ": ", " ", "\n", "\n", "\r", "\r\n", "\u{feff}",
            "é😀", "12", "\0", "data: ", "\n\n",
        ]), 0..40),
        cuts in prop::collection::vec(1_usize..9, 1..40),
    ) {
        let stream = parts.concat();
        let mut chunks = Vec::new();
        let mut rest = stream.as_bytes();
        for width in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, tail) = rest.split_at((*width).min(rest.len()));
            chunks.push(chunk);
            rest = tail;
        }
        prop_assert_eq!(decode(LIMIT, &chunks), reference(&stream));
    }

    #[test]
    fn what_was_encoded_is_decoded_with_lf_for_each_line_end(
        data in prop::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), any::<u8>()], 0..40),
        id in prop::option::of("[^\r\n\0]{0,6}"),
        retry in prop::option::of(any::<u64>()),
    ) {
        let mut out = Vec::new();
        encode(&mut out, id.as_deref(), retry, &data);
        let mut lines = Vec::new();
        for (at, byte) in data.iter().enumerate() {
            match byte {
                b'\r' => lines.push(b'\n'),
                b'\n' if at > 0 && data[at - 1] == b'\r' => {}
                other => lines.push(*other),
            }
        }
        let event = Event { name: String::new(), id, retry, data: Some(lines) };
        prop_assert_eq!(decode_all(&out), [Item::Event(event)]);
    }
}
