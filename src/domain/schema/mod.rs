//! JSON Schemas that others write, checked within bounds: those of servers for the arguments of their tools, and those of
//! plugins for their configurations.
//!
//! The bounds are checked once, when a schema is read (`places.rs`, `patterns.rs`). A schema within them has no recursion,
//! so that a check tries each of its places on each value at most once. What a check costs is known before it begins.

mod bounded;
mod coercion;
mod faults;
mod older_drafts;
mod patterns;
mod places;
mod said;
mod unique;
mod unusable;

pub use self::bounded::{BoundedSchema, PreparedSchema};
pub use self::coercion::Coercion;
pub use self::faults::schema_fault;
pub use self::older_drafts::in_2020_12;
pub use self::patterns::has_few_states;
pub use self::said::{MAX_LINE, shortened, with_value, without_value};
pub use self::unusable::{MAX_DEPTH, MAX_PLACES, MAX_SCHEMA, Unusable};

#[cfg(test)]
mod tests;
