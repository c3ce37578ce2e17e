//! Which Node.js there is, and whether it is new enough.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// The oldest major version that plugins run on.
pub const OLDEST: u32 = 20;
/// How long `node --version` may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// A Node.js that plugins can run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its program, absolute where PATH resolved it.
    pub program: PathBuf,
    /// As it says itself, without the `v`.
    pub version: String,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// Nobody has looked for it yet.
    #[error("Node.js was not looked for yet")]
    NotAsked,
    /// No such program.
    #[error("Node.js was not found: {0} is no program; name one with `--node PATH` or `nodeExecutable`")]
    NotFound(PathBuf),
    /// It does not run, or is no Node.js.
    #[error("{program} is not a working Node.js: {what}")]
    NotWorking {
        /// The program.
        program: PathBuf,
        /// What it did.
        what: String,
    },
    /// Older than [`OLDEST`].
    #[error("Node.js {version} at {program} is too old: {OLDEST} or newer is needed")]
    TooOld {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: String,
    },
}

/// Finds the program that `name` means, a path or a name that PATH resolves, and asks it for its version.
///
/// # Errors
/// Where there is no such program, it does not run, or it is too old.
pub async fn find_node(name: &Path) -> Result<Node, NodeError> {
    let program = resolve(name).ok_or_else(|| NodeError::NotFound(name.to_owned()))?;
    let broken = |what: String| NodeError::NotWorking { program: program.clone(), what };
    let asked = Command::new(&program)
        .arg("--version")
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match tokio::time::timeout(DEADLINE, asked).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(broken(error.to_string())),
        Err(_) => return Err(broken(format!("no answer to --version within {DEADLINE:?}"))),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(version) = text.trim().strip_prefix('v').filter(|_| output.status.success()) else {
        return Err(broken("it does not print a version".into()));
    };
    let version = version.to_owned();
    let Some(major) = version.split('.').next().and_then(|major| major.parse::<u32>().ok()) else {
        return Err(broken("it does not print a version".into()));
    };
    if major < OLDEST {
        return Err(NodeError::TooOld { program, version });
    }
    Ok(Node { program, version })
}

fn resolve(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return is_program(name).then(|| name.to_owned());
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
