//! Checks whether the programs of upstreams exist, and the folders that they are started in. Programs are looked up in the same
//! places as by a gateway that is started in the same environment.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{NamedValue, Plan, TransportPlan, UpstreamPlan, ValueSource};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns a warning for each upstream whose program or folder does not exist. These are not errors, because the gateway could
/// run on another machine.
pub fn missing(plan: &Plan) -> Vec<Problem> {
    let enabled = plan.upstreams.iter().filter(|upstream| upstream.enabled && upstream.refusing.is_none());
    enabled.filter_map(check).collect()
}

fn check(upstream: &UpstreamPlan) -> Option<Problem> {
    let TransportPlan::Process { command, cwd, env, .. } = &upstream.transport else { return None };
    let own = std::env::var_os("PATH").unwrap_or_default();
    let path = match env.iter().find(|variable| variable.name == "PATH") {
        None => own.as_os_str(),
        Some(NamedValue { value: ValueSource::Literal(path), .. }) => OsStr::new(path),
        // The value of PATH is in a Secret or in another variable, neither of which is read here.
        Some(_) => return None,
    };
    let object = || ObjectId::new(Kind::MCPUpstream, upstream.key.clone());
    // The folder of manifests is empty where it is the current one.
    if !cwd.as_os_str().is_empty() && !cwd.is_dir() {
        let message = format!("there is no folder {}: the server cannot be started here", cwd.display());
        return Some(Problem::warning(Reason::FileNotFound, object(), "spec.process.cwd", message));
    }
    let (found, place) = match command.contains('/') {
        true => (is_program(&cwd.join(command)), ""),
        false => (std::env::split_paths(path).any(|folder| is_program(&folder.join(command))), " on PATH"),
    };
    let message = || format!("there is no program {command}{place}: the server cannot be started here");
    (!found).then(|| Problem::warning(Reason::FileNotFound, object(), "spec.process.command", message()))
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
