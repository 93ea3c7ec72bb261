//! Example tests.
