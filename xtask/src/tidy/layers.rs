//! Which crate may depend on which: an arrow of ARCHITECTURE.md, "Layers", is the only way down.

use serde_json::Value;

use super::Finding;
use crate::shell::{Failure, Outcome, cargo, output};

/// What a crate may depend on.
struct Rule {
    name: &'static str,
    /// Crates of the workspace, in the product.
    product: &'static [&'static str],
    /// Further crates of the workspace, in its tests.
    tests: &'static [&'static str],
}

const KEEPER: &[&str] = &["steadfast-core", "steadfast-store"];
const ALL: &[&str] = &[
    "steadfast-core",
    "steadfast-store",
    "steadfast",
    "steadfast-gateway",
    "testkit",
];

const RULES: &[Rule] = &[
    Rule {
        name: "steadfast-core",
        product: &[],
        tests: &[],
    },
    Rule {
        name: "steadfast-store",
        product: &["steadfast-core"],
        tests: &[],
    },
    Rule {
        name: "steadfast",
        product: KEEPER,
        tests: &["testkit"],
    },
    Rule {
        name: "steadfast-gateway",
        product: &["steadfast-core", "steadfast-store", "steadfast"],
        tests: &["testkit"],
    },
    // The testkit comes into the product for `steadfast demo` alone.
    Rule {
        name: "steadfast-cli",
        product: ALL,
        tests: &[],
    },
    // A fake server that shared code with what it tests would share its mistakes.
    Rule {
        name: "testkit",
        product: &[],
        tests: &[],
    },
    Rule {
        name: "xtask",
        product: &[],
        tests: &[],
    },
];

/// Around the product: may depend on everything, and nothing depends on them.
const WORKSHOP: &[&str] = &["steadfast-conformance", "steadfast-bench", "steadfast-fuzz"];

/// All that the core needs from outside: pure code, without a clock, a socket or a runtime.
const CORE_NEEDS: &[&str] = &[
    "base64",
    "memchr",
    "percent-encoding",
    "serde",
    "serde_json",
    "serde_json_path",
    "simdutf8",
    "thiserror",
    "url",
];

/// The packages of the workspace, as cargo describes them.
pub(super) fn metadata() -> Outcome<Value> {
    let text = output(&mut cargo(&[
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
    ]))
    .ok_or_else(|| Failure::new("cargo metadata fails; run it by hand to see why"))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("cargo metadata cannot be read: {error}")))
}

/// Checks every package of the workspace.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = list(&metadata["packages"]);
    let ours: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    packages
        .iter()
        .flat_map(|package| check_package(package, &ours))
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn check_package(package: &Value, ours: &[&str]) -> Vec<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let mut findings = Vec::new();
    let mut report = |message: String| {
        findings.push(Finding::new(format!("Cargo.toml of {name}"), 0, message));
    };
    let rule = RULES.iter().find(|rule| rule.name == name);
    // Packages of the workshop may come as several: a peer, a server for the suite.
    if rule.is_none() && !WORKSHOP.iter().any(|prefix| name.starts_with(prefix)) {
        report("is a crate that no layer knows: split off a further one only when it must be swapped or \
             published, and then add it to ARCHITECTURE.md and to xtask".into());
    }
    for dependency in list(&package["dependencies"]) {
        let target = dependency["name"].as_str().unwrap_or_default();
        let for_tests = dependency["kind"].as_str() == Some("dev");
        if ours.contains(&target) {
            if WORKSHOP.iter().any(|prefix| target.starts_with(prefix)) && rule.is_some() {
                report(format!(
                    "depends on {target}: the product does not lean on its workshop"
                ));
            } else if let Some(rule) = rule
                && !rule.product.contains(&target)
                && !(for_tests && rule.tests.contains(&target))
            {
                report(format!(
                    "depends on {target}, against the layers in ARCHITECTURE.md"
                ));
            }
        } else if name == "steadfast-core" && !for_tests && !CORE_NEEDS.contains(&target) {
            report(format!(
                "depends on {target}: the core decides and does no I/O, so every crate that it uses is \
                 looked at and listed in xtask"
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(name: &str, dependency: &str, kind: Option<&str>) -> Value {
        let dependencies = json!([{ "name": dependency, "kind": kind }]);
        json!({ "packages": [
            { "name": name, "dependencies": dependencies },
            { "name": "steadfast-core", "dependencies": [] },
            { "name": "steadfast-gateway", "dependencies": [] },
            { "name": "testkit", "dependencies": [] },
            { "name": "steadfast-bench", "dependencies": [] },
        ]})
    }

    fn findings(name: &str, dependency: &str, kind: Option<&str>) -> usize {
        check(&workspace(name, dependency, kind)).len()
    }

    #[test]
    fn a_layer_may_not_look_up() {
        assert_eq!(findings("steadfast", "steadfast-gateway", None), 1);
        assert_eq!(findings("steadfast-gateway", "steadfast-core", None), 0);
    }

    #[test]
    fn the_testkit_is_for_tests() {
        assert_eq!(findings("steadfast", "testkit", None), 1);
        assert_eq!(findings("steadfast", "testkit", Some("dev")), 0);
        assert_eq!(findings("testkit", "steadfast-core", None), 1);
    }

    #[test]
    fn the_core_takes_no_runtime() {
        assert_eq!(findings("steadfast-core", "tokio", None), 1);
        assert_eq!(findings("steadfast-core", "serde", None), 0);
        assert_eq!(findings("steadfast-core", "proptest", Some("dev")), 0);
    }

    #[test]
    fn nothing_leans_on_the_workshop() {
        assert_eq!(
            findings("steadfast-gateway", "steadfast-bench", Some("dev")),
            1
        );
    }

    #[test]
    fn a_new_crate_needs_a_layer() {
        assert_eq!(findings("steadfast-extra", "serde", None), 1);
    }
}
