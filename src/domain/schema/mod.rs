//! JSON Schemas that others write, checked within bounds: those of servers for the arguments of their tools, and those of
//! plugins for their configurations.
//!
//! What a check costs cannot be told from the size of the schema and of the value. So its steps are counted while it runs
//! (`steps.rs`), by counters (`counter.rs`) in the schema (`counted.rs`).

mod bounded;
mod counted;
mod counter;
mod expansion;
mod linear;
mod patterns;
mod said;
mod steps;
mod unique;

pub use self::bounded::{BoundedSchema, MAX_SCHEMA, PreparedSchema, Unusable};
pub use self::expansion::MAX_DEPTH;
pub use self::said::{MAX_LINE, shortened, with_value, without_value};
pub use self::steps::Ended;

#[cfg(test)]
mod tests;
