//! The agents: each lane has one call under way at a time, gives up, calls again, and outlives the gateway.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use testkit::{Agent, Answer, Daemon};
use tokio::sync::watch;

use super::plan::{Intention, Random, Temper};

/// How one call ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ended {
    /// By its own answer, whatever that says.
    Answered,
    /// What is known of the operation was told instead.
    Told(Value),
    /// It was kept back as a possible repeat of this operation.
    KeptBack(String),
    /// It was not sent: the server was not available.
    Unavailable,
    /// The agent closed its connection.
    GaveUp(Timestamp),
    /// The gateway is gone.
    Broken,
}

impl Ended {
    /// Whether the agent has what it wants to know.
    fn is_conclusive(&self) -> bool {
        match self {
            Self::Answered => true,
            Self::Told(operation) => operation["executed"] == "yes",
            Self::KeptBack(_) | Self::Unavailable | Self::GaveUp(_) | Self::Broken => false,
        }
    }
}

/// What became of what an agent wanted.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) intention: Intention,
    pub(super) ends: Vec<Ended>,
}

/// The state of the round that all lanes see.
#[derive(Clone, Debug)]
pub(super) struct Life {
    /// Set just before the gateway is killed.
    pub(super) killed: watch::Receiver<bool>,
    /// Counts the answers that agents have.
    pub(super) answers: watch::Sender<u64>,
}

pub(super) struct Lane {
    number: usize,
    random: Random,
    is_modern: bool,
    /// One for each server.
    agents: Vec<Agent>,
    /// What it was about when the gateway was killed.
    pending: Option<Story>,
    count: usize,
}

impl Lane {
    pub(super) async fn open(
        number: usize,
        daemon: &Daemon,
        agent: &str,
        servers: &[String],
        random: Random,
    ) -> Self {
        let is_modern = number % 2 == 1;
        let mut agents = Vec::new();
        for server in servers {
            agents.push(if is_modern {
                daemon.modern_agent(agent, server).await.unwrap()
            } else {
                let agent = daemon.legacy_agent(agent, server).await.unwrap();
                agent.initialize().await.unwrap();
                agent
            });
        }
        Self {
            number,
            random,
            is_modern,
            agents,
            pending: None,
            count: 0,
        }
    }

    /// Makes so many calls, or fewer where the gateway is killed; what became of what was finished.
    pub(super) async fn run(mut self, mut calls: usize, life: Life) -> (Self, usize, Vec<Story>) {
        let mut done = Vec::new();
        while calls > 0 && !*life.killed.borrow() {
            calls -= 1;
            let mut story = match self.pending.take() {
                Some(story) => story,
                None => self.next(),
            };
            // Only the first call is given up: an agent that calls again wants to know.
            let temper = match story.ends.is_empty() {
                true => story.intention.temper,
                false => Temper::Waits,
            };
            let ended = self.call(&story.intention, temper, &life).await;
            let is_over = ended.is_conclusive() || story.ends.len() >= story.intention.repeats;
            story.ends.push(ended);
            if is_over {
                done.push(story);
            } else {
                self.pending = Some(story);
                let pause = self.random.below(12) as u64;
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
        (self, calls, done)
    }

    pub(super) const fn number(&self) -> usize {
        self.number
    }

    /// What it was about in the end, if anything.
    pub(super) fn finish(self) -> Option<Story> {
        self.pending
    }

    fn next(&mut self) -> Story {
        self.count += 1;
        let key = format!("{}-{}", self.number, self.count);
        Story {
            intention: Intention::draw(&mut self.random, self.agents.len(), key),
            ends: Vec::new(),
        }
    }

    async fn call(&self, intention: &Intention, temper: Temper, life: &Life) -> Ended {
        let agent = &self.agents[intention.server];
        let Ok(pending) = agent.start("tools/call", intention.params()).await else {
            return broken(life);
        };
        let id = pending.id.clone();
        let patience = match temper {
            Temper::Waits => testkit::PATIENCE,
            Temper::Leaves(ms) | Temper::Cancels(ms) => Duration::from_millis(ms),
        };
        match tokio::time::timeout(patience, pending.finish()).await {
            Ok(Ok(answer)) => {
                life.answers.send_modify(|answers| *answers += 1);
                ended(&answer)
            }
            Ok(Err(_)) => broken(life),
            Err(_) => {
                assert_ne!(temper, Temper::Waits, "a call hangs: {intention:?}");
                if matches!(temper, Temper::Cancels(_)) && !self.is_modern {
                    let _killed = agent.cancel(&id).await;
                }
                Ended::GaveUp(Timestamp::now())
            }
        }
    }
}

/// The gateway breaks off an answer only where it is killed.
fn broken(life: &Life) -> Ended {
    assert!(*life.killed.borrow(), "the gateway left a call unanswered");
    Ended::Broken
}

fn ended(answer: &Answer) -> Ended {
    let meta = &answer.result()["_meta"];
    if !meta["dev.steadfast/connection"].is_null() {
        return Ended::Unavailable;
    }
    let operation = answer.operation();
    if operation.is_null() {
        return Ended::Answered;
    }
    match operation["duplicate_of"].as_str() {
        Some(first) => {
            assert_eq!(operation["executed"], "no", "{answer:?}");
            Ended::KeptBack(first.to_owned())
        }
        None => Ended::Told(operation.clone()),
    }
}
