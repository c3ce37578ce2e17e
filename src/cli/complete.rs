//! Shell completion, including names that are requested from a running gateway.

use std::ffi::OsStr;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};
use serde_json::Value;

use super::admin::list;
use super::args::{AdminArgs, Args};
use super::output::{print, text};

/// The environment variable with which a shell asks for completions.
const VARIABLE: &str = "HAWSEPIPE_COMPLETE";
/// The program name that is completed.
const PROGRAM: &str = "hawsepipe";
/// How long a completion waits for the gateway.
const DEADLINE: Duration = Duration::from_millis(700);

/// If a shell asks for completions, prints them and ends the process. Otherwise, does nothing.
pub fn answer() {
    CompleteEnv::with_factory(Args::command).var(VARIABLE).bin(PROGRAM).completer(PROGRAM).complete();
}

/// Prints the script that sets up completion in a shell.
pub fn script(shell: Shell) -> anyhow::Result<()> {
    let shells = Shells::builtins();
    let known = shells.completer(&shell.to_string()).with_context(|| format!("{shell} cannot be completed for"))?;
    let mut script = Vec::new();
    known.write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    print(&String::from_utf8_lossy(&script))
}

pub fn tools(current: &OsStr) -> Vec<CompletionCandidate> {
    let named = |tool: &Value| {
        let help = text(&tool["description"]).lines().next().map(str::to_owned);
        let name = tool["name"].as_str()?;
        Some(CompletionCandidate::new(name).help(help.filter(|help| !help.is_empty()).map(Into::into)))
    };
    candidates("/api/v1/tools", current, named)
}

/// Completes names of plugins: NAMESPACE/NAME, or only NAME in the namespace `default`.
pub fn plugins(current: &OsStr) -> Vec<CompletionCandidate> {
    objects("/api/v1/plugins", "plugin", current)
}

/// Completes names of pipelines, as those of plugins.
pub fn pipelines(current: &OsStr) -> Vec<CompletionCandidate> {
    objects("/api/v1/pipelines", "pipeline", current)
}

pub fn runs(current: &OsStr) -> Vec<CompletionCandidate> {
    let named = |run: &Value| {
        let help = format!("{} {}", text(&run["pipeline"]), text(&run["status"]));
        Some(CompletionCandidate::new(run["id"].as_str()?).help(Some(help.into())))
    };
    candidates("/api/v1/runs", current, named)
}

fn objects(path: &str, member: &str, current: &OsStr) -> Vec<CompletionCandidate> {
    let named = |object: &Value| {
        let name = object[member].as_str()?;
        Some(CompletionCandidate::new(name.strip_prefix("default/").unwrap_or(name)))
    };
    candidates(path, current, named)
}

pub fn upstreams(current: &OsStr) -> Vec<CompletionCandidate> {
    candidates("/api/v1/upstreams", current, |upstream| Some(CompletionCandidate::new(upstream["name"].as_str()?)))
}

/// Returns the names in a list of the admin API that begin with `current`, or no names if no gateway answers within
/// [`DEADLINE`].
fn candidates(
    path: &str,
    current: &OsStr,
    named: impl Fn(&Value) -> Option<CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    let begun = current.to_string_lossy();
    let fits = |candidate: &CompletionCandidate| candidate.get_value().to_string_lossy().starts_with(&*begun);
    items(path).unwrap_or_default().iter().filter_map(named).filter(fits).collect()
}

fn items(path: &str) -> anyhow::Result<Vec<Value>> {
    #[derive(Parser)]
    struct AdminAddress {
        #[command(flatten)]
        admin: AdminArgs,
    }
    // Parsing no arguments yields the address in `HAWSEPIPE_ADMIN`, or else the default address.
    let AdminAddress { admin } = AdminAddress::try_parse_from([PROGRAM])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { tokio::time::timeout(DEADLINE, list(&admin, path, &[], usize::MAX)).await })?
}
