//! From a compiled plan to the snapshot that calls run on: linking, loading plugins, swapping.

pub(crate) mod api_keys;
pub(crate) mod apply;
pub(crate) mod bound_section;
mod changed_tools;
pub(crate) mod check_places;
mod derived_annotations;
pub(crate) mod entries;
pub(crate) mod filtered;
pub(crate) mod form;
pub(crate) mod link;
pub(crate) mod linked_item;
pub(crate) mod linked_pipeline;
pub(crate) mod list_filters;
mod list_problems;
pub mod listener_certificates;
pub(crate) mod own_tools;
pub(crate) mod pages;
pub(crate) mod plugin_revisions;
pub(crate) mod schema;
mod secret_values;
pub(crate) mod snapshot;
mod templates;
pub(crate) mod tool_index;
mod unknown_arguments;
mod unmatched_names;
pub(crate) mod withheld;
pub(crate) mod withheld_item;
