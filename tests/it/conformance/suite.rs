//! The suite as a child process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::{checkout, command};

/// How long a set may take; the suite itself ends each scenario after 30 s.
const AT_MOST: Duration = Duration::from_secs(240);

/// Where the suite's package lies.
fn package() -> PathBuf {
    let package = checkout().join("tests/conformance/node_modules/@modelcontextprotocol/conformance");
    assert!(package.exists(), "{} is not there: run `make setup`", package.display());
    package
}

/// A Node that the suite runs on: the one of `make setup`, where the machine's is too old.
fn node() -> PathBuf {
    let own = checkout().join(".cache/node-suite/bin/node");
    if own.exists() { own } else { "node".into() }
}

/// Runs the scenarios that a revision requires against `url`. What they found is below `results`.
pub async fn run(revision: &str, url: &str, results: &Path) {
    let said = run_at(url, &["--requirements", revision], results).await;
    assert!(said.contains("=== SUMMARY ==="), "the suite did not run:\n{said}");
}

/// Runs one of these scenarios. What it found is below `results`.
pub async fn run_one(revision: &str, scenario: &str, url: &str, results: &Path) {
    let said = run_at(url, &["--scenario", scenario, "--spec-version", revision, "--force"], results).await;
    assert!(results.exists(), "{scenario} did not run:\n{said}");
}

async fn run_at(url: &str, what: &[&str], results: &Path) -> String {
    let mut command = command(&node());
    command.arg(package().join("dist/index.js")).args(["server", "--url", url]).args(what);
    command.arg("--output-dir").arg(results).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(AT_MOST, command.output()).await.expect("the suite ends in time").unwrap();
    [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat()
}

/// Runs one scenario of clients: the suite starts `program`, which starts `gateway` and speaks through it. What the
/// scenario found is below `results`.
pub async fn run_client(revision: &str, scenario: &str, program: &Path, gateway: &Path, results: &Path) {
    let mut command = command(&node());
    command.arg(package().join("dist/index.js")).args(["client", "--scenario", scenario, "--spec-version", revision]);
    command.arg("--command").arg(format!("{} client", program.display()));
    command.arg("--output-dir").arg(results).env("HAWSEPIPE_TEST_PROGRAM", gateway);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(AT_MOST, output).await.expect("the scenario ends in time").unwrap();
    assert!(results.exists(), "{scenario} did not run:\n{}", String::from_utf8_lossy(&output.stderr));
}

/// The scenarios of clients that a revision requires.
pub fn of_clients(revision: &str) -> Vec<String> {
    let text = requirements(revision);
    let (_, clients) = text.split_once("\nclient:").expect("the requirements name scenarios of clients");
    let (clients, _) = clients.split_once("\nnot_scored:").expect("the requirements say what is not scored");
    clients.lines().filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
}

fn requirements(revision: &str) -> String {
    std::fs::read_to_string(package().join(format!("requirements/{revision}.yaml"))).unwrap()
}

/// The scenarios of a revision that run without being scored.
pub fn not_scored(revision: &str) -> Vec<String> {
    let text = requirements(revision);
    let (_, unscored) = text.split_once("\nnot_scored:").expect("the requirements say what is not scored");
    unscored.lines().filter_map(|line| line.trim().strip_prefix("- scenario: ")).map(str::to_owned).collect()
}
