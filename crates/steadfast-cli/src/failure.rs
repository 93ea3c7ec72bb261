//! How a command ends: with an exit code, or with a failure that says its code, one sentence and a hint.

use std::borrow::Cow;
use std::fmt::Display;
use std::process::ExitCode;

use steadfast_core::code::{self, Code};

/// How a command ended that did what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// 1: it worked, and its answer is a failure.
    Failed,
    /// 2: wrong usage.
    Usage,
    /// 3: a person must act.
    Person,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Person => 3,
        })
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell.
    Said(Box<Said>),
    /// Whoever reads our output has gone, as `head` does; there is nobody to tell.
    OutputClosed,
}

/// What is told of a failure.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) hint: Cow<'static, str>,
    pub(crate) exit: Exit,
}

impl Failure {
    /// With the hint of its code.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self::hinted(code, message, code.hint)
    }

    /// The daemon's answer is not what this version reads.
    pub(crate) fn foreign(why: impl Display) -> Self {
        Self::hinted(
            code::INTERNAL,
            format!("the daemon's answer cannot be understood: {why}"),
            "Use the same version of Steadfast as the daemon.",
        )
    }

    /// With a hint of its own.
    pub(crate) fn hinted(
        code: Code,
        message: impl Into<String>,
        hint: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Said(Box::new(Said {
            code,
            message: message.into(),
            hint: hint.into(),
            exit: Exit::Failed,
        }))
    }

    /// The command was used wrongly, in a way that only shows later than the parsing of its arguments.
    pub(crate) fn usage(self) -> Self {
        match self {
            Self::Said(mut said) => {
                said.exit = Exit::Usage;
                Self::Said(said)
            }
            Self::OutputClosed => Self::OutputClosed,
        }
    }
}

impl From<steadfast_store::Error> for Failure {
    fn from(error: steadfast_store::Error) -> Self {
        // The message ends with what to do, which fits better than the general hint.
        Self::hinted(
            error.code(),
            format!("{}: {}", error.place(), error.detail()),
            error.fix(),
        )
    }
}
