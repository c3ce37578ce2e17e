//! Tests of the check.
