//! The calls, runs and invocations in progress, and those that ended last.

pub mod executions;
pub mod invocations;
pub mod runs;
pub mod shown_run;
