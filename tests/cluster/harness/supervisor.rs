//! Programs that end with the test process, even when that is killed: a shell runs them, and ends them when the pipe
//! to it closes.

use std::fs::{DirBuilder, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use super::checkout;

/// A shell that runs programs in a folder of its own. Dropped, it has killed them and removed the folder.
pub struct Supervisor {
    folder: PathBuf,
    shell: Child,
    /// What it is told and what it answers; taken out to close it.
    line: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Supervisor {
    /// Starts the shell in a new folder that only this user can read.
    ///
    /// # Errors
    /// If the folder cannot be made or there is no bash.
    pub fn start() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(super::unique("hawsepipe-k8s"));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let mut shell = Command::new("bash")
            .arg(checkout().join("tests/cluster/harness/supervise.sh"))
            .arg(&folder)
            // A group of its own: Ctrl-C ends the tests, and only then the shell, in order.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("supervisor.log"))?)
            .spawn()?;
        let line = shell.stdin.take().zip(shell.stdout.take().map(BufReader::new));
        Ok(Self { folder, shell, line: Mutex::new(line) })
    }

    /// The folder in which the programs run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes what `start` runs as `name`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn define(&self, name: &str, program: &Path, arguments: &[String]) -> io::Result<()> {
        let mut script = format!("exec {}", quoted(&program.to_string_lossy()));
        for argument in arguments {
            script.push_str(" \\\n    ");
            script.push_str(&quoted(argument));
        }
        std::fs::write(self.folder.join(format!("{name}.sh")), script + "\n")
    }

    /// Runs it, and says under which process id.
    ///
    /// # Errors
    /// If the shell has ended.
    pub fn run(&self, name: &str) -> io::Result<Option<u32>> {
        self.order(&format!("start {name}"))
    }

    /// Sends it a signal, such as `STOP`; `0` only asks. None where it does not run.
    ///
    /// # Errors
    /// If the shell has ended.
    pub fn signal(&self, name: &str, signal: &str) -> io::Result<Option<u32>> {
        self.order(&format!("signal {name} {signal}"))
    }

    /// Kills it and waits until it is gone.
    ///
    /// # Errors
    /// If the shell has ended.
    pub fn kill(&self, name: &str) -> io::Result<Option<u32>> {
        self.order(&format!("kill {name}"))
    }

    /// The last lines that it wrote.
    pub fn last_words(&self, name: &str) -> String {
        let log = std::fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    fn order(&self, order: &str) -> io::Result<Option<u32>> {
        let mut line = self.line.lock().map_err(|_| io::Error::other("a test failed while it gave an order"))?;
        let (orders, answers) = line.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        Ok(answer.trim().parse().ok())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Ok(mut line) = self.line.lock() {
            line.take();
        }
        let _ = self.shell.wait();
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
