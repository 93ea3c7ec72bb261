//! The demo, as a person on a fresh machine runs it: the real binary, with nothing configured.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// It is to end within a minute.
const LIMIT: Duration = Duration::from_secs(60);

/// What is said of the faults, each once.
const TOLD: [&str; 18] = [
    "1 of 18  A renewal brings no refresh token",
    "The token endpoint has moved",
    "The server is restarted",
    "The session expires, answered with 404",
    "The session expires, answered with 400 and a text",
    "The answer's stream breaks in the middle",
    "The server refuses its stream of notifications",
    "The answer to a booking is lost, and nobody can be asked",
    "The same, at a provider that can be asked",
    "The same, at a provider that takes a key",
    "An answer is lost on a server of 2026-07-28",
    "A proxy in front of the server answers 504",
    "The answer to a read is lost",
    "A sign-in page answers instead of the server",
    "The server is down",
    "An old agent on a new server",
    "A new agent on an old server",
    "18 of 18  The consent is withdrawn",
];

/// A demo that keeps its files where the test can see what is left of them.
fn demo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command
        .arg("demo")
        .args(arguments)
        .env_clear()
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a demo to its end.
async fn finished(command: &mut Command) -> (ExitStatus, String, String) {
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    let output = output.expect("within a minute").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status, text(output.stdout), text(output.stderr))
}

fn assert_nothing_left(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn the_script_ends_with_0_and_says_what_it_proved() {
    let folder = tempfile::tempdir().unwrap();
    let (status, out, err) = finished(&mut demo(folder.path(), &["--exit"])).await;
    assert!(status.success(), "{status}\n{out}\n{err}");
    assert_eq!(err, "");
    let mut rest = out.as_str();
    for title in TOLD {
        let (_, after) = rest
            .split_once(title)
            .unwrap_or_else(|| panic!("{title}:\n{out}"));
        rest = after;
    }
    for line in [
        " while nobody called",
        "✓ the refresh token was kept: ",
        "/token answered 404 ",
        "✓ a person was never asked to sign in",
        "✓ the server ran the tool once: 1 row in its ledger",
        "✓ the server was initialized once: the session there is a new one",
        "✓ the server was asked once for what follows Last-Event-ID ",
        "✓ the call was sent once, and a later call went through",
        "the model reads  \"The result of create_booking was not observed: ",
        "✓ a person looked, and settled it: confirmed",
        "✓ the model called again, and was told of the first one: held",
        "✓ `find_table` showed one table under booking-intent-17, after ",
        "✓ the key \"purchase-17\" was sent again after ",
        "the model reads  \"The result of buy_ticket was not observed: ",
        "the model reads  \"The server `booking` is not available: ",
        "✓ its result is marked: dev.steadfast/observation = {\"reissued\":1}",
        "✓ its 4 tools stayed listed: search, create_booking, find_table, book_table",
        "the model reads  \"The server `mail` is not available: ",
        "✓ a person signed in, and the notice cleared itself",
        " status --url http://127.0.0.1:",
        "claims were checked, and hold.",
    ] {
        assert!(out.contains(line), "{line}:\n{out}");
    }
    assert!(!out.contains('✗') && !out.contains('\x1b'), "{out}");
    assert_nothing_left(folder.path());
}

#[tokio::test]
async fn for_a_program_each_scene_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (status, out, err) = finished(&mut demo(folder.path(), &["--exit", "--json"])).await;
    assert!(status.success(), "{status}\n{out}\n{err}");
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [daemon, scenes @ .., verdict] = &lines[..] else {
        panic!("{out}");
    };
    assert_eq!(daemon["agent"], "demo");
    assert_eq!(scenes.len(), TOLD.len());
    let mut claims = 0;
    for scene in scenes {
        assert_eq!(scene["holds"], true, "{scene}");
        let of_scene = scene["claims"].as_array().unwrap();
        assert!(
            of_scene.iter().all(|claim| claim["holds"] == true),
            "{scene}"
        );
        claims += of_scene.len();
    }
    assert_eq!(verdict["scenes"], scenes.len());
    assert_eq!(verdict["claims"], claims);
    assert_eq!(verdict["failed"], 0);
}

#[tokio::test]
async fn without_exit_it_stays_up_and_what_it_prints_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = demo(folder.path(), &[]).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let told = until_it_stays(&mut out).await;
    let command = printed(&told, " status --url ");
    let status = Command::new("sh")
        .args(["-c", &command])
        .output()
        .await
        .unwrap();
    let table = String::from_utf8(status.stdout).unwrap();
    assert!(status.status.success(), "{command}\n{table}");
    for server in ["booking", "trains", "mail"] {
        let row = table.lines().find(|line| line.contains(server)).unwrap();
        assert!(row.contains("connected"), "{table}");
    }
    assert_eq!(table.matches("demo").count(), 1, "one group:\n{table}");

    interrupt(&child).await;
    let ended = tokio::time::timeout(LIMIT, child.wait())
        .await
        .unwrap()
        .unwrap();
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .await
        .unwrap();
    assert!(ended.success(), "{ended}\n{err}");
    assert_nothing_left(folder.path());
}

/// Everything up to the line that says how to stop it.
async fn until_it_stays(out: &mut BufReader<ChildStdout>) -> String {
    let mut told = String::new();
    let reading = async {
        while !told.contains("until Ctrl-C") {
            assert!(out.read_line(&mut told).await.unwrap() > 0, "{told}");
        }
    };
    tokio::time::timeout(LIMIT, reading).await.unwrap();
    told
}

/// The last printed command with this in it, with the lines that belong to it.
fn printed(told: &str, part: &str) -> String {
    let lines: Vec<_> = told.lines().collect();
    let first = lines.iter().rposition(|line| line.contains(part)).unwrap();
    let more = lines[first..]
        .iter()
        .take_while(|line| line.ends_with('\\'))
        .count();
    lines[first..=first + more].join("\n")
}

async fn interrupt(child: &Child) {
    let kill = format!("kill -INT {}", child.id().unwrap());
    let sent = Command::new("sh")
        .args(["-c", &kill])
        .status()
        .await
        .unwrap();
    assert!(sent.success());
}
