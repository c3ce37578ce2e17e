//! Measures the operator against a real control plane: how it does with thousands of objects.
//!
//! `make bench-cluster` runs it; the control plane is that of the tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../../tests/cluster/harness/mod.rs"]
mod harness;
mod scale;

use clap::Parser;

/// What is measured, and of how much.
#[derive(Debug, Parser)]
struct Options {
    /// External upstreams
    #[arg(long, default_value_t = 5000)]
    upstreams: usize,
    /// Chains, each of one plugin
    #[arg(long, default_value_t = 500)]
    chains: usize,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    scale::measure(options.upstreams, options.chains).await;
}
