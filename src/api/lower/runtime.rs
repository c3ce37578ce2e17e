//! Turns the settings of a gateway for plugins into those of the plan.

use std::path::{Path, PathBuf};

use super::findings::Findings;
use super::place::ManifestSource;
use super::shared::{below, program, size};
use crate::api::gateway::runtime::{self as api, Discovery, GatewayPlugins, Interpreter};
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{InterpreterPlan, Runtime};
use crate::domain::reason::Reason;
use crate::domain::sandbox::SandboxMode;

/// Why a gateway in a cluster looks for no plugins.
const ONLY_STANDALONE: &str =
    "only pods see the folders of plugins: `hawsepipe plugin import DIR` makes Plugins of them";
/// The interpreter of standalone gateways that name none.
const PYTHON: &str = "python3";

/// Returns how a gateway runs plugins. `folder` is what relative paths start at.
pub(super) fn runtime(
    written: Option<&GatewayPlugins>,
    (folder, plugin_dir): (&Path, &Path),
    gateway: &ObjectKey,
    place: ManifestSource<'_>,
    findings: &mut Findings,
) -> Runtime {
    let interpreters = interpreters(written, place);
    let defaults = Runtime { plugin_dir: plugin_dir.to_owned(), interpreters, ..Runtime::default() };
    let Some(written) = written else { return defaults };
    if let (true, ManifestSource::Cluster { .. }) = (discovers(Some(written)), place) {
        findings.wrong(Reason::StandaloneOnly, "spec.plugins.discovery", ONLY_STANDALONE);
    }
    Runtime {
        plugin_dir: written.plugin_dir.as_deref().map_or(defaults.plugin_dir, |path| below(folder, path)),
        node_executable: written.node_executable.as_deref().map_or(defaults.node_executable, |n| program(folder, n)),
        max_concurrent_executions: written.max_concurrent_executions.unwrap_or(defaults.max_concurrent_executions),
        pool_size_per_plugin: written.pool_size_per_plugin.unwrap_or(defaults.pool_size_per_plugin),
        default_timeout_ms: written.default_timeout_ms.unwrap_or(defaults.default_timeout_ms),
        max_queued_executions: written.max_queued_executions.unwrap_or(defaults.max_queued_executions),
        queue_timeout_ms: written.queue_timeout_ms.unwrap_or(defaults.queue_timeout_ms),
        max_bytes_in_flight: size(written.max_bytes_in_flight.as_ref()).unwrap_or(defaults.max_bytes_in_flight),
        sandbox: written.sandbox.map(sandbox),
        allowed_wrappers: written.allowed_wrappers.iter().flatten().map(|name| object(name, gateway)).collect(),
        interpreters: defaults.interpreters,
    }
}

/// Whether a gateway looks for plugins in folders.
pub(super) fn discovers(written: Option<&GatewayPlugins>) -> bool {
    written.is_some_and(|written| written.discovery == Some(Discovery::Directory))
}

/// Returns the object that a name, or a namespace and a name, stands for in a gateway.
fn object(written: &str, gateway: &ObjectKey) -> ObjectKey {
    let (namespace, name) = written.split_once('/').unwrap_or((&gateway.namespace, written));
    ObjectKey::new(namespace, name)
}

/// Returns the programs that run the code of wrappers: as written, else the Python of PATH, unless in a cluster or without wrappers.
fn interpreters(written: Option<&GatewayPlugins>, place: ManifestSource<'_>) -> Vec<InterpreterPlan> {
    let paths = |paths: Option<&Vec<String>>| paths.into_iter().flatten().map(PathBuf::from).collect();
    match (written.and_then(|written| written.interpreters.as_ref()), place) {
        (Some(written), _) => {
            let plan = |it: &Interpreter| InterpreterPlan {
                name: it.name.clone(),
                path: PathBuf::from(&it.path),
                read_paths: paths(it.read_paths.as_ref()),
            };
            written.iter().map(plan).collect()
        }
        (None, ManifestSource::File { .. }) if written.is_some_and(|written| written.allowed_wrappers.is_some()) => {
            let python = InterpreterPlan { name: PYTHON.into(), path: PYTHON.into(), read_paths: Vec::new() };
            vec![python]
        }
        (None, _) => Vec::new(),
    }
}

fn sandbox(mode: api::SandboxMode) -> SandboxMode {
    match mode {
        api::SandboxMode::Required => SandboxMode::Required,
        api::SandboxMode::BestEffort => SandboxMode::BestEffort,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::ids::{Kind, ObjectId};

    fn lowered(spec: Value, place: ManifestSource<'_>) -> Runtime {
        let key = ObjectKey::new("infra", "main");
        let mut findings = Findings::new(ObjectId::new(Kind::MCPGateway, key.clone()));
        let written = serde_json::from_value(spec).unwrap();
        let folders = (Path::new("/m"), Path::new("/m/plugins"));
        let runtime = runtime(Some(&written), folders, &key, place, &mut findings);
        assert!(findings.finish().is_empty());
        runtime
    }

    #[test]
    fn a_wrapper_is_allowed_by_its_name_in_one_namespace() {
        let cluster = ManifestSource::Cluster { domain: "cluster.local" };
        let runtime = lowered(json!({"allowedWrappers": ["z3", "team/z3"]}), cluster);
        assert_eq!(runtime.allowed_wrappers, [ObjectKey::new("infra", "z3"), ObjectKey::new("team", "z3")]);
        assert_eq!(runtime.interpreters, []);
    }

    #[test]
    fn a_standalone_gateway_with_wrappers_has_python() {
        let file = ManifestSource::File { folder: Path::new("/m"), plugin_dir: Path::new("/m/plugins") };
        let names = |spec| lowered(spec, file).interpreters.into_iter().map(|it| it.name).collect::<Vec<_>>();
        assert_eq!(names(json!({})), [""; 0]);
        assert_eq!(names(json!({"allowedWrappers": ["p"]})), ["python3"]);
        let own = json!([{"name": "python3.12", "path": "/opt/python", "readPaths": ["/opt/site"]}]);
        let runtime = lowered(json!({"allowedWrappers": ["p"], "interpreters": own}), file);
        let expected = InterpreterPlan {
            name: "python3.12".into(),
            path: "/opt/python".into(),
            read_paths: vec!["/opt/site".into()],
        };
        assert_eq!(runtime.interpreters, [expected]);
    }
}
