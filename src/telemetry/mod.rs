//! Metrics and logs.

pub mod log;
pub mod metrics;
