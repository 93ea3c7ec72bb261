//! What happens in a round, drawn from its seed.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// xorshift: the same seed makes the same choices.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// Whether something that happens so many times of a hundred happens.
    pub(super) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// A source of its own for each part, so that they do not depend on who comes first.
    pub(super) fn split(&mut self) -> Self {
        Self::new(self.below(usize::MAX) as u64)
    }
}

/// What the provider documents about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contract {
    /// Nothing.
    None,
    /// It has its effect once for each key.
    Key,
    /// It can be looked up; what is not found proves nothing.
    Lookup,
    /// It can be looked up; what is not found did not happen.
    Definitive,
}

impl Contract {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Key, Self::Lookup, Self::Definitive];

    pub(super) const fn tool(self) -> &'static str {
        match self {
            Self::None => "send_message",
            Self::Key => "pay",
            Self::Lookup => "book",
            Self::Definitive => "order",
        }
    }

    pub(super) fn of_tool(tool: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.tool() == tool)
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum How {
    Fin,
    Rst,
    MidChunk,
    Silence,
}

impl How {
    fn draw(random: &mut Random) -> Self {
        match random.below(40) {
            0 => Self::Silence,
            1..14 => Self::Fin,
            14..27 => Self::Rst,
            _ => Self::MidChunk,
        }
    }

    pub(super) const fn end(self) -> testkit::End {
        match self {
            Self::Fin => testkit::End::Fin,
            Self::Rst => testkit::End::Rst,
            Self::MidChunk => testkit::End::MidChunk,
            Self::Silence => testkit::End::BlackHole,
        }
    }
}

/// What a server does with one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fault {
    /// What it should.
    None,
    /// The body of the answer is cut.
    Body { at: u64, how: How, runs: bool },
    /// The head of the answer is cut.
    Head { at: usize, runs: bool },
    /// This status instead of an answer.
    Status { status: u16, runs: bool },
    /// A JSON-RPC error.
    Error { runs: bool },
    /// A body that is no answer to this request.
    Garbage { runs: bool },
    /// It runs, and answers this much later.
    Slow { ms: u64 },
    /// It runs only this much later.
    Late { ms: u64 },
}

/// Longer than the body of any answer here, so that every place in it is cut.
const LONGEST_BODY: usize = 280;
/// What an answer's head is cut out of.
pub(super) const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 120\r\n\r\n";

impl Fault {
    fn draw(random: &mut Random, contract: Contract) -> Self {
        let runs = random.percent(70);
        let ms = random.below(60) as u64;
        match random.below(100) {
            0..35 => Self::None,
            35..60 => Self::Body {
                at: random.below(LONGEST_BODY) as u64,
                how: How::draw(random),
                runs,
            },
            60..68 => Self::Head {
                at: random.below(HEAD.len()),
                runs,
            },
            68..76 => Self::Status {
                status: [429, 500, 502, 503, 504][random.below(5)],
                runs,
            },
            76..80 => Self::Error { runs },
            80..84 => Self::Garbage { runs },
            84..94 => Self::Slow { ms },
            // Whoever documents that what is not found did not happen keeps to that.
            _ if contract == Contract::Definitive => Self::Slow { ms },
            _ => Self::Late { ms },
        }
    }

    /// Whether it has its effect.
    pub(super) const fn runs(&self) -> bool {
        match self {
            Self::None | Self::Slow { .. } | Self::Late { .. } => true,
            Self::Body { runs, .. }
            | Self::Head { runs, .. }
            | Self::Status { runs, .. }
            | Self::Error { runs }
            | Self::Garbage { runs } => *runs,
        }
    }
}

/// How patient an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temper {
    /// Waits for the answer.
    Waits,
    /// Closes the connection after so many milliseconds.
    Leaves(u64),
    /// Cancels after so many milliseconds, and closes the connection.
    Cancels(u64),
}

/// What an agent wants done, once.
#[derive(Clone, Debug)]
pub(super) struct Intention {
    pub(super) server: usize,
    pub(super) contract: Contract,
    /// Its name in the rows.
    pub(super) key: String,
    arguments: Value,
    meta: Value,
    pub(super) temper: Temper,
    /// How often the agent calls again while it has no answer.
    pub(super) repeats: usize,
}

impl Intention {
    pub(super) fn draw(random: &mut Random, servers: usize, key: String) -> Self {
        let contract = Contract::ALL[random.below(4)];
        let mut faults = vec![Fault::draw(random, contract)];
        while random.percent(30) && faults.len() < 4 {
            faults.push(Fault::draw(random, contract));
        }
        let ms = random.below(40) as u64;
        let mut arguments = json!({ "key": key, "faults": faults, "room": random.below(9) });
        match contract {
            Contract::Key => arguments["idempotency_key"] = json!(format!("pay-{key}")),
            Contract::Lookup | Contract::Definitive => {
                arguments["blurred"] = json!(random.below(6).saturating_sub(2));
            }
            Contract::None => {}
        }
        let meta = match random.percent(25) {
            true => json!({ "dev.steadfast/operationKey": format!("operation-{key}") }),
            false => json!({}),
        };
        Self {
            server: random.below(servers),
            contract,
            key,
            arguments,
            meta,
            temper: match random.below(10) {
                0 | 1 => Temper::Leaves(ms),
                2 => Temper::Cancels(ms),
                _ => Temper::Waits,
            },
            repeats: random.below(4),
        }
    }

    /// The same each time: an agent that calls again says nothing else.
    pub(super) fn params(&self) -> Value {
        json!({ "name": self.contract.tool(), "arguments": self.arguments, "_meta": self.meta })
    }

    pub(super) fn has_operation_key(&self) -> bool {
        self.meta != json!({})
    }
}
