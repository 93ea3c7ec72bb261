//! JSON as editors allow it in their settings: with comments and a comma after the last item.

/// The same text as strict JSON. Lines stay where they are, for the messages of the parser.
pub(super) fn to_json(text: &str) -> String {
    without_trailing_commas(&without_comments(text.trim_start_matches('\u{feff}')))
}

fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        if character == '"' {
            let (string, after) = rest.split_at(string_end(rest));
            out.push_str(string);
            rest = after;
        } else if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| rest.split_at(end).1);
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
            let (comment, after) = rest.split_at(end);
            out.extend(comment.chars().filter(|c| *c == '\n'));
            out.push(' ');
            rest = after;
        } else {
            out.push(character);
            rest = rest.split_at(character.len_utf8()).1;
        }
    }
    out
}

fn without_trailing_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = if character == '"' {
            string_end(rest)
        } else {
            character.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        if token != "," || !after.trim_start().starts_with(['}', ']']) {
            out.push_str(token);
        }
        rest = after;
    }
    out
}

/// Where the string that begins `text` ends.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::to_json;

    #[test]
    fn comments_and_trailing_commas_go_and_strings_stay() {
        let text = "\u{feff}{ // one\n \"a\": \"// no, \\\" , }\", /* two\n */ \"b\": [1, 2, ],\n}";
        let value: serde_json::Value = serde_json::from_str(&to_json(text)).unwrap();
        assert_eq!(
            value,
            serde_json::json!({"a": "// no, \" , }", "b": [1, 2]})
        );
        assert_eq!(to_json(text).lines().count(), text.lines().count());
    }

    #[test]
    fn what_does_not_end_is_left_to_the_parser() {
        for text in ["\"a", "/* a", "// a", "{\"a\\"] {
            assert!(serde_json::from_str::<serde_json::Value>(&to_json(text)).is_err());
        }
    }
}
