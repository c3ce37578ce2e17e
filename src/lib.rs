//! Hawsepipe: an MCP gateway that runs your own JavaScript plugins on tool calls, and its Kubernetes operator.

pub mod api;
pub mod cli;
pub mod config;
pub(crate) mod controller;
pub mod domain;
pub mod engine;
pub mod node;
pub mod source;
pub(crate) mod store;
// `Metrics::new` has one statement for each metric family, so it has more lines than the lint allows.
#[allow(clippy::too_many_lines)]
pub mod telemetry;
pub mod upstream;
pub(crate) mod web;
