//! Rust source with everything blanked that is not code: enough of the lexical rules to count braces and
//! to look for words without being fooled by a comment or a string.

/// The source with comments, strings and character literals replaced by spaces. Lines stay where they are.
pub(super) fn mask(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = skipped(bytes, at);
        if end > at {
            blank(&bytes[at..end], &mut out);
            at = end;
        } else {
            // Code outside ASCII is rare and never a brace: a space stands for each of its bytes.
            out.push(if bytes[at].is_ascii() {
                bytes[at] as char
            } else {
                ' '
            });
            at += 1;
        }
    }
    out
}

fn blank(skipped: &[u8], out: &mut String) {
    out.extend(
        skipped
            .iter()
            .map(|&byte| if byte == b'\n' { '\n' } else { ' ' }),
    );
}

/// Where what starts at `at` ends, if it is not code; else `at`.
fn skipped(bytes: &[u8], at: usize) -> usize {
    match bytes[at] {
        b'/' if bytes.get(at + 1) == Some(&b'/') => line_comment(bytes, at),
        b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment(bytes, at),
        b'"' => string(bytes, at),
        b'r' if !continues_a_word(bytes, at) => raw_string(bytes, at),
        b'\'' => character(bytes, at),
        _ => at,
    }
}

fn line_comment(bytes: &[u8], at: usize) -> usize {
    let length = bytes[at..].iter().position(|&byte| byte == b'\n');
    length.map_or(bytes.len(), |length| at + length)
}

fn block_comment(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    let mut end = at;
    while end < bytes.len() {
        match &bytes[end..] {
            [b'/', b'*', ..] => {
                depth += 1;
                end += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                end += 2;
                if depth == 0 {
                    return end;
                }
            }
            _ => end += 1,
        }
    }
    end
}

fn string(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() {
        match bytes[end] {
            b'\\' => end += 2,
            b'"' => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// `r"…"` and `r#"…"#`; `br` comes here as well, after its `b`.
fn raw_string(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..]
        .iter()
        .take_while(|&&byte| byte == b'#')
        .count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return at;
    }
    let mut end = open + 1;
    while end < bytes.len() {
        let close = bytes[end] == b'"'
            && bytes[end + 1..]
                .iter()
                .take_while(|&&byte| byte == b'#')
                .count()
                >= hashes;
        end += 1;
        if close {
            return end + hashes;
        }
    }
    end
}

/// `'x'` and `'\n'`, but not the lifetime `'x`.
fn character(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => {
            // The escaped character may itself be a quote.
            let length = bytes.iter().skip(at + 3).position(|&byte| byte == b'\'');
            length.map_or(bytes.len(), |length| at + 3 + length + 1)
        }
        Some(&first) => {
            let width = match first {
                0xF0.. => 4,
                0xE0.. => 3,
                0xC0.. => 2,
                _ => 1,
            };
            let close = at + 1 + width;
            if bytes.get(close) == Some(&b'\'') {
                close + 1
            } else {
                at
            }
        }
        None => at,
    }
}

/// Whether the byte at `at` is inside a word: `for"` does not start a raw string. The `b` of `br"…"` does
/// not count.
fn continues_a_word(bytes: &[u8], at: usize) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let Some(before) = at.checked_sub(1) else {
        return false;
    };
    if bytes[before] == b'b' {
        return before
            .checked_sub(1)
            .is_some_and(|first| is_word(bytes[first]));
    }
    is_word(bytes[before])
}

/// The number of the line that a byte is in, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
        + 1
}

/// Whether the text at `at` is the whole word `word`.
pub(super) fn is_word_at(text: &str, at: usize, word: &str) -> bool {
    let bytes = text.as_bytes();
    let is_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    text[at..].starts_with(word)
        && !is_word(at.checked_sub(1).and_then(|before| bytes.get(before)))
        && !is_word(bytes.get(at + word.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> String {
        mask(source)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn comments_and_strings_are_blanked() {
        assert_eq!(code("a // } b\nc /* { /* } */ */ d"), "a c d");
        assert_eq!(
            code(r##"x("}", r#"" }"#, br"}", b"\"}")"##),
            "x( , , b , b )"
        );
        assert_eq!(
            code(r"for 'a(c: &'a str) { '}' '\'' '\u{7d}' 'é' }"),
            "for 'a(c: &'a str) { }"
        );
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = "one\n\"two\nthree\"\n/* four\n*/ five";
        let masked = mask(source);
        assert_eq!(masked.len(), source.len());
        assert_eq!(line_of(&masked, masked.find("five").unwrap()), 5);
    }

    #[test]
    fn words_are_whole() {
        let text = "a HashMap HashMapped";
        assert!(is_word_at(text, 2, "HashMap"));
        assert!(!is_word_at(text, 12, "HashMap"));
    }
}
