//! Measures the gateway against direct calls, a bare hop and a peer, in one run.
//!
//! Upstream, hop and echo run in their own processes: this program starts itself again in another role.

mod aims;
mod cells;
mod child;
mod client;
mod edits;
mod floor;
mod gateway;
mod history;
mod hop;
mod hostile;
mod hostile_upstream;
mod idle;
mod issuer;
mod lists;
mod load;
mod matrix;
mod options;
mod peer;
mod pipelines;
mod procfs;
mod report;
mod ruled_lists;
mod runtime;
mod system;
mod systems;
mod tables;
mod upstream;

use std::fs;

use anyhow::{Context, Result};
use clap::Parser;

use matrix::Results;
use options::{Options, Part, Role};
use report::{Measurements, Report};

fn main() -> Result<()> {
    let options = Options::parse();
    match options.role {
        None => bench(&options),
        Some(Role::ServeUpstream { legacy_only, tools }) => {
            tokio_with(1)?.block_on(upstream::serve(legacy_only, tools))
        }
        Some(Role::ServeHostile) => tokio_with(1)?.block_on(hostile_upstream::serve()),
        // Like the gateway, the hop has one thread for each core.
        Some(Role::ServeHop { upstream }) => tokio_with(0)?.block_on(hop::serve(upstream)),
        Some(Role::EchoFrames) => floor::echo(),
    }
}

/// Makes a runtime with one thread, or with one for each core if `threads` is 0.
fn tokio_with(threads: usize) -> Result<tokio::runtime::Runtime> {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_all().build().context("no runtime")
}

/// Measures the requested parts and prints the results. Plugins are measured first, while nothing else runs, and in a
/// runtime with as many threads as the gateway's.
fn bench(options: &Options) -> Result<()> {
    let plugins = match options.wants(Part::Plugins) {
        true => Some(tokio_with(0)?.block_on(until_signal(runtime::run(options)))?),
        false => None,
    };
    let measured = tokio_with(1)?.block_on(until_signal(measure(options)))?;
    let report = Report::new(measured, plugins);
    print!("{}", tables::render(&report));
    if let Some(file) = &options.json {
        let text = serde_json::to_string_pretty(&report)?;
        fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    let worse: Vec<_> = report.ratios.iter().filter(|ratio| ratio.is_worse() && !options.quick).collect();
    for ratio in &worse {
        let recorded = ratio.recorded.unwrap_or_default();
        eprintln!("{} bytes, {}: {:.2}, more than a tenth above {recorded}", ratio.size, ratio.what, ratio.ratio);
    }
    anyhow::ensure!(worse.is_empty(), "calls cost more than docs/benchmarks.md says: measure again, then find out why");
    anyhow::ensure!(report.errors == 0, "{} calls failed or were wrong: the figures do not count", report.errors);
    Ok(())
}

/// Runs `work` until it ends or a signal arrives. Either way `work` is dropped, which ends its child processes.
async fn until_signal<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("terminated"),
    }
}

/// Measures the requested parts that need a gateway, one after another. The edits come first.
async fn measure(options: &Options) -> Result<Measurements> {
    Ok(Measurements {
        edits: if options.wants(Part::Edits) { Some(edits::run(options).await?) } else { None },
        lists: if options.wants(Part::Lists) { Some(lists::run(options).await?) } else { None },
        ruled_lists: if options.wants(Part::RuledLists) { Some(ruled_lists::run(options).await?) } else { None },
        hostile: if options.wants(Part::Hostile) { Some(hostile::run(options).await?) } else { None },
        idle: if options.wants(Part::Idle) { Some(idle::run().await?) } else { None },
        history: if options.wants(Part::History) { Some(history::run().await?) } else { None },
        pipelines: if options.wants(Part::Pipelines) { Some(pipelines::run(options).await?) } else { None },
        results: if options.wants_matrix() { matrix::run(options).await? } else { Results::default() },
    })
}
