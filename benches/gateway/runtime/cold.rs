//! Measures a process that is started for one call, without the gateway: a plain one, and one in the sandbox.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hawsepipe::node::launcher::Stdin;
use hawsepipe::node::sandbox::Confinement;
use hawsepipe::node::{Launcher, NodeRuntime};

use super::plugins::{ONCE, input};
use crate::child::Scratch;
use crate::gateway::BINARY;
use crate::procfs::tree_cpu_seconds;

/// The Node.js flags of the gateway's workers. Plain processes get them too.
const FLAGS: [&str; 2] = ["--no-addons", "--max-old-space-size=224"];

/// Starts processes that each serve one call.
pub struct Cold {
    node: NodeRuntime,
    launcher: Launcher,
    script: PathBuf,
    _folder: Scratch,
}

impl Cold {
    /// Writes the script into a new folder.
    pub fn new(node: NodeRuntime) -> Result<Self> {
        let folder = Scratch::new("plugins")?;
        let script = folder.path().join("plugin.cjs");
        std::fs::write(&script, ONCE)?;
        Ok(Self { node, launcher: Launcher::at(BINARY), script, _folder: folder })
    }

    /// Returns the microseconds from the start of a plain process until it has ended and its answer was read.
    pub fn plain(&self, text: &str) -> Result<f64> {
        let mut command = Command::new(&self.node.program);
        command.env_clear();
        serve(command, &self.script, text)
    }

    /// Measures the same for a process in the sandbox.
    pub fn sandboxed(&self, text: &str) -> Result<f64> {
        let confinement = Confinement {
            required: true,
            data: (256 << 20) + self.node.data,
            programs: self.node.files.clone(),
            readable: vec![self.script.clone()],
            parent: 0,
        };
        let command = self.launcher.command(Stdin::Pipe, &confinement, &self.node.program, &[])?;
        serve(command, &self.script, text)
    }
}

/// Returns the CPU seconds of this process, its descendants, and the children that it has waited for.
pub fn cpu_seconds() -> Result<f64> {
    tree_cpu_seconds(std::process::id()).context("the system does not say how much CPU time was used")
}

fn serve(mut command: Command, script: &Path, text: &str) -> Result<f64> {
    let sent = serde_json::to_vec(&input(text))?;
    let began = Instant::now();
    let mut child = command.args(FLAGS).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("no pipe")?;
    // A thread writes the input, so that both sides cannot block each other with full pipes.
    let writing = std::thread::spawn(move || stdin.write_all(&sent));
    let ended = child.wait_with_output()?;
    let took = began.elapsed().as_secs_f64() * 1e6;
    ensure!(writing.join().is_ok_and(|written| written.is_ok()), "it does not read its input");
    ensure!(ended.status.success() && ended.stdout.len() > text.len(), "it gives no answer: {}", ended.status);
    Ok(took)
}
