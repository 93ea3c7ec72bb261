//! What a scene is, and what it proves.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use testkit::Answer;

use super::stage::Stage;
use crate::failure::Failure;

/// How long a scene may take before it counts as failed; each takes a second or two.
const LIMIT: Duration = Duration::from_secs(20);

/// One fault: the story around it, and how it is played.
pub(super) struct Scene {
    pub(super) title: &'static str,
    /// What goes wrong.
    pub(super) fault: &'static str,
    /// What a client that does not know better makes of it.
    pub(super) naive: &'static str,
    /// What Steadfast makes of it.
    pub(super) steadfast: &'static str,
    /// Makes the fault happen and collects the proof.
    pub(super) play: for<'s> fn(&'s Stage) -> Playing<'s>,
}

/// A scene that is being played.
pub(super) type Playing<'s> = Pin<Box<dyn Future<Output = Result<Proof, Broken>> + Send + 's>>;

impl Scene {
    /// Plays the scene and leaves the stage as it found it. A scene that cannot be played to its end has
    /// proved nothing, which counts as one false claim.
    pub(super) async fn prove(&self, stage: &Stage) -> Proof {
        let played = async {
            let proof = (self.play)(stage).await;
            stage.calm().await.and(proof)
        };
        let played = tokio::time::timeout(LIMIT, played).await;
        let played = played.unwrap_or_else(|_| {
            Err(Broken(format!(
                "it did not end within {} s",
                LIMIT.as_secs()
            )))
        });
        played.unwrap_or_else(|Broken(why)| {
            let mut proof = Proof::default();
            proof.claim(
                false,
                format!("the scene could not be played to its end: {why}"),
            );
            proof
        })
    }
}

/// What a scene has shown.
#[derive(Debug, Default)]
pub(super) struct Proof {
    pub(super) claims: Vec<Claim>,
    /// What the model behind the agent gets to read, where that matters.
    pub(super) model_reads: Option<String>,
}

/// Something that was checked.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) holds: bool,
    pub(super) text: String,
}

impl Proof {
    /// Adds a claim; `text` says what is the case if it holds.
    pub(super) fn claim(&mut self, holds: bool, text: impl Into<String>) {
        let text = text.into();
        self.claims.push(Claim { holds, text });
    }

    /// Claims that a call was answered with what its tool says.
    pub(super) fn answered(&mut self, answer: &Answer, with: &str) {
        let is_good = answer.result().is_object() && !answer.is_error() && answer.text() == with;
        self.claim(
            is_good,
            format!(
                "the agent's call was answered after {}: \"{}\"",
                seconds(answer.took),
                answer.text()
            ),
        );
    }

    /// Claims that a call was answered, in words for the model, with what is known of a write whose result
    /// is lost.
    pub(super) fn unknown(&mut self, answer: &Answer) {
        let operation = answer.operation();
        let is_told = answer.is_error()
            && operation["state"] == "not_observed"
            && operation["executed"] == "unknown";
        self.claim(
            is_told,
            format!(
                "the agent was told after {}: {}, executed: {} ({} bytes had left)",
                seconds(answer.took),
                operation["state"]
                    .as_str()
                    .unwrap_or("nothing")
                    .replace('_', " "),
                operation["executed"].as_str().unwrap_or("nothing"),
                operation["bytes_sent"],
            ),
        );
        self.model_reads = Some(answer.text().to_owned());
    }

    /// How many claims are false.
    pub(super) fn failures(&self) -> usize {
        self.claims.iter().filter(|claim| !claim.holds).count()
    }
}

/// Why a scene could not be played to its end.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<testkit::NotSeen> for Broken {
    fn from(error: testkit::NotSeen) -> Self {
        Self(error.to_string())
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Said(said) => Self(said.message),
            Failure::OutputClosed => Self("the output is closed".to_owned()),
        }
    }
}

/// A length of time as people say it: `7 ms`, `0.42 s`.
pub(super) fn seconds(time: Duration) -> String {
    match time.as_millis() {
        millis if millis < 100 => format!("{millis} ms"),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

/// A number of things: `no row`, `1 row`, `2 rows`.
pub(super) fn counted(count: usize, thing: &str) -> String {
    match count {
        0 => format!("no {thing}"),
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

/// How often: `never`, `once`, `3 times`.
pub(super) fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(result: &Value) -> Answer {
        Answer {
            status: 200,
            headers: Vec::new(),
            body: bytes::Bytes::new(),
            message: json!({ "result": result }),
            events: Vec::new(),
            took: Duration::from_millis(420),
        }
    }

    fn failures(claim: impl FnOnce(&mut Proof)) -> usize {
        let mut proof = Proof::default();
        claim(&mut proof);
        proof.failures()
    }

    #[test]
    fn an_answer_is_what_its_tool_says_and_nothing_else() {
        let mut result = testkit::reply::tool_text("booked");
        assert_eq!(
            failures(|proof| proof.answered(&answer(&result), "booked")),
            0
        );
        assert_eq!(
            failures(|proof| proof.answered(&answer(&result), "bought")),
            1
        );
        result["isError"] = true.into();
        assert_eq!(
            failures(|proof| proof.answered(&answer(&result), "booked")),
            1
        );
        assert_eq!(
            failures(|proof| proof.answered(&answer(&Value::Null), "")),
            1
        );
    }

    #[test]
    fn an_unknown_outcome_says_that_it_is_unknown() {
        let told = |executed: &str| {
            let operation =
                json!({ "state": "not_observed", "executed": executed, "bytes_sent": 7 });
            answer(&json!({ "isError": true, "_meta": { "dev.steadfast/operation": operation } }))
        };
        assert_eq!(failures(|proof| proof.unknown(&told("unknown"))), 0);
        assert_eq!(failures(|proof| proof.unknown(&told("no"))), 1);
        assert_eq!(
            failures(|proof| proof.unknown(&answer(&testkit::reply::tool_text("booked")))),
            1
        );
    }

    #[test]
    fn numbers_are_said_as_people_say_them() {
        assert_eq!(seconds(Duration::from_millis(99)), "99 ms");
        assert_eq!(seconds(Duration::from_millis(420)), "0.42 s");
        assert_eq!(
            [0, 1, 2].map(|count| counted(count, "row")),
            ["no row", "1 row", "2 rows"]
        );
        assert_eq!(
            [0, 1, 2, 3].map(times),
            ["never", "once", "twice", "3 times"]
        );
    }
}
