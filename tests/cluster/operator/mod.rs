//! The operator as a process, against a real API server.

mod canary;
mod columns;
mod commands;
mod consent;
mod dead;
mod deep;
mod denied;
mod enable;
mod gone;
mod guarded;
pub mod harness;
mod invalid;
mod killed;
mod lagging;
mod leader;
mod outage;
mod pods;
mod quickstart;
mod scope;
mod silent;
mod snapshots;
mod steady;
mod storm;
mod token;
mod told;
mod traces;
mod whole;
