//! What must not be in the source: clocks and sockets in the core (clippy bans them too; this also sees what
//! a macro or an `allow` hides), tests switched off without a reason, notes to self.

use super::mask::{is_word_at, line_of, mask};
use super::{File, Finding};

/// What the core must not name, and why. One entry may be several words: `std::net`.
const BANNED_IN_CORE: &[(&str, &str)] = &[
    (
        "Instant::now",
        "time comes in as `Now`, so that a recorded run replays",
    ),
    (
        "SystemTime::now",
        "time comes in as `Now`, so that a recorded run replays",
    ),
    (
        "HashMap",
        "its iteration order is random; use BTreeMap, so that a step replays",
    ),
    (
        "HashSet",
        "its iteration order is random; use BTreeSet, so that a step replays",
    ),
    (
        "std::net",
        "the core decides and does no I/O; return an action",
    ),
    (
        "std::fs",
        "the core decides and does no I/O; return an action",
    ),
    (
        "std::process",
        "the core decides and does no I/O; return an action",
    ),
    ("std::env", "settings come in as a policy"),
    (
        "std::thread",
        "the core never waits and never runs beside itself; return a deadline",
    ),
    ("tokio", "whoever drives the core brings the runtime"),
    ("async fn", "a transition is a plain function"),
];

/// Checks every Rust file.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let masked = mask(&file.text);
        if file.path.starts_with("crates/steadfast-core/src/") && !file.is_test() {
            findings.extend(banned(file, &masked));
        }
        findings.extend(ignored_tests(file, &masked));
        findings.extend(notes_to_self(file));
    }
    findings
}

fn banned(file: &File, masked: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (word, why) in BANNED_IN_CORE {
        for (at, _) in masked.match_indices(word) {
            if is_word_at(masked, at, word) {
                let message = format!("`{word}` in the core: {why}");
                findings.push(Finding::new(&file.path, line_of(masked, at), message));
            }
        }
    }
    findings
}

fn ignored_tests(file: &File, masked: &str) -> Vec<Finding> {
    masked
        .match_indices("#[ignore]")
        .map(|(at, _)| {
            let message = "a test that is switched off must say why: #[ignore = \"reason\"]";
            Finding::new(&file.path, line_of(masked, at), message)
        })
        .collect()
}

fn notes_to_self(file: &File) -> Vec<Finding> {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
    ];
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for mark in marks.iter().filter(|mark| line.contains(**mark)) {
            let message =
                format!("`{mark}`: finish it, or file an issue; nobody reads notes to self");
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const CORE: &str = "crates/steadfast-core/src/a.rs";

    #[test]
    fn a_clock_in_the_core_is_found() {
        let text = "// Instant::now is banned\nlet a = std::time::Instant::now();\n";
        let findings = check(&[file(CORE, text)]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].line, 2);
        assert_eq!(check(&[file("crates/steadfast/src/clock.rs", text)]), []);
    }

    #[test]
    fn words_inside_words_are_no_finding() {
        assert_eq!(
            check(&[file(CORE, "struct HashMapLike; use a::std::network;")]),
            []
        );
    }

    #[test]
    fn a_test_switched_off_needs_a_reason() {
        let bare = file("testkit/tests/a.rs", "#[test]\n#[ignore]\nfn a() {}\n");
        assert_eq!(check(&[bare])[0].line, 2);
        let reasoned = file(
            "testkit/tests/a.rs",
            "#[test]\n#[ignore = \"needs root\"]\nfn a() {}\n",
        );
        assert_eq!(check(&[reasoned]), []);
    }

    #[test]
    fn notes_to_self_are_found_in_comments() {
        let text = format!("// {}: later\n", concat!("TO", "DO"));
        assert_eq!(check(&[file("crates/steadfast/src/a.rs", &text)]).len(), 1);
    }
}
