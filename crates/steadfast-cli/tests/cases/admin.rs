//! The admin API, and what a monitor asks.

mod access;
mod audit;
mod changes;
mod monitoring;
mod tracing;
