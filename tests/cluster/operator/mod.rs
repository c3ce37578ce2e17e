//! The operator as a process, against a real API server.

pub mod harness;
mod leader;
mod pods;
mod snapshots;
mod steady;
mod whole;
