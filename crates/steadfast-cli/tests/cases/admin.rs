//! The admin API, and what a monitor asks.

mod monitoring;
