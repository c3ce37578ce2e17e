//! Compiles the objects that users wrote into a plan.
//!
//! Invariant: no IO, no async runtime, no clock; facts about code, files and namespaces are inputs. A bad object leads
//! to a Problem and does not affect the others.

pub mod compile;
pub mod expr;
pub mod input;
pub mod shards;
pub mod variables;
