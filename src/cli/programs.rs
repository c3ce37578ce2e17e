//! Checks whether the programs of upstreams exist and can be started, and the folders that they are started in. Programs are
//! looked up in the same places as by a gateway that is started in the same environment.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{NamedValue, Plan, TransportPlan, UpstreamPlan, ValueSource};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns a warning for each upstream whose program or folder does not exist, or cannot be used as such. These are not
/// errors, because the gateway could run on another machine.
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
    let why = match command.contains('/') {
        true => match fault(&cwd.join(command))? {
            Fault::Missing => format!("there is no program {command}"),
            Fault::Other(why) => format!("{command} {why}"),
        },
        false => on_path(command, path)?,
    };
    let message = format!("{why}: the server cannot be started here");
    Some(Problem::warning(Reason::FileNotFound, object(), "spec.process.command", message))
}

/// Returns why no folder of PATH has the program; `None` if one has. Files of its name that cannot be started are passed by, as
/// they are when it is started.
fn on_path(command: &str, path: &OsStr) -> Option<String> {
    let mut other = None;
    for folder in std::env::split_paths(path) {
        let file = folder.join(command);
        if let Fault::Other(why) = fault(&file)? {
            other.get_or_insert_with(|| format!("there is no program {command} on PATH: {} {why}", file.display()));
        }
    }
    Some(other.unwrap_or_else(|| format!("there is no program {command} on PATH")))
}

/// Why a file cannot be started as a program.
enum Fault {
    /// There is no such file.
    Missing,
    /// Another reason, as the end of a sentence that begins with the file.
    Other(String),
}

/// Returns why a file cannot be started as a program; `None` if it can.
fn fault(file: &Path) -> Option<Fault> {
    match std::fs::metadata(file) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Some(Fault::Missing),
        Err(error) => Some(Fault::Other(format!("cannot be read ({})", error.kind()))),
        Ok(found) if found.is_dir() => Some(Fault::Other("is a folder, not a program".to_owned())),
        Ok(found) if !found.is_file() => Some(Fault::Other("is no regular file".to_owned())),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => {
            Some(Fault::Other("is not executable (chmod +x makes it so)".to_owned()))
        }
        Ok(_) => None,
    }
}
