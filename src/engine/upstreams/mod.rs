//! The state of upstreams: probes of their health, and their lists.

mod filtering;
mod freshness;
mod indexing;
pub(crate) mod other_lists;
pub(crate) mod pinning;
pub(crate) mod probes;
pub(crate) mod probing;
mod reading;
pub(crate) mod state;
mod tools;
