//! Hawsepipe: an MCP gateway that runs your own JavaScript on every tool call.

pub mod api;
pub mod cli;
pub mod config;
pub(crate) mod controller;
pub mod domain;
pub mod engine;
pub mod node;
pub mod source;
pub(crate) mod store;
// The metrics registry has one statement for each metric family.
#[allow(clippy::too_many_lines)]
pub mod telemetry;
pub mod upstream;
pub(crate) mod web;
