//! Finds Node.js and checks that it is new enough.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;

use crate::domain::code_file::is_typescript;

/// The oldest major version of Node.js that plugins run on.
pub const OLDEST: u32 = 20;
/// How long Node.js may take for one report about itself.
const DEADLINE: Duration = Duration::from_secs(5);
/// A script that prints the path of the Node.js executable, its libraries, and the size of its process's data. The
/// script reads `/proc/self/status` asynchronously, because that makes Node.js start the threads that it also starts
/// for every plugin, and the stacks of these threads count as data.
const PARTS: &str = "const { sharedObjects: libraries } = process.report.getReport();
    const told = ({ data = '' }) => {
        const kibibytes = Number(/VmData:\\s*(\\d+)/.exec(data)?.[1] ?? 0);
        process.stdout.write(JSON.stringify({ program: process.execPath, libraries, kibibytes }));
    };
    require('fs').readFile('/proc/self/status', 'utf8', (error, data) => told({ data }))";

/// A Node.js that plugins can run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRuntime {
    /// The path of the program, as Node.js reports it.
    pub program: PathBuf,
    /// The version that Node.js reports, without the `v`.
    pub version: String,
    /// The files of the program and of the libraries that it loads, as Node.js reports them.
    pub files: Vec<PathBuf>,
    /// Bytes of data (`VmData`) that Node.js maps for itself, without any plugin; most of them are never touched. 0 if
    /// the system does not report the number.
    pub data: u64,
}

/// What the Node.js program reports about itself.
#[derive(Deserialize)]
struct NodeProbe {
    program: PathBuf,
    libraries: Vec<PathBuf>,
    kibibytes: u64,
}

/// Why there is no Node.js for plugins to run on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// No search for Node.js has ended yet.
    #[error("Node.js was not looked for yet")]
    NotAsked,
    /// No executable program has this path or name.
    #[error("Node.js was not found: {0} is not a program; name one with `--node PATH` or `nodeExecutable`")]
    NotFound(PathBuf),
    /// The program does not run, or is not Node.js.
    #[error("{program} is not a working Node.js: {what}")]
    NotWorking {
        /// The path of the program.
        program: PathBuf,
        /// What went wrong.
        what: String,
    },
    /// The version does not run TypeScript.
    #[error(
        "Node.js {0} runs no TypeScript: 22.18 or newer does. Or build the code, for example with `npx esbuild FILE.ts \
         --bundle --platform=node --format=esm --outfile=FILE.mjs`, and name the result"
    )]
    NoTypeScript(String),
    /// The version is older than [`OLDEST`].
    #[error("Node.js {version} at {program} is too old: {OLDEST} or newer is needed")]
    TooOld {
        /// The path of the program.
        program: PathBuf,
        /// The version that Node.js reports, without the `v`.
        version: String,
    },
}

impl NodeRuntime {
    /// Checks that this version runs a file with this name. It removes types since 22.18 and 23.6.
    ///
    /// # Errors
    /// If the file contains TypeScript, and the version is older.
    pub(super) fn check_runs(&self, file_name: &str) -> Result<(), NodeError> {
        let mut parts = self.version.split('.').map_while(|part| part.parse::<u32>().ok());
        let version = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let removes_types = ((22, 18)..(23, 0)).contains(&version) || version >= (23, 6);
        let runs = removes_types || !is_typescript(file_name);
        if runs { Ok(()) } else { Err(NodeError::NoTypeScript(self.version.clone())) }
    }
}

/// Finds the program `name`, which is a path or a name to look up in PATH, and determines its version and its files. If
/// the program is a wrapper, such as one of a version manager, the result names the actual Node.js.
///
/// # Errors
/// If there is no such program, it does not run, or it is too old.
pub async fn find_node(name: &Path) -> Result<NodeRuntime, NodeError> {
    let program = resolve(name).ok_or_else(|| NodeError::NotFound(name.to_owned()))?;
    let broken = |what: String| NodeError::NotWorking { program: program.clone(), what };
    let text = ask(&program, &["--version"]).await.map_err(broken)?;
    let version = text.trim().strip_prefix('v').unwrap_or_default().to_owned();
    let Some(major) = version.split('.').next().and_then(|major| major.parse::<u32>().ok()) else {
        return Err(broken("it does not print a version".into()));
    };
    if major < OLDEST {
        return Err(NodeError::TooOld { program, version });
    }
    let text = ask(&program, &["-e", PARTS]).await.map_err(broken)?;
    let Ok(NodeProbe { program, mut libraries, kibibytes }) = serde_json::from_str(&text) else {
        return Err(broken("it does not say what it consists of".into()));
    };
    libraries.push(program.clone());
    Ok(NodeRuntime { program, version, files: libraries, data: kibibytes * 1024 })
}

/// Runs the program with these arguments. Returns its standard output, or a description of what went wrong.
pub(super) async fn ask(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    answer(command, arguments[0]).await
}

/// Runs a command that asks a program for `what`. Returns its standard output, or a description of what went wrong.
pub(super) async fn answer(mut command: Command, what: &str) -> Result<String, String> {
    match tokio::time::timeout(DEADLINE, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Ok(output)) => Err(format!("asked for {what}, it ends with {}", output.status)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("asked for {what}, it does not answer within {DEADLINE:?}")),
    }
}

/// Returns the path of a program, which is given as a path or as a name to look up in PATH.
pub(super) fn resolve(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return is_program(name).then(|| name.to_owned());
    }
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typescript_runs_on_versions_that_remove_types() {
        for (version, runs) in [
            ("20.20.2", false),
            ("22.17.1", false),
            ("22.18.0", true),
            ("23.5.0", false),
            ("23.6.0", true),
            ("24.1.0", true),
        ] {
            let node = NodeRuntime { program: "node".into(), version: version.into(), files: Vec::new(), data: 0 };
            assert_eq!(node.check_runs("p.mts").is_ok(), runs, "{version}");
            assert!(node.check_runs("p.mjs").is_ok());
        }
    }

    #[test]
    fn a_name_is_looked_up_in_path_and_a_path_is_taken_as_it_is() {
        let shell = resolve(Path::new("sh")).unwrap();
        assert!(shell.is_absolute() && shell.ends_with("sh"), "{shell:?}");
        assert_eq!(resolve(&shell), Some(shell));
        for name in ["no-such-program", "./sh", "/", "/etc/passwd"] {
            assert_eq!(resolve(Path::new(name)), None, "{name}");
        }
    }
}
