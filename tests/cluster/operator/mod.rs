//! The operator as a process, against a real API server.

mod commands;
mod guarded;
pub mod harness;
mod killed;
mod leader;
mod pods;
mod quickstart;
mod snapshots;
mod steady;
mod whole;
