//! Measures the operator against a real control plane: how soon an edit is served, and how it does with thousands of
//! objects; and that it writes nothing when nothing changes.
//!
//! `make bench-cluster` runs it; the control plane is that of the tests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod edits;
#[allow(dead_code, unused_imports)]
#[path = "../../tests/cluster/gateway/mod.rs"]
mod gateway;
#[allow(dead_code, unused_imports)]
#[path = "../../tests/cluster/harness/mod.rs"]
mod harness;
#[allow(dead_code, unused_imports)]
#[path = "../../tests/cluster/operator/mod.rs"]
mod operator;
mod scale;
mod steady;

use std::time::Duration;

use clap::Parser;

/// The most upstreams and chains whose steady state is watched.
const STEADY: (usize, usize) = (1000, 100);

/// What is measured, and of how much.
#[derive(Debug, Parser)]
struct Options {
    /// External upstreams
    #[arg(long, default_value_t = 5000)]
    upstreams: usize,
    /// Chains, each of one plugin
    #[arg(long, default_value_t = 500)]
    chains: usize,
    /// Edits of a plugin under load
    #[arg(long, default_value_t = 100)]
    edits: usize,
    /// Seconds of each of the two measurements of the steady state
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Only this: edits, scale or steady
    #[arg(long)]
    only: Option<String>,
    /// What cargo adds
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
    if wanted("steady") {
        let (upstreams, chains) = (options.upstreams.min(STEADY.0), options.chains.min(STEADY.1));
        steady::measure(upstreams, chains, Duration::from_secs(options.seconds)).await;
    }
}
