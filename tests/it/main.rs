//! Black-box tests of the built program and of adapters that need it. One test binary, a module each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bridge;
mod faults;
mod fixtures;
mod gateway;
mod golden;
mod node;
#[cfg(target_os = "linux")]
mod sandbox;
mod upstream;
