//! The real clients.

use tokio::process::Command;

use crate::programs::Programs;

/// A real client. Each is an agent of its own, so that each has connections of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientKind {
    pub(crate) agent: &'static str,
    program: Program,
    pub(crate) era: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Program {
    /// A script of `peers/`, by Node.
    Node(&'static str),
    /// A script of `peers/`, by Python.
    Python(&'static str),
    /// Our own, built on rmcp.
    Rmcp,
}

/// Our own in the legacy era: it starts at once.
pub(crate) const RMCP_LEGACY: ClientKind = ClientKind {
    agent: "rmcp-legacy",
    program: Program::Rmcp,
    era: "legacy",
};

pub(crate) const CLIENTS: [ClientKind; 7] = [
    ClientKind {
        agent: "typescript-v1",
        program: Program::Node("client-v1.mjs"),
        era: "legacy",
    },
    ClientKind {
        agent: "typescript-v2-legacy",
        program: Program::Node("client-v2.mjs"),
        era: "legacy",
    },
    ClientKind {
        agent: "typescript-v2-modern",
        program: Program::Node("client-v2.mjs"),
        era: "modern",
    },
    ClientKind {
        agent: "python-v2-legacy",
        program: Program::Python("python_client.py"),
        era: "legacy",
    },
    ClientKind {
        agent: "python-v2-modern",
        program: Program::Python("python_client.py"),
        era: "modern",
    },
    RMCP_LEGACY,
    ClientKind {
        agent: "rmcp-modern",
        program: Program::Rmcp,
        era: "modern",
    },
];

impl ClientKind {
    pub(crate) fn command(&self, programs: &Programs, url: &str, key: &str) -> Command {
        let mut command = match self.program {
            Program::Node(script) => {
                let mut command = Command::new(programs.node());
                command.arg(programs.peer(script));
                command
            }
            Program::Python(script) => {
                let mut command = Command::new(programs.python());
                command.arg(programs.peer(script));
                command
            }
            Program::Rmcp => Command::new(programs.binary("rmcp-client")),
        };
        command.args([url, key, self.era]);
        command
    }
}
