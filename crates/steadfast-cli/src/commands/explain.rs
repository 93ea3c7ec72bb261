//! `steadfast explain`: the page of an error code.

use clap::Args;
use serde::Serialize;
use steadfast_core::code::{self, Code};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Cell, Look, Output, Table};

mod pages {
    include!(concat!(env!("OUT_DIR"), "/pages.rs"));
}

/// `explain [CODE]`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The code, such as SF0026; without one, all codes are listed
    code: Option<String>,
}

#[derive(Serialize)]
struct Listed {
    code: String,
    name: &'static str,
    hint: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<&'static str>,
}

impl From<&Code> for Listed {
    fn from(code: &Code) -> Self {
        Self {
            code: code.to_string(),
            name: code.name,
            hint: code.hint,
            page: None,
        }
    }
}

/// Runs the command.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<Exit, Failure> {
    let output = context.output;
    let Some(text) = &arguments.code else {
        return list(output);
    };
    let unknown = || {
        let message = format!("there is no error code `{text}`");
        Failure::hinted(
            code::NOT_FOUND,
            message,
            "`steadfast explain` lists all codes.",
        )
    };
    let code = Code::find(text).ok_or_else(unknown)?;
    let page = page(code).ok_or_else(unknown)?;
    if output.json {
        let listed = Listed {
            page: Some(page),
            ..Listed::from(&code)
        };
        output.json(&listed)?;
    } else {
        output.raw(&rendered(page, output))?;
    }
    Ok(Exit::Done)
}

fn list(output: Output) -> Result<Exit, Failure> {
    if output.json {
        let codes: Vec<Listed> = code::ALL.iter().map(Listed::from).collect();
        output.json(&serde_json::json!({ "codes": codes }))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["CODE", "NAME", "WHAT TO DO"]);
    for code in code::ALL {
        table.row(vec![
            Cell::from(code.to_string()),
            code.name.into(),
            code.hint.into(),
        ]);
    }
    output.raw(&table.render(output))?;
    Ok(Exit::Done)
}

fn page(code: Code) -> Option<&'static str> {
    let name = code.to_string();
    pages::PAGES
        .iter()
        .find(|(page, _)| *page == name)
        .map(|(_, text)| *text)
}

/// A page for the terminal: headings stand out, and a link is its text, since the reader has no such file.
fn rendered(page: &str, output: Output) -> String {
    let mut text = String::with_capacity(page.len());
    let mut in_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            text.push_str("    ");
            text.push_str(line);
        } else if let Some(heading) = line.strip_prefix("# ").or_else(|| line.strip_prefix("## ")) {
            text.push_str(&output.paint(Look::Bold, heading));
        } else {
            text.push_str(&without_links(line));
        }
        text.push('\n');
    }
    text
}

fn without_links(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let link = after
            .split_once("](")
            .and_then(|(label, target)| Some((label, target.split_once(')')?.1)));
        text.push_str(before);
        match link {
            Some((label, behind)) if !label.contains('[') => {
                text.push_str(label);
                rest = behind;
            }
            Some(_) | None => {
                text.push('[');
                rest = after;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_page() {
        for code in code::ALL {
            let page = page(*code).unwrap_or_default();
            assert!(
                page.starts_with(&format!("# {code} · {}\n", code.name)),
                "{code}"
            );
        }
        assert_eq!(pages::PAGES.len(), code::ALL.len());
    }

    #[test]
    fn links_become_their_text() {
        assert_eq!(
            without_links("see [the log](../a.md), [b] and [c](d)."),
            "see the log, [b] and c."
        );
    }
}
