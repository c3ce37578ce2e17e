//! Metrics, logs and traces.

pub mod catalog;
pub mod lines;
pub mod log;
pub mod metrics;
pub mod moment;
pub mod terminal;
pub mod traces;
