//! Hawsepipe: an MCP gateway that runs your own JavaScript plugins on tool calls, and its Kubernetes operator.
//!
//! Without the feature `gateway` there is only what the bridge needs, which is linked statically.

#[cfg(feature = "gateway")]
pub mod api;
pub mod bridge;
#[cfg(feature = "gateway")]
pub mod cli;
#[cfg(feature = "gateway")]
pub mod config;
#[cfg(feature = "gateway")]
pub(crate) mod controller;
pub mod domain;
#[cfg(feature = "gateway")]
pub mod engine;
#[cfg(feature = "gateway")]
pub(crate) mod identity;
#[cfg(feature = "gateway")]
pub(crate) mod model;
#[cfg(feature = "gateway")]
pub mod node;
#[cfg(feature = "gateway")]
pub mod source;
#[cfg(feature = "gateway")]
pub(crate) mod store;
#[cfg(feature = "gateway")]
pub mod telemetry;
pub mod transport;
#[cfg(feature = "gateway")]
pub mod upstream;
#[cfg(feature = "gateway")]
pub mod web;
