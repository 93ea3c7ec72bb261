//! SP: what servers do to event streams and JSON bodies.

mod events;
mod heartbeats;
mod labels;
mod lines;
mod sizes;
