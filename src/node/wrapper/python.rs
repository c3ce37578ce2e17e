//! Finds the files of a Python. A shim of a version manager is followed, and a Python of a virtual environment keeps its packages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::program::Program;
use crate::node::discovery::{answer, ask};
use crate::node::launcher::{Launcher, Stdin};
use crate::node::sandbox::Confinement;

/// Prints the program and the folders of its library. Without the module `site` (`-S`), no code of packages runs.
const PARTS: &str = "import json, sys; print(json.dumps({'program': sys.executable, 'prefixes': [sys.base_prefix, \
                     sys.base_exec_prefix], 'path': sys.path}))";
/// The same with the module `site`, which adds the folders of packages. Code of packages can run meanwhile (`.pth` files).
const PACKAGES: &str = "import json, sys; print(json.dumps({'program': sys.executable, 'prefixes': [sys.prefix, \
                        sys.exec_prefix], 'path': sys.path}))";
/// The memory of a Python that lists its parts, in bytes.
const MEMORY: u64 = 256 << 20;
/// Prefixes below which there is more than a Python.
const SHARED: [&str; 4] = ["/", "/usr", "/usr/local", "/opt"];

/// The parts of a Python, as it lists them.
#[derive(Deserialize)]
struct Parts {
    program: PathBuf,
    prefixes: Vec<PathBuf>,
    path: Vec<PathBuf>,
}

impl Parts {
    /// Returns the folders that Python reads: its own, and those of its packages.
    fn folders(&self) -> BTreeSet<PathBuf> {
        let own =
            self.prefixes.iter().filter(|prefix| SHARED.iter().all(|shared| prefix.as_path() != Path::new(shared)));
        own.chain(&self.path).filter(|path| path.is_absolute()).cloned().collect()
    }
}

/// Whether the program is a Python, by its name.
pub(super) fn is_python(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
}

/// Returns the program of a Python and the folders that it reads.
///
/// # Errors
/// If it does not list its parts.
pub(super) async fn find(launcher: &Launcher, program: &Path) -> Result<Program, String> {
    let parts: Parts = read(&ask(program, &["-I", "-S", "-c", PARTS]).await?)?;
    let mut readable = parts.folders();
    readable.extend(environment(&parts.program));
    let own = Program::new(parts.program, readable.iter().cloned().collect());
    let confinement = Confinement {
        data: MEMORY,
        programs: own.files.clone(),
        readable: own.readable.clone(),
        parent: std::process::id(),
        ..Confinement::default()
    };
    let command = launcher.command(Stdin::Pipe, &confinement, &own.path, &[]).map_err(|error| error.to_string())?;
    let mut command = tokio::process::Command::from(command);
    command.args(["-I", "-c", PACKAGES]).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let parts: Parts = read(&answer(command, "its packages").await?)?;
    readable.extend(parts.folders());
    Ok(Program::new(own.path, readable.into_iter().collect()))
}

/// Returns the folder of the virtual environment that a Python belongs to (PEP 405).
fn environment(program: &Path) -> Option<PathBuf> {
    program.ancestors().skip(1).take(2).find(|folder| folder.join("pyvenv.cfg").is_file()).map(Path::to_owned)
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|_| "it does not list its parts".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_system_are_not_those_of_a_python() {
        let parts = |prefix: &str, path: &[&str]| Parts {
            program: "/x".into(),
            prefixes: vec![prefix.into()],
            path: path.iter().map(PathBuf::from).collect(),
        };
        let folders = |parts: Parts| parts.folders().into_iter().map(|it| it.display().to_string()).collect::<Vec<_>>();
        let system = parts("/usr", &["/usr/lib/python311.zip", "/usr/lib/python3.11", ""]);
        assert_eq!(folders(system), ["/usr/lib/python3.11", "/usr/lib/python311.zip"]);
        assert_eq!(folders(parts("/opt/python", &[])), ["/opt/python"]);
    }

    #[test]
    fn a_python_is_known_by_its_name() {
        for (program, expected) in [("/usr/bin/python3", true), ("/a/python3.12", true), ("/usr/bin/ruby", false)] {
            assert_eq!(is_python(Path::new(program)), expected, "{program}");
        }
    }
}
