//! Short excerpts of what a peer said, safe to show: nothing that moves a terminal, nothing that
//! looks like a secret (SEC-01).

/// The most characters of an excerpt.
const LONGEST: usize = 80;
/// A longer run of Base64url or hexadecimal characters is taken for a token.
const LONGEST_WORD: usize = 20;
/// A run at least this long that mixes letters with several digits is one, too: a short key.
const SHORTEST_KEY: usize = 8;

/// One line of at most 80 characters: control and direction characters become spaces, white space is
/// folded, and what looks like a token becomes `…`.
#[must_use]
pub fn sanitise(text: &str) -> String {
    let cleaned: String = text
        .chars()
        .map(|c| {
            if c.is_control() || is_invisible(c) {
                ' '
            } else {
                c
            }
        })
        .collect();
    let mut line = String::new();
    let mut after_bearer = false;
    for word in cleaned.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        if after_bearer {
            line.push('…');
        } else {
            push_word(&mut line, word);
        }
        after_bearer = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
        if line.chars().count() > LONGEST {
            break;
        }
    }
    if line.chars().count() > LONGEST {
        line = line.chars().take(LONGEST - 1).collect();
        line.push('…');
    }
    line
}

/// Direction overrides and zero-width characters can make a line read as something else.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Writes a word without the parts of it that look like secrets.
fn push_word(line: &mut String, word: &str) {
    let mut rest = word;
    let mut after_equals = false;
    while let Some(first) = rest.chars().next() {
        let run = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
        if run == 0 {
            line.push(first);
            // The value of a query parameter or of a form field.
            after_equals = first == '=';
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        let (token, tail) = rest.split_at(run);
        line.push_str(if after_equals || is_secret(token) {
            "…"
        } else {
            token
        });
        after_equals = false;
        rest = tail;
    }
}

const fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '~')
}

fn is_secret(token: &str) -> bool {
    let digits = token.bytes().filter(u8::is_ascii_digit).count();
    let letters = token.bytes().filter(u8::is_ascii_alphabetic).count();
    token.len() > LONGEST_WORD || (token.len() >= SHORTEST_KEY && digits >= 2 && letters >= 1)
}

/// The text of an HTML page's title.
pub(super) fn title(page: &str) -> Option<String> {
    // ASCII lower case keeps every byte offset.
    let lower = page.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower.get(open..)?.find('>')? + 1;
    let end = start + lower.get(start..)?.find('<')?;
    let title = sanitise(page.get(start..end)?);
    (!title.is_empty()).then_some(title)
}
