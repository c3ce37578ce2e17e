//! What the sandbox adds to the cold start of a worker: Node.js started plainly, and the same through `hawsepipe sandbox`
//! as the gateway does it, in turn, on an empty script.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use hawsepipe::node::launcher::Stdin;
use hawsepipe::node::sandbox::Confinement;
use hawsepipe::node::{Launcher, Node, find_node};

/// What the sandboxed start may take, in plain ones.
const TARGET: f64 = 1.2;
/// Flags that the gateway gives to a worker; the plain start gets them too.
const FLAGS: [&str; 3] = ["--single-threaded-gc", "--no-addons", "--max-old-space-size=224"];

/// Measure the cold start of a worker with and without its sandbox.
#[derive(Parser)]
struct Options {
    /// Starts of each kind
    #[arg(long, default_value_t = 100)]
    starts: usize,
    /// Node.js
    #[arg(long, default_value = "node")]
    node: std::path::PathBuf,
    /// What `cargo bench` says to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let node = runtime.block_on(find_node(&options.node))?;
    let script = std::env::temp_dir().join(format!("hawsepipe-cold-{}.cjs", std::process::id()));
    std::fs::write(&script, "")?;
    let measured = measure(&node, &script, options.starts);
    std::fs::remove_file(&script)?;
    let (plain, sandboxed) = measured?;
    let ratio = sandboxed / plain;
    println!("Node.js {}, medians of {} starts in milliseconds", node.version, options.starts);
    println!("plain {plain:.1}, sandboxed {sandboxed:.1}: {ratio:.3} times, of at most {TARGET}");
    Ok(())
}

/// Medians in milliseconds. Both kinds take turns, so that what else the machine does hits both alike.
fn measure(node: &Node, script: &Path, starts: usize) -> Result<(f64, f64)> {
    let readable = vec![script.to_owned()];
    let data = (256 << 20) + node.data;
    let confinement = Confinement { required: true, data, programs: node.files.clone(), readable };
    let launcher = Launcher::at(env!("CARGO_BIN_EXE_hawsepipe"));
    let (mut plain, mut sandboxed) = (Vec::new(), Vec::new());
    for _ in 0..starts {
        plain.push(time(Command::new(&node.program).env_clear(), script)?);
        sandboxed.push(time(&mut launcher.command(Stdin::Pipe, &confinement, &node.program, &[])?, script)?);
    }
    Ok((median(plain), median(sandboxed)))
}

fn time(command: &mut Command, script: &Path) -> Result<f64> {
    let began = Instant::now();
    let ended = command.args(FLAGS).arg(script).stdin(Stdio::null()).output().context("it does not start")?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Ok(began.elapsed().as_secs_f64() * 1000.0)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
