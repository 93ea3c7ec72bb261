//! See the module documentation of the test binary.
