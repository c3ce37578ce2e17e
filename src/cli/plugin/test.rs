//! The command `hawsepipe plugin test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use tokio::process::Command;

use super::args::TestArgs;
use crate::domain::code_file::is_code;
use crate::node::{Inspector, Launcher, find_node};
use crate::source::{Directory, DirectorySettings};

/// The environment variable with the path of this program, for tests.
const PROGRAM: &str = "HAWSEPIPE_PROGRAM";

/// Runs the tests of a folder with the Node.js of its gateway. Exit code 1 if a test fails.
///
/// # Errors
/// If there is no test, or no Node.js to run it.
pub async fn test(args: TestArgs) -> anyhow::Result<ExitCode> {
    fs::metadata(&args.dir).with_context(|| format!("cannot read {}", args.dir.display()))?;
    let mut tests = Vec::new();
    find_tests(&args.dir, &mut tests)?;
    if tests.is_empty() {
        bail!(
            "there is no test in {}: a test is a file such as plugins/NAME.test.mjs, and `hawsepipe plugin new` writes one",
            args.dir.display()
        );
    }
    tests.sort();
    let node = find_node(&node(args).await?).await?.program;
    let mut command = Command::new(&node);
    command.args(["--test", "--test-reporter=spec"]).args(tests);
    // With the variable of an outer `node --test`, this one would run no test and succeed.
    command.env(PROGRAM, std::env::current_exe()?).env_remove("NODE_TEST_CONTEXT").kill_on_drop(true);
    let status = command.status().await.with_context(|| format!("cannot run {}", node.display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the Node.js of the command line, or that of the gateway of the folder's manifests.
async fn node(args: TestArgs) -> anyhow::Result<PathBuf> {
    if let Some(node) = args.node {
        return Ok(node);
    }
    let settings = DirectorySettings { paths: vec![args.dir], gateway: None, secrets_dir: None, node: None };
    let read = Directory::new(settings, Inspector::new(Launcher::current()?)).read(None).await;
    let read = read.context("the manifests do not tell which Node.js to use: set --node")?;
    Ok(read.plan.gateway.runtime.node_executable)
}

/// Adds the tests below a path, or the path itself if it is one. Links to folders are not followed.
fn find_tests(path: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !path.is_dir() {
        let stem = path.file_stem().map(Path::new);
        if is_code(path) && stem.is_some_and(|stem| stem.extension().is_some_and(|ending| ending == "test")) {
            found.push(path.to_owned());
        }
        return Ok(());
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read the folder {}", path.display()))?;
    for entry in entries {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let is_hidden = name == "node_modules" || name.as_encoded_bytes().starts_with(b".");
        let is_linked_folder = entry.file_type()?.is_symlink() && path.is_dir();
        if !is_hidden && !is_linked_folder {
            find_tests(&path, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_below_a_folder() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-test-{}", uuid::Uuid::new_v4().simple()));
        for place in ["a/b", "node_modules/c", ".d"] {
            fs::create_dir_all(folder.join(place)).unwrap();
            fs::write(folder.join(place).join("x.test.mjs"), "").unwrap();
        }
        for file in ["a.test.ts", "a.mjs", "test.mjs", "a.test.txt", "a/latest.js"] {
            fs::write(folder.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink(&folder, folder.join("a/again")).unwrap();
        let found = |path: &str| {
            let mut found = Vec::new();
            find_tests(&folder.join(path), &mut found).unwrap();
            found.sort();
            found.iter().map(|file| file.strip_prefix(&folder).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found(""), ["a/b/x.test.mjs", "a.test.ts"]);
        assert_eq!((found("a.test.ts"), found("a.mjs")), (vec!["a.test.ts".to_owned()], vec![]));
        fs::remove_dir_all(folder).unwrap();
    }
}
