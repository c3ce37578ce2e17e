//! Black-box tests of the built program and of adapters that need it. One test binary, a module each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bridge;
mod conformance;
mod faults;
mod fixtures;
mod gateway;
mod golden;
mod node;
#[allow(dead_code)] // The tests of the operator use the rest.
#[path = "../panels/prometheus.rs"]
mod prometheus;
#[cfg(target_os = "linux")]
mod sandbox;
mod upstream;
