//! The agents: those that call ([`run`]), and those that merely stay connected ([`hold()`]).

mod agent;
mod connection;
mod decode;
mod hold;
mod slice;

pub(crate) use self::agent::Agent;
pub(crate) use self::hold::hold;
pub(crate) use self::slice::{Slice, run};
