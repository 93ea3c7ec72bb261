//! What people and programs read: lines on standard output, errors and notes on standard error. Colours only
//! on a terminal, and never with `NO_COLOR` (no-color.org).

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use serde::Serialize;
use steadfast_core::code;

use crate::failure::{Failure, Said};

/// How something is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Bold,
    Dim,
    Good,
    Warning,
    Bad,
}

impl Look {
    const fn sequence(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Warning => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }
}

/// Where a command writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Whether results are JSON.
    pub(crate) json: bool,
    /// Whether standard output is a terminal.
    pub(crate) terminal: bool,
    colour: bool,
}

impl Output {
    /// For standard output as it is.
    pub(crate) fn new(json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            json,
            terminal,
            colour: terminal && colours_wanted(),
        }
    }

    /// Text with a look, where there are colours.
    pub(crate) fn paint(&self, look: Look, text: &str) -> String {
        paint(self.colour, look, text)
    }

    /// One line.
    pub(crate) fn line(&self, text: impl Display) -> Result<(), Failure> {
        self.raw(&format!("{text}\n"))
    }

    /// Text as it is.
    pub(crate) fn raw(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::new(
                code::INTERNAL,
                format!("standard output cannot be written: {error}"),
            ),
        })
    }

    /// A value as JSON: indented, for people who look at it.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
        self.line(text)
    }

    /// A value as JSON in one line, one of many.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
        self.line(text)
    }

    /// Something to know that is not the result: on standard error.
    pub(crate) fn note(&self, text: impl Display) {
        // Nobody is left to be told that standard error is closed.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Something that may not be what was meant: on standard error.
    pub(crate) fn warning(&self, text: impl Display) {
        let colour = io::stderr().is_terminal() && colours_wanted();
        self.note(format!(
            "{}: {text}",
            paint(colour, Look::Warning, "warning")
        ));
    }
}

/// Tells a failure on standard error.
pub(crate) fn report(said: &Said) {
    let colour = io::stderr().is_terminal() && colours_wanted();
    let text = rendered(said, colour);
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn rendered(said: &Said, colour: bool) -> String {
    let error = paint(colour, Look::Bad, &format!("error[{}]", said.code));
    let hint = paint(colour, Look::Bold, "hint");
    format!(
        "{error}: {}\n{hint}: {}\n",
        printable(&said.message),
        said.hint
    )
}

fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn paint(colour: bool, look: Look, text: &str) -> String {
    match look {
        Look::Plain => text.to_owned(),
        look if colour => format!("{}{text}\x1b[0m", look.sequence()),
        _ => text.to_owned(),
    }
}

/// Text of a peer, without what would move the cursor or change colours.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() && c != '\n' {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(shown).collect()
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) look: Look,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self {
            text: printable(&text),
            look: Look::Plain,
        }
    }
}

impl Cell {
    /// With a look.
    pub(crate) fn look(mut self, look: Look) -> Self {
        self.look = look;
        self
    }
}

/// A table: columns as wide as their widest cell, and lines between rows that belong to the row above.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

#[derive(Debug)]
enum Row {
    Cells(Vec<Cell>),
    Line(Cell),
    Gap,
}

impl Table {
    /// With these names of columns.
    pub(crate) fn new(names: &[&str]) -> Self {
        let names = names
            .iter()
            .map(|name| Cell::from(*name).look(Look::Bold))
            .collect();
        Self {
            rows: vec![Row::Cells(names)],
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a line below the last row.
    pub(crate) fn line(&mut self, cell: Cell) {
        self.rows.push(Row::Line(cell));
    }

    /// Adds an empty line, between groups of rows.
    pub(crate) fn gap(&mut self) {
        self.rows.push(Row::Gap);
    }

    /// The text of the table.
    pub(crate) fn render(&self, output: Output) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for row in &self.rows {
            match row {
                Row::Line(cell) => {
                    text.push_str("  ");
                    text.push_str(&output.paint(cell.look, &cell.text));
                }
                Row::Cells(cells) => render_cells(&mut text, cells, &widths, output),
                Row::Gap => {}
            }
            text.push('\n');
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = Vec::new();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            for (column, cell) in cells.iter().enumerate() {
                let width = cell.text.chars().count();
                match widths.get_mut(column) {
                    Some(widest) => *widest = width.max(*widest),
                    None => widths.push(width),
                }
            }
        }
        widths
    }
}

fn render_cells(text: &mut String, cells: &[Cell], widths: &[usize], output: Output) {
    // No blanks at the end of a line.
    let filled = cells
        .iter()
        .rposition(|cell| !cell.text.is_empty())
        .map_or(0, |last| last + 1);
    for (column, (cell, width)) in cells.iter().zip(widths).take(filled).enumerate() {
        text.push_str(&output.paint(cell.look, &cell.text));
        if column + 1 < filled {
            let padding = width - cell.text.chars().count() + 2;
            text.extend(std::iter::repeat_n(' ', padding));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_core::code;

    const PLAIN: Output = Output {
        json: false,
        terminal: false,
        colour: false,
    };
    const COLOURED: Output = Output {
        colour: true,
        ..PLAIN
    };

    #[test]
    fn a_failure_has_its_code_and_a_hint() {
        let Failure::Said(said) =
            Failure::hinted(code::NOT_FOUND, "there is no agent `x`\x1b[2J", "Look.")
        else {
            panic!("a failure with something to say");
        };
        assert_eq!(
            rendered(&said, false),
            "error[SF0007]: there is no agent `x`\u{fffd}[2J\nhint: Look.\n"
        );
        assert_eq!(
            rendered(&said, true),
            "\x1b[31merror[SF0007]\x1b[0m: there is no agent `x`\u{fffd}[2J\n\x1b[1mhint\x1b[0m: Look.\n"
        );
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let mut table = Table::new(&["NAME", "STATE", "NEXT"]);
        table.row(vec![
            "a".into(),
            Cell::from("connected").look(Look::Good),
            "".into(),
        ]);
        table.line(Cell::from("why").look(Look::Dim));
        table.row(vec!["long-name".into(), "retrying".into(), "now".into()]);
        assert_eq!(
            table.render(PLAIN),
            "NAME       STATE      NEXT\na          connected\n  why\nlong-name  retrying   now\n"
        );
        let coloured = table.render(COLOURED);
        assert!(
            coloured.contains("a          \x1b[32mconnected\x1b[0m\n"),
            "{coloured:?}"
        );
    }
}
