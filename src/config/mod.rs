//! From what users wrote to a plan: pure, total, never all or nothing.
//!
//! Invariant: no IO, no runtime, no clock. Facts about code, files and namespaces are inputs. One bad object yields a
//! Problem, and everything else still ships.

pub mod compile;
pub mod expr;
pub mod input;
pub mod shards;
pub mod variables;
