//! The state that `hawsepipe run` stores for the next run.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

use super::args::RunArgs;
use super::serve::Gateway;
use crate::domain::digest::sha256_hex;
use crate::domain::kept_form::KeptForm;
use crate::domain::plan::{FORMAT_VERSION, Plan};
use crate::domain::seen::SeenNames;
use crate::source::{StateFile, StateFolder};
use crate::transport::{GatewayMark, ServerLauncher};

/// The file with the names of all tools that upstreams ever listed.
const SEEN_NAMES: StateFile = StateFile { name: "seen-names", max_bytes: 4 << 20 };
/// The file with the last loaded form of each plugin, including its code.
const LOADED_PLUGINS: StateFile = StateFile { name: "loaded-plugins", max_bytes: 64 << 20 };
/// The file with the plan that was last in force. It has no secrets.
const LAST_PLAN: StateFile = StateFile { name: "last-plan", max_bytes: 256 << 20 };
/// The shortest time between two writes of a file.
const PAUSE: Duration = Duration::from_secs(1);

/// Returns the state folder for a command line.
///
/// # Errors
/// See [`check_folder`].
pub fn folder(args: &RunArgs) -> anyhow::Result<Arc<StateFolder>> {
    check_folder(args.state_dir.as_deref())?;
    let default = || default_folder(args, std::env::var_os("XDG_STATE_HOME").as_deref(), std::env::home_dir());
    Ok(Arc::new(StateFolder::at(args.state_dir.clone().or_else(default))))
}

/// Checks that `--state-dir` is a folder, or creates it.
///
/// # Errors
/// If the path, or one of its parents, is a file, which the error names, or the folder cannot be created.
pub fn check_folder(written: Option<&Path>) -> anyhow::Result<()> {
    let Some(written) = written else { return Ok(()) };
    match written.ancestors().find(|path| path.exists()) {
        Some(there) if !there.is_dir() => {
            bail!("--state-dir {}: {} is not a folder", written.display(), there.display())
        }
        _ => DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(written)
            .with_context(|| format!("--state-dir {}: it cannot be created", written.display())),
    }
}

/// Returns the default state folder for these manifests and this gateway. The folder is below the user's state folder
/// (XDG Base Directory Specification: a path that is not absolute counts as not set). Returns `None` if the user has no
/// such folder.
fn default_folder(args: &RunArgs, state_home: Option<&OsStr>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let below_home = || Some(absolute(home?)?.join(".local/state"));
    let base = state_home.map(PathBuf::from).and_then(absolute).or_else(below_home)?;
    let mut identity = Vec::new();
    for path in &args.source.files {
        let canonical = path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.clone());
        identity.extend_from_slice(canonical.as_os_str().as_encoded_bytes());
        identity.push(0);
    }
    identity.extend_from_slice(args.source.options.gateway.as_deref().unwrap_or_default().as_bytes());
    Some(base.join("hawsepipe").join(&sha256_hex(&identity)[..32]))
}

/// Ends the processes that servers of a killed gateway with this state folder left. Returns the launcher for the servers
/// of this gateway.
pub async fn launcher(state: &StateFolder) -> ServerLauncher {
    let mark = state.id().and_then(|id| GatewayMark::new(&id));
    if let Some(mark) = &mark {
        let processes = mark.end_left_behind().await;
        if processes > 0 {
            tracing::warn!(processes, "ended what servers of a killed gateway with this state folder had started");
        }
    }
    ServerLauncher::current().with_mark(mark)
}

/// Gives the stored names of tools to the engine, and from now on stores the names whenever the engine has new ones.
pub fn keep_seen_names(engine: &Gateway, state: &Arc<StateFolder>) {
    if let Some(seen) = state.read::<SeenNames>(SEEN_NAMES) {
        engine.in_force.merge_seen_names(&seen);
    }
    let (mut names, state) = (engine.in_force.seen_names(), Arc::clone(state));
    tokio::spawn(async move {
        while names.changed().await.is_ok() {
            let (seen, state) = (Arc::clone(&names.borrow_and_update()), Arc::clone(&state));
            let _ = tokio::task::spawn_blocking(move || state.write(SEEN_NAMES, &*seen)).await;
            tokio::time::sleep(PAUSE).await;
        }
    });
}

/// Gives the stored forms of plugins to the engine, and from now on stores the forms that the engine has loaded. If the
/// newest form of a plugin cannot be loaded, the plugin's last loaded form runs, even after a restart.
pub fn keep_loaded_plugins(engine: &Gateway, state: &Arc<StateFolder>) {
    if let Some(kept) = state.read::<Vec<KeptForm>>(LOADED_PLUGINS) {
        engine.applier.restore_forms(kept);
    }
    let (mut changes, engine, state) = (engine.applier.forms_changed(), Arc::downgrade(engine), Arc::clone(state));
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            let Some(kept) = engine.upgrade().map(|engine| engine.applier.kept_forms()) else { return };
            let state = Arc::clone(&state);
            let _ = tokio::task::spawn_blocking(move || state.write(LOADED_PLUGINS, &kept)).await;
            tokio::time::sleep(PAUSE).await;
        }
    });
}

/// Returns the plan that an earlier process had in force last.
pub fn last_plan(state: &StateFolder) -> Option<Plan> {
    state.read::<Plan>(LAST_PLAN).filter(|plan| plan.format_version == FORMAT_VERSION)
}

/// From now on stores each plan that comes into force. Objects that are invalid at the next start keep the forms that they have in
/// it.
pub fn keep_plans(engine: &Gateway, state: &Arc<StateFolder>) {
    let (mut plans, engine, state) = (engine.in_force.plans(), Arc::downgrade(engine), Arc::clone(state));
    tokio::spawn(async move {
        let mut stored = String::new();
        while plans.changed().await.is_ok() {
            let Some(plan) = engine.upgrade().map(|engine| Arc::clone(engine.in_force.snapshot().plan())) else {
                return;
            };
            if plan.revision != stored {
                stored.clone_from(&plan.revision);
                let state = Arc::clone(&state);
                let _ = tokio::task::spawn_blocking(move || state.write(LAST_PLAN, &*plan)).await;
                tokio::time::sleep(PAUSE).await;
            }
        }
    });
}

/// Stores the plan in force one last time, when the gateway ends.
pub fn write_plan(engine: &Gateway, state: &StateFolder) {
    let snapshot = engine.in_force.snapshot();
    if !snapshot.plan().revision.is_empty() {
        state.write(LAST_PLAN, &**snapshot.plan());
    }
}

/// Stores the loaded forms of plugins one last time, when the gateway ends.
pub fn write_loaded_plugins(engine: &Gateway, state: &StateFolder) {
    state.write(LOADED_PLUGINS, &engine.applier.kept_forms());
}

/// Stores the names of tools one last time, when the gateway ends.
pub fn write_seen_names(engine: &Gateway, state: &StateFolder) {
    state.write(SEEN_NAMES, &**engine.in_force.seen_names().borrow());
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::{Args, Command};
    use super::*;

    fn default_of(arguments: &[&str], state_home: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
        let args = Args::try_parse_from([&["hawsepipe", "run"], arguments].concat()).unwrap();
        let Command::Run(run) = args.command else { unreachable!() };
        default_folder(&run, state_home.map(OsStr::new), home.map(PathBuf::from))
    }

    #[test]
    fn a_state_folder_that_cannot_be_created_is_an_error_at_the_start() {
        let error = check_folder(Some(Path::new("/proc/hawsepipe"))).unwrap_err();
        assert!(error.to_string().starts_with("--state-dir /proc/hawsepipe: "), "{error:#}");
    }

    #[test]
    fn each_set_of_manifests_has_a_state_folder_of_its_own() {
        let of = |arguments: &[&str]| default_of(arguments, Some("/state"), Some("/home/me")).unwrap();
        let tmp = of(&["-f", "/tmp"]);
        assert!(tmp.starts_with("/state/hawsepipe") && tmp == of(&["-f", "/tmp/../tmp/."]), "{}", tmp.display());
        for other in [&["-f", "/"][..], &["-f", "/tmp", "-f", "/"], &["-f", "/tmp", "--gateway", "b"]] {
            assert_ne!(of(other), tmp, "{other:?}");
        }
    }

    #[test]
    fn the_state_folder_is_below_the_home_folder_where_the_environment_names_no_other() {
        let parent = |state_home, home| Some(default_of(&["-f", "/tmp"], state_home, home)?.parent()?.to_owned());
        for unset in [None, Some(""), Some("relative")] {
            assert_eq!(parent(unset, Some("/home/me")).unwrap(), Path::new("/home/me/.local/state/hawsepipe"));
            assert_eq!(parent(unset, None), None);
        }
    }
}
