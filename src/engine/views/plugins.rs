//! The plugins that the admin API shows.

use schemars::JsonSchema;
use serde::Serialize;

use super::Views;
use crate::domain::descriptor::Descriptor;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::{Phase, PluginKind, Protocol, Role};
use crate::domain::ports::{RecentFailures, WorkerInfo, WorkerState};
use crate::domain::problem::Problem;
use crate::domain::values::{PartitionFilter, PartitionView, ValueError};
use crate::engine::plan::snapshot::Snapshot;

/// A plugin (document 000, Plugin and its states).
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginView {
    /// The `Plugin.id` of document 000, which stays the same when the plugin is edited.
    pub id: String,
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// The type of the plugin.
    pub r#type: &'static str,
    /// The version that its descriptor gives; absent if it gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How the object, a `plugin.json` and the code describe the plugin, with the defaults of what none of them says.
    pub descriptor: Descriptor,
    /// Whether the gateway has the plugin without an object.
    pub built_in: bool,
    /// Whether the plugin is a program of another language.
    pub wrapper: bool,
    /// SHA-256 of the code that runs, in hex.
    pub revision: String,
    /// SHA-256 of the plan's code for the plugin, if that code could not be loaded. `error` contains the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<String>,
    /// What the plugin does on a call: Guard, Transform or Observe.
    pub role: Role,
    /// The protocol between a worker and the plugin.
    pub protocol: Protocol,
    /// The phases that the plugin serves.
    pub phases: Vec<Phase>,
    /// The state of the plugin in this process.
    pub state: LivePluginState,
    /// Why the plugin cannot be started, or why its newest form is not accepted or could not be loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The executions of the last 5 minutes that failed; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent_failures: Option<RecentFailures>,
    /// The chains that name the plugin, as `namespace/name`.
    pub chains: Vec<String>,
    /// The number of the plugin's workers.
    pub workers: usize,
}

/// The state of a plugin in this process, as document 000 defines the states of Plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum LivePluginState {
    /// No chain names the plugin.
    Registered,
    /// The plugin can run, and is not running now.
    Enabled,
    /// The plugin is running now.
    Executing,
    /// The plugin cannot be started in this process.
    Failed,
    /// The plugin is disabled.
    Disabled,
}

impl Views {
    /// Returns every plugin of the plan.
    pub fn plugins(&self) -> Vec<PluginView> {
        let snapshot = self.in_force.snapshot();
        let workers = self.plugins.workers();
        snapshot.plan().plugins.iter().map(|plugin| self.plugin_view(&snapshot, plugin, &workers)).collect()
    }

    /// Returns the plugin of this type and name, in the gateway's namespace if none is given.
    pub fn plugin(&self, kind: PluginKind, namespace: Option<&str>, name: &str) -> Option<PluginView> {
        let snapshot = self.in_force.snapshot();
        let namespace = namespace.unwrap_or(&snapshot.plan().gateway.key.namespace);
        let plugin = snapshot.plan().plugin(&ObjectKey::new(namespace, name)).filter(|plugin| plugin.kind == kind)?;
        Some(self.plugin_view(&snapshot, plugin, &self.plugins.workers()))
    }

    /// Returns how the object, a `plugin.json` and the code describe a plugin.
    fn descriptor(&self, snapshot: &Snapshot, plugin: &PluginPlan) -> Descriptor {
        let linked = snapshot.linked.plugins.get(&plugin.key).and_then(|linked| linked.as_ref().ok());
        let described = linked.and_then(|linked| self.plugins.described(linked)).unwrap_or_default();
        plugin.descriptor.clone().over(described)
    }

    /// Lists partitions of the values that a plugin stores.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn partitions(&self, filter: &PartitionFilter) -> Result<Vec<PartitionView>, ValueError> {
        self.values.partitions(filter).await
    }

    /// Erases partitions of a plugin with their values. Returns how many.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn erase_partitions(&self, filter: &PartitionFilter) -> Result<u64, ValueError> {
        self.values.erase(filter).await
    }

    fn plugin_view(&self, snapshot: &Snapshot, plugin: &PluginPlan, workers: &[WorkerInfo]) -> PluginView {
        let named = snapshot.linked.chains.iter().filter(|c| c.entries.iter().any(|e| e.plan.plugin == plugin.key));
        let chains: Vec<_> = named.map(|chain| chain.name.clone()).collect();
        let unable = snapshot.linked.entry_of(&plugin.key).and_then(|entry| self.loads.unable(entry));
        let stand_in = snapshot.linked.stand_ins.get(&plugin.key).map(|form| &form.plugin.plan);
        let lost = snapshot.linked.not_loaded.iter().find(|lost| lost.plugin == plugin.key);
        let error = unable.or_else(|| lost.filter(|lost| lost.runs.is_none()).map(|lost| lost.failure.clone()));
        let own = workers.iter().filter(|w| w.plugin_id == plugin.id);
        let executing = own.clone().any(|w| w.state == WorkerState::Executing);
        let is_used = snapshot.plan().used_plugins().any(|used| *used == plugin.key);
        let state = match (&error, plugin.enabled, !is_used) {
            (_, false, _) => LivePluginState::Disabled,
            (Some(_), _, _) => LivePluginState::Failed,
            (_, _, true) => LivePluginState::Registered,
            _ if executing => LivePluginState::Executing,
            _ => LivePluginState::Enabled,
        };
        let descriptor = self.descriptor(snapshot, plugin);
        PluginView {
            id: plugin.id.clone(),
            plugin: plugin.key.to_string(),
            r#type: plugin.kind.as_str(),
            version: descriptor.version.clone(),
            descriptor: descriptor.with_defaults(&plugin.key.name, plugin.kind),
            built_in: false,
            wrapper: plugin.wrapper.is_some(),
            revision: stand_in.unwrap_or(plugin).digest.clone(),
            not_loaded: lost.map(|lost| lost.digest.clone()),
            role: plugin.role,
            protocol: plugin.protocol,
            phases: plugin.phases.clone(),
            state,
            error: error
                .or_else(|| lost.map(|lost| lost.failure.clone()))
                .map(|failure| failure.message)
                .or_else(|| error_of(snapshot, &ObjectId::new(Kind::Plugin, plugin.key.clone()))),
            recent_failures: self.recent_failures(&plugin.id),
            chains,
            workers: own.count(),
        }
    }
}

/// Returns the first error of an object.
fn error_of(snapshot: &Snapshot, object: &ObjectId) -> Option<String> {
    let is_of_it = |problem: &&Problem| problem.is_error() && problem.object.as_ref() == Some(object);
    snapshot.problems().iter().find(is_of_it).map(|problem| problem.message.clone())
}
