//! From a plan to what runs: linked, its plugins loaded, swapped in.

pub(crate) mod apply;
pub(crate) mod entries;
pub(crate) mod form;
pub(crate) mod forms;
pub(crate) mod link;
pub(crate) mod schema;
pub(crate) mod snapshot;
