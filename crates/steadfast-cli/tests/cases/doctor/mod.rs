//! `steadfast doctor`: one fault is named, proven, and given to whoever must act; and nothing is changed by asking.

mod addresses;
mod grants;
mod servers;

use serde_json::Value;
use testkit::{Daemon, Server};

/// What the command ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Fine = 0,
    Fault = 1,
    Person = 3,
}

/// Examines the connection in both forms: what it says as JSON, and for people, as a snapshot of that name.
async fn examined(daemon: &Daemon, exit: Exit, name: &str) -> Value {
    let asked = daemon.command(&["doctor", "dev", "fake", "--json"]).await;
    let asked = asked.unwrap();
    let examination: Value = serde_json::from_slice(&asked.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {asked:?}"));
    assert_eq!(
        asked.status.code(),
        Some(exit as i32),
        "{name}: {examination:#}"
    );
    let plain = daemon.command(&["doctor", "dev", "fake"]).await.unwrap();
    assert_eq!(plain.status.code(), Some(exit as i32), "{name}: {plain:?}");
    let plain = String::from_utf8(plain.stdout).unwrap();
    insta::assert_snapshot!(name, same_everywhere(&plain));
    examination
}

/// Asserts the name of the fault, and who must act.
#[track_caller]
fn assert_verdict(examination: &Value, code: &str, kind: &str, who: &str) {
    let fault = &examination["fault"];
    assert_eq!(fault["code"], code, "{examination:#}");
    assert_eq!(fault["kind"], kind, "{examination:#}");
    assert_eq!(examination["act"]["who"], who, "{examination:#}");
    let what = examination["act"]["what"].as_str().unwrap();
    assert!(!what.is_empty(), "{examination:#}");
    let proof = examination["proof"]["answered"].as_str().unwrap();
    assert!(!proof.is_empty(), "{examination:#}");
}

/// What was said of one step, with all that belongs to it.
fn step(examination: &Value, check: &str) -> String {
    let steps = examination["steps"].as_array().unwrap();
    let of_check = steps.iter().filter(|step| step["check"] == *check);
    of_check.map(Value::to_string).collect()
}

/// Without what differs between two runs: ports, times, and what the schedule says at the moment.
fn same_everywhere(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_schedule = line.starts_with("  next: ") || line.contains(" connection        ");
        if line.starts_with("  sign in: ") {
            lines.push("  sign in: LINK".to_owned());
        } else if !is_schedule {
            lines.push(without_times(&without_ports(line)));
        }
    }
    lines.join("\n")
}

fn without_ports(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("127.0.0.1:").or_else(|| rest.find("rs.test:")) {
        let colon = at + rest[at..].find(':').unwrap() + 1;
        out.push_str(&rest[..colon]);
        let after = rest[colon..].trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() < rest.len() - colon {
            out.push_str("PORT");
        }
        rest = after;
    }
    out + rest
}

/// RFC 3339 times become TIME.
fn without_times(line: &str) -> String {
    let is_time = |word: &str| word.len() > 20 && word.starts_with("20") && word.contains("T");
    let words = line.split(' ').map(|word| {
        let bare = word.trim_end_matches([',', ';', '.', ':']);
        if is_time(bare) && bare.ends_with('Z') {
            word.replace(bare, "TIME")
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// How many sessions were opened, and how many were ended.
fn sessions(server: &Server) -> (usize, usize) {
    let ended = server.log().matching(|request| request.method == "DELETE");
    (server.sessions_created(), ended.len())
}
