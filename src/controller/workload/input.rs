//! The input from which a gateway's workload is built.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::secrets::{SecretKey, named, with_api_keys};
use super::settings::WorkloadSettings;
use crate::api::gateway::MCPGatewaySpec;
use crate::api::gateway::pods::{SEAL_KEY, seal_secret};
use crate::controller::owner::Owner;
use crate::domain::plan::{ImagePlan, ListenerPlan, Plan};

/// The port of the admin API of a gateway whose spec has no `admin.port`.
const ADMIN_PORT: u16 = 9090;
/// The port of the only listener of a gateway that declares none.
const MCP_PORT: u16 = 8080;

/// Everything that a gateway's workload depends on.
pub(in crate::controller) struct WorkloadInput<'a> {
    pub(in crate::controller) owner: &'a Owner,
    pub(in crate::controller) spec: &'a MCPGatewaySpec,
    pub(in crate::controller) settings: &'a WorkloadSettings,
    /// The listeners that pods open: those of the plan in force, which can be older than the spec.
    pub(super) listeners: Vec<ListenerPlan>,
    /// The folder in which pods look for plugin files.
    pub(super) plugin_dir: PathBuf,
    /// The key that session ids are sealed with. It is in `secrets` too.
    pub(super) seal_key: SecretKey,
    /// The images with plugin code that pods mount.
    pub(super) images: Vec<ImagePlan>,
    /// The keys of Secrets in the gateway's namespace that pods can need.
    pub(super) secrets: BTreeSet<SecretKey>,
    /// The Secrets with API keys of clients, which pods need as a whole.
    pub(super) api_keys: BTreeSet<String>,
}

impl<'a> WorkloadInput<'a> {
    /// Creates the input. `plans` are the plans that pods can run; the first one is in force.
    pub(in crate::controller) fn new(
        owner: &'a Owner,
        spec: &'a MCPGatewaySpec,
        settings: &'a WorkloadSettings,
        plans: [&Plan; 2],
    ) -> Self {
        let [in_force, newest] = plans;
        let seal_key = seal_key(owner, spec);
        let mut secrets = named(&owner.key.namespace, &plans);
        secrets.insert(seal_key.clone());
        Self {
            owner,
            spec,
            settings,
            listeners: listeners(in_force),
            plugin_dir: in_force.gateway.runtime.plugin_dir.clone(),
            seal_key,
            images: match spec.pinned_revision {
                // A pin is also the way back from an image that cannot be pulled.
                Some(_) => images(&[in_force]),
                None => images(&[in_force, newest]),
            },
            secrets,
            api_keys: with_api_keys(&owner.key.namespace, &plans),
        }
    }

    /// Whether session ids are sealed with the key that the operator creates.
    pub(super) fn seals(&self) -> bool {
        self.seal_key.0 == seal_secret(&self.owner.key.name)
    }

    pub(super) fn admin_port(&self) -> u16 {
        self.spec.admin.as_ref().and_then(|admin| admin.port).unwrap_or(ADMIN_PORT)
    }
}

/// Returns the images of the enabled plugins that chains of these plans run. Other plugins do not matter to pods, which
/// do not start while an image cannot be pulled. Plugins with the same image share a volume.
fn images(plans: &[&Plan]) -> Vec<ImagePlan> {
    let mut images: BTreeMap<String, ImagePlan> = BTreeMap::new();
    for plan in plans {
        let run: BTreeSet<_> = plan.used_plugins().collect();
        let plugins = plan.plugins.iter().filter(|plugin| plugin.enabled && run.contains(&plugin.key));
        for image in plugins.filter_map(|plugin| plugin.image.as_ref()) {
            let known = images.entry(image.volume()).or_insert_with(|| image.clone());
            known.pull_secrets.extend(image.pull_secrets.iter().cloned());
        }
    }
    images.into_values().collect()
}

/// Returns the key that session ids are sealed with: the one that the spec names, or the one that the operator creates.
fn seal_key(owner: &Owner, spec: &MCPGatewaySpec) -> SecretKey {
    let named = spec.sessions.as_ref().and_then(|sessions| sessions.sealing_key_secret_ref.as_ref());
    let named = named.map(|named| (named.name.clone(), named.key.clone()));
    named.unwrap_or_else(|| (seal_secret(&owner.key.name), SEAL_KEY.to_owned()))
}

/// Returns the listeners of pods that run this plan: those that the plan declares, or one with defaults for a plan that
/// an earlier version stored without listeners.
pub(in crate::controller) fn listeners(plan: &Plan) -> Vec<ListenerPlan> {
    if !plan.gateway.listeners.is_empty() {
        return plan.gateway.listeners.clone();
    }
    let (name, path) = ("http".to_owned(), "/mcp".to_owned());
    let (hosts, default_hosts, allowed_origins) = (Vec::new(), Vec::new(), Vec::new());
    vec![ListenerPlan { name, port: MCP_PORT, path, hosts, default_hosts, allowed_origins, tls: None, refusing: None }]
}
