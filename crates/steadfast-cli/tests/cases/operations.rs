//! The ledger of operations under kills and faults: what is on record when an agent has its answer, and whether the rows
//! of the providers say the same.

mod kills;
mod soak;
