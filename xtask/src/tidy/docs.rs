//! Pages that must keep step with the code and with each other.

use std::collections::BTreeMap;

use super::{File, Finding};

const REGISTRY: &str = "crates/steadfast-core/src/code.rs";
const PAGES: &str = "docs/errors/";
/// The sections of every page about an error code, in this order: `steadfast explain` prints them.
const SECTIONS: [&str; 4] = [
    "## What it means",
    "## What Steadfast does",
    "## What you can do",
    "## Example",
];
/// What a stranger reads in a few minutes.
const ARCHITECTURE_LINES: usize = 150;

/// Checks the pages. `exists` answers for paths from the root, folders too.
pub(super) fn check(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = error_pages(files);
    findings.extend(changelog(files));
    findings.extend(architecture(files));
    for file in files.iter().filter(|file| file.is_markdown()) {
        findings.extend(links(file, exists));
    }
    findings
}

fn find<'a>(files: &'a [File], path: &str) -> Option<&'a File> {
    files.iter().find(|file| file.path == path)
}

fn missing(path: &str, why: &str) -> Finding {
    Finding::new(path, 0, format!("is missing: {why}"))
}

/// Every code has its page, every page its code, and all pages have the same form.
fn error_pages(files: &[File]) -> Vec<Finding> {
    let Some(registry) = find(files, REGISTRY) else {
        return vec![missing(REGISTRY, "it is the registry of error codes")];
    };
    let codes = codes(&registry.text);
    let mut findings = Vec::new();
    for (number, name) in &codes {
        let path = format!("{PAGES}SF{number:04}.md");
        match find(files, &path) {
            None => findings.push(missing(
                &path,
                "`steadfast explain` shows the page of every code",
            )),
            Some(page) => findings.extend(error_page(page, *number, name)),
        }
    }
    for page in files.iter().filter(|file| file.path.starts_with(PAGES)) {
        let number = page.path[PAGES.len()..]
            .strip_prefix("SF")
            .and_then(|rest| rest.strip_suffix(".md"))
            .and_then(|digits| digits.parse().ok());
        if !number.is_some_and(|number| codes.contains_key(&number)) {
            findings.push(Finding::new(
                &page.path,
                0,
                format!("is about no code of {REGISTRY}"),
            ));
        }
    }
    findings
}

/// Reads the registry: lines such as `TIMEOUT = 21 "timeout" RetryAfter "…";`.
fn codes(registry: &str) -> BTreeMap<u16, String> {
    registry
        .lines()
        .filter_map(|line| {
            let (constant, rest) = line.trim().split_once(" = ")?;
            let is_constant = constant.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            let (number, rest) = rest.split_once(" \"")?;
            let (name, _) = rest.split_once('"')?;
            is_constant.then(|| Some((number.parse().ok()?, name.to_owned())))?
        })
        .collect()
}

fn error_page(page: &File, number: u16, name: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let title = format!("# SF{number:04} · {name}");
    if page.text.lines().next() != Some(title.as_str()) {
        findings.push(Finding::new(
            &page.path,
            1,
            format!("must begin with `{title}`"),
        ));
    }
    let sections: Vec<&str> = page
        .text
        .lines()
        .filter(|line| line.starts_with("## "))
        .collect();
    if sections != SECTIONS {
        let message = format!(
            "must have the sections {}, in this order",
            SECTIONS.join(", ")
        );
        findings.push(Finding::new(&page.path, 0, message));
    }
    findings
}

fn changelog(files: &[File]) -> Option<Finding> {
    let path = "CHANGELOG.md";
    match find(files, path) {
        None => Some(missing(path, "it tells users what changes for them")),
        Some(file)
            if !file
                .text
                .lines()
                .any(|line| line.starts_with("## Unreleased")) =>
        {
            Some(Finding::new(
                path,
                0,
                "has no `## Unreleased` section for the change at hand",
            ))
        }
        Some(_) => None,
    }
}

fn architecture(files: &[File]) -> Option<Finding> {
    let path = "ARCHITECTURE.md";
    let Some(file) = find(files, path) else {
        return Some(missing(path, "a stranger begins there"));
    };
    let lines = file.text.lines().count();
    (lines >= ARCHITECTURE_LINES).then(|| {
        let message = format!(
            "has {lines} lines and must stay under {ARCHITECTURE_LINES}: a stranger reads it whole, or not at all"
        );
        Finding::new(path, 0, message)
    })
}

/// Links to files of the repository lead somewhere.
fn links(file: &File, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(line) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            match resolve(&file.path, path) {
                Some(path) if exists(&path) => {}
                _ => {
                    let message = format!("links to {target}, which is not there");
                    findings.push(Finding::new(&file.path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// The targets of `[text](target)` in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](")
        .filter_map(|(at, open)| line[at + open.len()..].split(')').next())
        .map(|target| target.split(' ').next().unwrap_or_default())
}

/// A path as seen from the root; `None` where it leads out of the repository.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const LINES: &str = "    TIMEOUT = 21 \"timeout\" RetryAfter \"Nothing to do.\";\n";

    fn page() -> String {
        format!("# SF0021 · timeout\n\n{}\n", SECTIONS.join("\n\ntext\n\n"))
    }

    #[test]
    fn a_code_and_its_page_agree() {
        let files = [
            file(REGISTRY, LINES),
            file("docs/errors/SF0021.md", &page()),
        ];
        assert_eq!(error_pages(&files), []);
    }

    #[test]
    fn a_code_without_a_page_and_a_page_without_a_code_are_found() {
        let files = [
            file(REGISTRY, LINES),
            file("docs/errors/SF0022.md", &page()),
        ];
        let findings = error_pages(&files);
        assert_eq!(findings.len(), 2, "{findings:?}");
    }

    #[test]
    fn a_page_of_another_form_is_found() {
        let text = page().replace("## Example", "## Examples");
        let files = [file(REGISTRY, LINES), file("docs/errors/SF0021.md", &text)];
        assert_eq!(error_pages(&files).len(), 1);
        let text = page().replace("timeout", "time out");
        let files = [file(REGISTRY, LINES), file("docs/errors/SF0021.md", &text)];
        assert_eq!(error_pages(&files)[0].line, 1);
    }

    #[test]
    fn links_are_followed() {
        let exists = |path: &str| path == "docs/glossary.md";
        let found = |from: &str, text: &str| links(&file(from, text), &exists).len();
        assert_eq!(
            found(
                "README.md",
                "[a](docs/glossary.md#x), [b](https://example.com/x)"
            ),
            0
        );
        assert_eq!(found("docs/errors/SF0021.md", "see [a](../glossary.md)"), 0);
        assert_eq!(
            found("README.md", "[a](docs/glosary.md) and [b](../x.md)"),
            2
        );
        assert_eq!(found("README.md", "```\n[a](no.md)\n```\n"), 0);
    }

    #[test]
    fn the_changelog_has_a_place_for_the_change_at_hand() {
        assert!(changelog(&[file("CHANGELOG.md", "## 0.1.0\n")]).is_some());
        assert!(changelog(&[file("CHANGELOG.md", "## Unreleased\n")]).is_none());
    }

    #[test]
    fn the_architecture_stays_short() {
        assert!(architecture(&[file("ARCHITECTURE.md", &"x\n".repeat(150))]).is_some());
        assert!(architecture(&[file("ARCHITECTURE.md", &"x\n".repeat(149))]).is_none());
    }
}
