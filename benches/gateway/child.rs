//! Child processes, which never outlive the run, and folders for their files.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Uri;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long a child can take to end after SIGTERM: a gateway's calls have a second, their last answers another one, and its
/// workers and upstreams ten.
const PATIENCE: Duration = Duration::from_secs(15);

/// A child in its own process group. Dropping it sends SIGTERM to the child, and then SIGKILL to the whole group.
pub struct Child {
    name: &'static str,
    inner: std::process::Child,
}

impl Child {
    /// Starts `command`.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let inner = command.process_group(0).spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Self { name, inner })
    }

    /// Starts this program in another role. The role ends when its standard input is closed, and so when this process
    /// ends.
    pub fn start_role(name: &'static str, words: &[&str]) -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        Self::start(name, command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()))
    }

    /// Reads the port that a role listens on from its standard output.
    pub fn port(&mut self) -> Result<u16> {
        let output = self.inner.stdout.take().context("its output is not piped")?;
        let mut line = String::new();
        BufReader::new(output.take(64)).read_line(&mut line)?;
        line.trim().parse().with_context(|| format!("{} said {line:?} instead of its port", self.name))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Checks that the child still runs.
    ///
    /// # Errors
    /// If the child has ended.
    pub fn check(&self) -> Result<()> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        ensure!(!state.starts_with('Z'), "{} has ended; what it said stands above", self.name);
        Ok(())
    }

    fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if let Ok(Some(status)) = self.inner.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.inner);
        // A signal can only fail if the process is already gone.
        let _ = kill_process(pid, Signal::TERM);
        if self.ended_within(PATIENCE).is_none() {
            eprintln!("{} did not end on SIGTERM", self.name);
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = self.inner.wait();
        } else {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// Binds a port for a role, and prints it for the parent.
pub async fn announce() -> Result<tokio::net::TcpListener> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?.port());
    Ok(listener)
}

/// Waits until standard input is closed, which means that the parent is gone.
pub async fn orphaned() {
    let wait = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
    let _ = wait.await;
}

/// Returns a port that is free at this moment, for programs that cannot report which one they chose.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Returns the URL of an MCP endpoint at a port of this machine.
pub fn endpoint(port: u16) -> Result<Uri> {
    Ok(format!("http://127.0.0.1:{port}/mcp").parse()?)
}

/// A temporary folder for a part of this run. Dropping it removes the folder.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder in Cargo's folder for temporary files.
    pub fn new(part: &str) -> Result<Self> {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{part}-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes `text` to a file in the folder and returns its path.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
