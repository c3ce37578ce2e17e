//! Tests against a real Kubernetes control plane. One test binary, a module each; `harness` brings the control plane.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;

mod chart;
mod control_plane;
mod definitions;
mod examples;
mod gateway;
mod grant;
mod monitored;
mod objects;
mod offline;
mod operator;
#[allow(dead_code)] // The tests of gateways use the rest.
#[path = "../panels/prometheus.rs"]
mod prometheus;
mod status;
