//! Metrics and logs.

pub mod catalog;
pub mod log;
pub mod metrics;
