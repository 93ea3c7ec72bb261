//! Files and functions that have grown too long to be read at once. Signs to look at, not numbers to game:
//! what has a good reason to be longer is listed with it.

use super::mask::{is_word_at, line_of, mask};
use super::{File, Finding};

/// Lines of a source file, without its tests.
const FILE_LINES: usize = 500;
/// Lines of a function of the core, from its name to its closing brace.
const FUNCTION_LINES: usize = 70;

/// Files that may be longer, and why.
const LONG_FILES: &[(&str, &str)] = &[];

/// Checks every source file of the product and of the testkit.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    check_against(files, LONG_FILES)
}

fn check_against(files: &[File], exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.is_rust() && !file.is_test())
    {
        let masked = mask(&file.text);
        let product = product_part(&masked);
        if file.path.starts_with("crates/") || file.path.starts_with("testkit/") {
            findings.extend(long_file(file, product, exceptions));
        }
        if file.path.starts_with("crates/steadfast-core/") {
            findings.extend(long_functions(file, product));
        }
    }
    for (path, _) in exceptions {
        if !files.iter().any(|file| file.path == *path) {
            let message = "is an exception for a long file, and no longer there: take it off the list in xtask";
            findings.push(Finding::new(*path, 0, message));
        }
    }
    findings
}

fn long_file(file: &File, product: &str, exceptions: &[(&str, &str)]) -> Option<Finding> {
    let lines = product.lines().count();
    let excepted = exceptions.iter().any(|(path, _)| *path == file.path);
    let message = match (lines > FILE_LINES, excepted) {
        (true, false) => format!(
            "{lines} lines without tests, over {FILE_LINES}: files of thousands of lines began as the \
             obvious place; split it by family of events, or list it in xtask with a reason"
        ),
        (false, true) => {
            "is an exception for a long file, and no longer long: take it off the list in xtask"
                .into()
        }
        (true, true) | (false, false) => return None,
    };
    Some(Finding::new(&file.path, 0, message))
}

/// The part before the test module that ends a file.
fn product_part(masked: &str) -> &str {
    let end = masked
        .match_indices("#[cfg(test)]")
        .find_map(|(at, attribute)| {
            let after = masked[at + attribute.len()..].trim_start();
            let is_inline_module = after.starts_with("mod ") && {
                let brace = after.find('{').unwrap_or(usize::MAX);
                brace < after.find(';').unwrap_or(usize::MAX)
            };
            is_inline_module.then_some(at)
        });
    &masked[..end.unwrap_or(masked.len())]
}

fn long_functions(file: &File, product: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, _) in product.match_indices("fn ") {
        if !is_word_at(product, at, "fn") {
            continue;
        }
        let Some(end) = end_of_function(product, at) else {
            continue;
        };
        let first = line_of(product, at);
        let lines = line_of(product, end) - first + 1;
        if lines > FUNCTION_LINES {
            let name: String = product[at + 3..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            let message = format!(
                "`{name}` has {lines} lines, over {FUNCTION_LINES}: a transition should be read at a glance; \
                 give each family of events a function of its own"
            );
            findings.push(Finding::new(&file.path, first, message));
        }
    }
    findings
}

/// The closing brace of the function at `at`; `None` for one without a body. Brackets are followed, since
/// `[u8; 4]` in a signature is not its end.
fn end_of_function(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut brackets = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets = brackets.saturating_sub(1),
            b';' if depth == 0 && brackets == 0 => return None,
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(offset);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const CORE: &str = "crates/steadfast-core/src/a.rs";

    fn function(lines: usize) -> String {
        format!(
            "fn long(a: [u8; 4]) {{\n{}}}\n",
            "    step(\"}\");\n".repeat(lines - 2)
        )
    }

    #[test]
    fn a_long_function_of_the_core_is_found_with_its_line() {
        let text = format!("fn short() {{}}\n{}", function(71));
        let findings = check_against(&[file(CORE, &text)], &[]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].line, 2);
        assert!(findings[0].message.starts_with("`long` has 71 lines"));
        assert_eq!(check_against(&[file(CORE, &function(70))], &[]), []);
    }

    #[test]
    fn long_functions_elsewhere_and_in_tests_are_left_alone() {
        let inline = format!(
            "fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n",
            function(90)
        );
        let files = [
            file("crates/steadfast/src/a.rs", &function(90)),
            file("crates/steadfast-core/src/a/tests.rs", &function(90)),
            file(CORE, &inline),
        ];
        assert_eq!(check_against(&files, &[]), []);
    }

    #[test]
    fn a_long_file_is_found_without_counting_its_tests() {
        let lines = "const A: u8 = 1;\n";
        let long = file("crates/steadfast/src/a.rs", &lines.repeat(501));
        assert_eq!(check_against(&[long], &[]).len(), 1);
        let tested = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            lines.repeat(400),
            lines.repeat(400)
        );
        assert_eq!(check_against(&[file(CORE, &tested)], &[]), []);
    }

    #[test]
    fn a_module_of_tests_in_another_file_does_not_end_this_one() {
        let text = format!(
            "#[cfg(test)]\nmod tests;\n{}",
            "const A: u8 = 1;\n".repeat(600)
        );
        assert_eq!(check_against(&[file(CORE, &text)], &[]).len(), 1);
    }

    #[test]
    fn exceptions_are_strict_both_ways() {
        let path = "crates/steadfast/src/a.rs";
        let exceptions = [(path, "a table")];
        let long = file(path, &"const A: u8 = 1;\n".repeat(501));
        assert_eq!(check_against(&[long], &exceptions), []);
        assert_eq!(
            check_against(&[file(path, "const A: u8 = 1;\n")], &exceptions).len(),
            1
        );
        assert_eq!(check_against(&[], &exceptions).len(), 1);
    }
}
