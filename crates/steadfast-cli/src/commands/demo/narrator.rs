//! Tells the scenes: wrapped and with a little colour on a terminal, one line for each thing elsewhere.

use std::time::Duration;

use serde_json::json;

use super::scene::{Proof, Scene, counted, seconds};
use super::stage::{AGENT, Stage};
use crate::failure::Failure;
use crate::output::{Look, Output, printable};

/// Lines on a terminal are no longer than this.
const WIDTH: usize = 80;
/// Where text begins.
const INDENT: usize = 19;

pub(super) struct Narrator {
    output: Output,
    width: Option<usize>,
}

impl Narrator {
    pub(super) fn new(output: Output) -> Self {
        Self {
            width: output.terminal.then_some(WIDTH),
            output,
        }
    }

    /// What is about to be seen, and how to look at it from another terminal.
    pub(super) fn opening(&self, stage: &Stage) -> Result<(), Failure> {
        let (url, key, token) = (stage.url(), &stage.key, stage.token());
        if self.output.json {
            return self
                .output
                .json_line(&json!({ "url": url, "agent": AGENT, "key": key, "token": token }));
        }
        self.heading("An agent, Steadfast, and three scripted MCP servers")?;
        self.labelled(
            "booking",
            "a server of 2025-11-25, with sessions: search, create_booking, book_table",
        )?;
        self.labelled(
            "trains",
            "a server of 2026-07-28, without sessions: departures, buy_ticket, buy_seat",
        )?;
        self.labelled(
            "mail",
            "a server of 2025-11-25 that wants a sign-in, which was made: unread, send",
        )?;
        self.labelled(
            "gateway",
            &format!("{url}, its delays scaled down to a second"),
        )?;
        self.labelled("the agent's key", key)?;
        self.output.line(format!(
            "\nThe console is at {url}/ (its admin token is in the command below). The connections, from another terminal:\n",
        ))?;
        self.output.line(format!("{}\n", status_command(stage)))
    }

    /// What is going to happen, before it does.
    pub(super) fn scene(&self, number: usize, count: usize, scene: &Scene) -> Result<(), Failure> {
        if self.output.json {
            return Ok(());
        }
        self.heading(&format!("{number} of {count}  {}", scene.title))?;
        self.labelled("what happens", scene.fault)?;
        self.labelled("a naive client", scene.naive)
    }

    /// What became of it.
    pub(super) fn proof(&self, scene: &Scene, proof: &Proof) -> Result<(), Failure> {
        if self.output.json {
            let claims: Vec<_> = proof
                .claims
                .iter()
                .map(|claim| json!({ "holds": claim.holds, "text": claim.text }))
                .collect();
            let holds = proof.failures() == 0;
            return self.output.json_line(&json!({
                "scene": scene.title, "holds": holds, "claims": claims, "model_reads": proof.model_reads,
            }));
        }
        self.labelled("Steadfast", scene.steadfast)?;
        if let Some(text) = &proof.model_reads {
            self.labelled("the model reads", &format!("\"{text}\""))?;
        }
        for claim in &proof.claims {
            let (sign, look) = if claim.holds {
                ("✓", Look::Good)
            } else {
                ("✗ failed:", Look::Bad)
            };
            let sign_width = sign.chars().count() + 1;
            let text = self.wrapped(&printable(&claim.text), 4 + sign_width);
            self.output
                .line(format!("    {} {text}", self.output.paint(look, sign)))?;
        }
        self.output.line("")
    }

    /// How it ended.
    pub(super) fn verdict(
        &self,
        scenes: usize,
        claims: usize,
        failures: usize,
        took: Duration,
    ) -> Result<(), Failure> {
        if self.output.json {
            return self
                .output
                .json_line(&json!({ "scenes": scenes, "claims": claims, "failed": failures }));
        }
        let played = format!("{} played in {}", counted(scenes, "fault"), seconds(took));
        let (text, look) = match failures {
            0 => (
                format!("{played}: all {claims} claims were checked, and hold."),
                Look::Good,
            ),
            _ => (
                format!("{played}: {failures} of {claims} claims failed."),
                Look::Bad,
            ),
        };
        self.output.line(self.output.paint(look, &text))?;
        self.output.line("")
    }

    /// How to go on by oneself.
    pub(super) fn closing(&self, stage: &Stage, stays: bool) -> Result<(), Failure> {
        if self.output.json {
            return Ok(());
        }
        if !stays {
            return self
                .output
                .line("Everything stops now. Without --exit it stays up, to be tried with curl.");
        }
        self.heading("Try it yourself")?;
        self.output.line("Be the agent, and call a tool:\n")?;
        self.output
            .line(format!("{}\n", curl_command(&stage.url(), &stage.key)))?;
        self.output.line("See the connections:\n")?;
        self.output.line(format!("{}\n", status_command(stage)))?;
        self.output.line("Everything stays up until Ctrl-C.")
    }

    fn heading(&self, text: &str) -> Result<(), Failure> {
        self.output.line(self.output.paint(Look::Bold, text))
    }

    fn labelled(&self, label: &str, text: &str) -> Result<(), Failure> {
        let text = self.wrapped(&printable(text), INDENT + 2);
        let label = self
            .output
            .paint(Look::Dim, &format!("{label:<width$}", width = INDENT - 4));
        self.output.line(format!("    {label}  {text}"))
    }

    fn wrapped(&self, text: &str, indent: usize) -> String {
        match self.width {
            Some(width) => wrap(text, width, indent),
            None => text.to_owned(),
        }
    }
}

/// The command that shows the connections of this daemon.
fn status_command(stage: &Stage) -> String {
    let (name, url, token) = (own_name(), stage.url(), stage.token());
    format!("    {name} status --url {url} \\\n        --token {token}")
}

/// The command that calls a tool as the agent: 2026-07-28 needs no session for it.
fn curl_command(url: &str, key: &str) -> String {
    let lines = [
        &format!("    curl -sS {url}/mcp/trains \\"),
        &format!("-H 'Authorization: Bearer {key}' \\"),
        r"-H 'Accept: application/json, text/event-stream' -H 'Content-Type: application/json' \",
        r"-H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' \",
        r#"-H 'Mcp-Name: departures' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","#,
        r#""params":{"name":"departures","_meta":{"#,
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"curl","version":"1"},"#,
        r#""io.modelcontextprotocol/clientCapabilities":{}}}}'"#,
    ];
    lines.join("\n        ")
}

/// How this program was called, so that the printed command runs in the same shell.
fn own_name() -> String {
    let name = std::env::args()
        .next()
        .unwrap_or_else(|| "steadfast".to_owned());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if name.chars().all(is_plain) {
        name
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

/// Breaks text between words; lines after the first are indented.
fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut wrapped = String::new();
    let mut column = indent;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > indent {
            wrapped.push(' ');
            column += 1;
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::demo::scenes;

    #[test]
    fn lines_break_between_words_and_hang() {
        assert_eq!(
            wrap("one two three four", 12, 4),
            "one two\n    three\n    four"
        );
        assert_eq!(
            wrap("averyveryverylongword no", 12, 4),
            "averyveryverylongword\n    no"
        );
        assert_eq!(wrap("", 12, 4), "");
    }

    #[test]
    fn every_story_fits_on_a_terminal() {
        for scene in scenes::all() {
            for text in [scene.fault, scene.naive, scene.steadfast] {
                let wrapped = wrap(text, WIDTH, INDENT + 2);
                let longest = wrapped.lines().map(|line| line.chars().count()).max();
                assert!(longest <= Some(WIDTH), "{wrapped}");
            }
            assert!(scene.title.chars().count() <= 70, "{}", scene.title);
        }
        let key = format!("sfk_{}", "x".repeat(43));
        for line in curl_command("http://127.0.0.1:65535", &key).lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}
