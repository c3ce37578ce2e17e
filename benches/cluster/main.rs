//! Measures the operator with a real control plane: how soon an edit is served, how long thousands of objects take,
//! servers that it runs on simulated nodes, and whether it writes anything when nothing changes.
//!
//! Run it with `make bench-cluster`. It uses the same control plane as the tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod edits;
#[allow(dead_code, unused_imports)]
#[path = "../../tests/cluster/gateway/mod.rs"]
mod gateway;
#[allow(dead_code, unused_imports)]
#[path = "../../tests/cluster/harness/mod.rs"]
mod harness;
mod managed;
mod nodes;
#[allow(dead_code, unused_imports)]
#[path = "../../tests/cluster/operator/mod.rs"]
mod operator;
mod scale;
mod steady;

use std::time::Duration;

use clap::Parser;

/// The most upstreams and chains in the measurement of the steady state.
const STEADY: (usize, usize) = (1000, 100);

/// Measure the operator: edits under load, many objects, servers that it runs, and the steady state
#[derive(Debug, Parser)]
struct Options {
    /// The number of external upstreams
    #[arg(long, default_value_t = 5000)]
    upstreams: usize,
    /// The number of chains, each with one plugin
    #[arg(long, default_value_t = 500)]
    chains: usize,
    /// The number of managed upstreams
    #[arg(long, default_value_t = 1000)]
    managed: usize,
    /// The number of edits of a plugin under load
    #[arg(long, default_value_t = 100)]
    edits: usize,
    /// Seconds of each measurement of the steady state
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Measure only one part: edits, scale, managed or steady
    #[arg(long)]
    only: Option<String>,
    /// The flag that `cargo bench` passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let wanted = |part: &str| options.only.as_deref().is_none_or(|only| only == part);
    if wanted("edits") {
        edits::measure(options.edits).await;
    }
    if wanted("scale") {
        scale::measure(options.upstreams, options.chains).await;
    }
    if wanted("managed") {
        managed::measure(options.managed, Duration::from_secs(options.seconds)).await;
    }
    if wanted("steady") {
        let (upstreams, chains) = (options.upstreams.min(STEADY.0), options.chains.min(STEADY.1));
        steady::measure(upstreams, chains, Duration::from_secs(options.seconds)).await;
    }
}
