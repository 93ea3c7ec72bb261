//! The real clients.

use tokio::process::Command;

use crate::programs::Programs;

/// A real client. Each is an agent of its own, so that each has connections of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientKind {
    pub(crate) agent: &'static str,
    program: Program,
    pub(crate) era: &'static str,
    /// Whether it speaks to `steadfast connect` on standard input and output.
    stdio: bool,
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
    stdio: false,
};

pub(crate) const CLIENTS: [ClientKind; 9] = [
    ClientKind {
        agent: "typescript-v1",
        program: Program::Node("client-v1.mjs"),
        era: "legacy",
        stdio: false,
    },
    ClientKind {
        agent: "typescript-v2-legacy",
        program: Program::Node("client-v2.mjs"),
        era: "legacy",
        stdio: false,
    },
    ClientKind {
        agent: "typescript-v2-modern",
        program: Program::Node("client-v2.mjs"),
        era: "modern",
        stdio: false,
    },
    ClientKind {
        agent: "typescript-v1-stdio",
        program: Program::Node("client-v1.mjs"),
        era: "legacy",
        stdio: true,
    },
    ClientKind {
        agent: "typescript-v2-modern-stdio",
        program: Program::Node("client-v2.mjs"),
        era: "modern",
        stdio: true,
    },
    ClientKind {
        agent: "python-v2-legacy",
        program: Program::Python("python_client.py"),
        era: "legacy",
        stdio: false,
    },
    ClientKind {
        agent: "python-v2-modern",
        program: Program::Python("python_client.py"),
        era: "modern",
        stdio: false,
    },
    RMCP_LEGACY,
    ClientKind {
        agent: "rmcp-modern",
        program: Program::Rmcp,
        era: "modern",
        stdio: false,
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
        if self.stdio {
            command.env("STEADFAST_CONNECT", programs.binary("steadfast"));
        }
        command
    }
}
