//! Whether an expression is a JSONPath (RFC 9535), as far as that can be known before it is used: segments
//! and selectors are read by the grammar; the inside of a filter is only checked for balance, since it may
//! also name the variables of a lookup.

/// What is known of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// It selects at most one node (RFC 9535 section 2.3.5.1, "singular query").
    pub(crate) singular: bool,
}

/// Reads an expression.
pub(crate) fn check(expression: &str) -> Result<Shape, String> {
    let mut reader = Reader {
        rest: expression,
        singular: true,
    };
    reader.query().map_err(|problem| {
        let column = expression.len() - reader.rest.len() + 1;
        format!("`{expression}` is not a JSONPath: {problem} (at character {column})")
    })?;
    Ok(Shape {
        singular: reader.singular,
    })
}

struct Reader<'e> {
    rest: &'e str,
    singular: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip(&mut self) {
        let mut characters = self.rest.chars();
        characters.next();
        self.rest = characters.as_str();
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> usize {
        let taken = self.rest.chars().take_while(|c| wanted(*c));
        let length = taken.map(char::len_utf8).sum();
        self.rest = self.rest.get(length..).unwrap_or_default();
        length
    }

    fn blank(&mut self) {
        self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    }

    fn query(&mut self) -> Result<(), &'static str> {
        if !self.take('$') {
            return Err("it must begin with `$`");
        }
        while !self.rest.is_empty() {
            self.segment()?;
        }
        Ok(())
    }

    fn segment(&mut self) -> Result<(), &'static str> {
        self.blank();
        if self.take('[') {
            return self.selectors();
        }
        if !self.take('.') {
            return Err("`.` or `[` is expected");
        }
        if self.take('.') {
            self.singular = false;
            if self.take('[') {
                return self.selectors();
            }
        }
        if self.take('*') {
            self.singular = false;
            return Ok(());
        }
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        if !self.peek().is_some_and(is_first) {
            return Err("a name is expected");
        }
        self.take_while(|c| is_first(c) || c.is_ascii_digit());
        Ok(())
    }

    fn selectors(&mut self) -> Result<(), &'static str> {
        self.selector()?;
        self.blank();
        while self.take(',') {
            self.singular = false;
            self.selector()?;
            self.blank();
        }
        if self.take(']') {
            Ok(())
        } else {
            Err("`]` or `,` is expected")
        }
    }

    fn selector(&mut self) -> Result<(), &'static str> {
        self.blank();
        match self.peek() {
            Some('\'' | '"') => self.string(),
            Some('*') => {
                self.singular = false;
                self.take('*');
                Ok(())
            }
            Some('?') => {
                self.singular = false;
                self.take('?');
                self.filter()
            }
            Some('-' | ':' | '0'..='9') => self.index_or_slice(),
            Some(_) | None => Err("a name in quotes, an index, `*` or `?` is expected"),
        }
    }

    fn string(&mut self) -> Result<(), &'static str> {
        let mut characters = self.rest.char_indices();
        let Some((_, quote)) = characters.next() else {
            return Err("a string is expected");
        };
        while let Some((at, character)) = characters.next() {
            if character == quote {
                self.rest = self.rest.get(at + 1..).unwrap_or_default();
                return Ok(());
            }
            if character == '\\' {
                characters.next();
            }
        }
        Err("a string does not end")
    }

    fn index_or_slice(&mut self) -> Result<(), &'static str> {
        let mut colons = 0;
        let mut digits = self.integer()?;
        self.blank();
        while self.take(':') {
            colons += 1;
            self.blank();
            digits += self.integer()?;
            self.blank();
        }
        self.singular &= colons == 0;
        match (colons, digits) {
            (0, 0) => Err("an index is expected"),
            (0..=2, _) => Ok(()),
            (_, _) => Err("a slice has at most two `:`"),
        }
    }

    fn integer(&mut self) -> Result<usize, &'static str> {
        let negative = self.take('-');
        let digits = self.take_while(|c| c.is_ascii_digit());
        if negative && digits == 0 {
            return Err("digits are expected after `-`");
        }
        Ok(digits)
    }

    /// Up to the `]` or `,` that ends the filter, which stays where it is.
    fn filter(&mut self) -> Result<(), &'static str> {
        let mut open = Vec::new();
        let mut empty = true;
        loop {
            match self.peek() {
                None => return Err("a filter does not end"),
                Some(']' | ',') if open.is_empty() => {
                    return if empty {
                        Err("a filter is empty")
                    } else {
                        Ok(())
                    };
                }
                Some('\'' | '"') => {
                    self.string()?;
                    empty = false;
                    continue;
                }
                Some('(') => open.push(')'),
                Some('[') => open.push(']'),
                Some(close @ (')' | ']')) => {
                    if open.pop() != Some(close) {
                        return Err("brackets do not match");
                    }
                }
                Some(other) => empty &= other.is_whitespace(),
            }
            self.skip();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_standard_allows_passes() {
        for (expression, singular) in [
            ("$", true),
            ("$.arguments.reference", true),
            ("$.arguments['a key'][0]", true),
            ("$[-1]", true),
            ("$.bookings[*].id", false),
            ("$..id", false),
            ("$..[0]", false),
            ("$[1:5:2]", false),
            ("$[:]", false),
            ("$['a','b']", false),
            (
                "$.structuredContent.bookings[?@.reference == $reference]",
                false,
            ),
            ("$.a[?count(@.b[?@.c == ']']) > 1].d", false),
        ] {
            assert_eq!(check(expression), Ok(Shape { singular }), "{expression}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_place() {
        for expression in [
            "",
            "a.b",
            "$.",
            "$a",
            "$.1a",
            "$[",
            "$[]",
            "$['a",
            "$['a'",
            "$[-]",
            "$[1:2:3:4]",
            "$[?]",
            "$[? ]",
            "$[?(@.a]",
            "$[?@.a)]",
            "$.a b",
            "$[a]",
            "$...a",
        ] {
            assert!(check(expression).is_err(), "{expression}");
        }
        assert_eq!(
            check("$.a[b]").unwrap_err(),
            "`$.a[b]` is not a JSONPath: a name in quotes, an index, `*` or `?` is expected (at character 5)"
        );
    }
}
