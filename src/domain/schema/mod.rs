//! JSON Schemas that others write, checked within bounds: those of servers for the arguments of their tools, and those of
//! plugins for their configurations.
//!
//! What a check costs cannot be told from the size of the schema and of the value. So its steps are counted while it runs
//! (`steps.rs`), by counters (`counter.rs`) in the schema (`counted.rs`). The same counters count what it costs to compile the
//! schema, which depends on how deep it is, and on how often the library compiles a part of it.

mod bounded;
mod counted;
mod counter;
mod expansion;
mod linear;
mod patterns;
mod said;
mod steps;
mod unique;

pub use self::bounded::{BoundedSchema, MAX_COMPILING, MAX_SCHEMA, PreparedSchema, Unusable};
pub use self::expansion::MAX_DEPTH;
pub use self::said::{MAX_LINE, shortened, with_value, without_value};
pub use self::steps::Ended;

#[cfg(test)]
mod tests;
