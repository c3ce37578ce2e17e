//! What the admin API shows of the plan and of what runs.

use serde::Serialize;

use crate::domain::health::ConnectionState;
use crate::domain::plan::{Plan, PluginPlan};
use crate::domain::plugin::{Phase, Protocol, Role};
use crate::domain::ports::WorkerInfo;
use crate::domain::problem::Problem;
use crate::engine::Engine;
use crate::engine::plan::link::LinkedChain;

/// An upstream (document 003, MCPServerConfig and ServerHealthStatus).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamView {
    /// `namespace/name`.
    pub upstream: String,
    /// Its name on the gateway.
    pub name: String,
    /// `spec.enabled`.
    pub enabled: bool,
    /// Where it stands.
    pub connection_state: ConnectionState,
    /// Unix milliseconds of when its connection was found to have ended because nobody used it; the next call begins it
    /// anew. Whether the server still answers is not known meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resting_since: Option<u64>,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// Whether it left routing.
    pub auto_disabled: bool,
    /// What the last failure said, or why its calls are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<crate::domain::upstream::ServerFacts>,
    /// Tools that it offers through this gateway.
    pub tools: usize,
    /// Whether the list is older than it should be.
    pub stale: bool,
    /// Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ping_at: Option<u64>,
    /// Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping_latency: Option<f64>,
    /// Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<u64>,
}

/// A plugin (document 000, Plugin and its states).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginView {
    /// Stable over edits.
    pub id: String,
    /// `namespace/name`.
    pub plugin: String,
    /// Digest of the code that runs.
    pub revision: String,
    /// Digest of the code of the plan, where that could not be loaded; `error` says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<String>,
    /// What it is for.
    pub role: Role,
    /// The protocol.
    pub protocol: Protocol,
    /// Phases it serves.
    pub phases: Vec<Phase>,
    /// Registered, Enabled, Executing or Disabled; Failed where it cannot be started.
    pub state: LivePluginState,
    /// Why it cannot be started, or its newest form not loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Chains that name it, as `namespace/name`.
    pub chains: Vec<String>,
    /// Workers there are.
    pub workers: usize,
}

/// Document 000's states of a Plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum LivePluginState {
    /// No chain names it.
    Registered,
    /// It can run.
    Enabled,
    /// It runs now.
    Executing,
    /// It cannot be started here.
    Failed,
    /// Switched off.
    Disabled,
}

/// A chain.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainView {
    /// `namespace/name`.
    pub chain: String,
    /// Digest of it and its plugins.
    pub revision: String,
    /// When it runs.
    pub phase: Phase,
    /// Among chains of its group.
    pub order: i32,
    /// Whether it is the gateway owner's.
    pub owner: bool,
    /// The plugins of its enabled entries in the order in which they run.
    pub runs: Vec<String>,
    /// Names of upstreams it covers.
    pub upstreams: Vec<String>,
    /// Why it refuses what it selects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusing: Option<String>,
}

/// A tool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolView {
    /// The name for clients of all upstreams; none where it may not have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The upstream's name.
    pub upstream: String,
    /// The server's own name.
    pub upstream_name: String,
    /// What the server says it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Chains that select it, requests first, as `namespace/name`.
    pub chains: Vec<String>,
    /// Why its input schema is not enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_problem: Option<String>,
}

/// The plan, without the text of plugins.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    /// What is wrong with it.
    pub problems: Vec<Problem>,
    /// All of it.
    pub plan: Plan,
}

impl Engine {
    /// Every upstream of the plan.
    pub fn upstreams(&self) -> Vec<UpstreamView> {
        let snapshot = self.snapshot();
        let views = snapshot.linked.upstreams.iter().enumerate().map(|(index, upstream)| {
            let plan = &upstream.target.plan;
            let state = self.state.upstream(&plan.key);
            UpstreamView {
                upstream: plan.key.to_string(),
                name: plan.key.name.clone(),
                enabled: plan.enabled,
                connection_state: state.health.state,
                resting_since: state.resting_since,
                consecutive_failures: state.health.failures,
                auto_disabled: !state.health.in_routing(),
                error: upstream.refusing.as_ref().map(|r| r.message.clone()).or(state.health.last_error),
                server: state.facts,
                tools: snapshot.routes.all().iter().filter(|r| r.upstream == index).count(),
                stale: state.stale,
                last_ping_at: state.last_ping_at,
                ping_latency: state.ping_ms,
                next_retry_at: state.next_probe_at,
            }
        });
        views.collect()
    }

    /// Every plugin of the plan.
    pub fn plugins(&self) -> Vec<PluginView> {
        let snapshot = self.snapshot();
        let workers = self.plugins.workers();
        snapshot.plan().plugins.iter().map(|plugin| self.plugin_view(&snapshot, plugin, &workers)).collect()
    }

    fn plugin_view(
        &self,
        snapshot: &crate::engine::Snapshot,
        plugin: &PluginPlan,
        workers: &[WorkerInfo],
    ) -> PluginView {
        let named = snapshot.linked.chains.iter().filter(|c| c.entries.iter().any(|e| e.plan.plugin == plugin.key));
        let chains: Vec<_> = named.map(|chain| chain.name.clone()).collect();
        let error = snapshot.linked.entry_of(&plugin.key).and_then(|entry| self.unable(entry));
        let stand_in = snapshot.linked.stand_ins.get(&plugin.key).map(|form| &form.plugin.plan);
        let lost = snapshot.linked.not_loaded.iter().find(|lost| lost.plugin == plugin.key);
        let own = workers.iter().filter(|w| w.plugin_id == plugin.id);
        let executing = own.clone().any(|w| w.state == crate::domain::ports::WorkerState::Executing);
        let state = match (&error, plugin.enabled, chains.is_empty()) {
            (_, false, _) => LivePluginState::Disabled,
            (Some(_), _, _) => LivePluginState::Failed,
            (_, _, true) => LivePluginState::Registered,
            _ if executing => LivePluginState::Executing,
            _ => LivePluginState::Enabled,
        };
        PluginView {
            id: plugin.id.clone(),
            plugin: plugin.key.to_string(),
            revision: stand_in.unwrap_or(plugin).digest.clone(),
            not_loaded: lost.map(|lost| lost.digest.clone()),
            role: plugin.role,
            protocol: plugin.protocol,
            phases: plugin.phases.clone(),
            state,
            error: error.or_else(|| lost.map(|lost| lost.failure.clone())).map(|failure| failure.message),
            chains,
            workers: own.count(),
        }
    }

    /// Every worker.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.plugins.workers()
    }

    /// Every chain of the plan, in the order in which they run.
    pub fn chains(&self) -> Vec<ChainView> {
        let snapshot = self.snapshot();
        let covered = |chain: &LinkedChain| {
            let upstreams = snapshot.linked.upstreams.iter().map(|u| &u.target.plan);
            upstreams.filter(|plan| chain.covers(plan)).map(|plan| plan.key.name.clone()).collect()
        };
        let views = snapshot.linked.chains.iter().map(|chain| ChainView {
            chain: chain.name.clone(),
            revision: chain.plan.revision.clone(),
            phase: chain.plan.phase,
            order: chain.plan.order,
            owner: chain.plan.owner,
            runs: chain.entries.iter().filter(|e| e.enabled).map(|e| e.name.clone()).collect(),
            upstreams: covered(chain),
            refusing: chain.plan.refusing.as_ref().map(|r| r.message.clone()),
        });
        views.collect()
    }

    /// Every tool, in list order. Upstreams that were never tried are waited for.
    pub async fn tools(&self) -> Vec<ToolView> {
        self.wait_for_lists(&self.snapshot(), &crate::engine::Endpoint::All).await;
        let snapshot = self.snapshot();
        let views = snapshot.routes.all().iter().map(|route| {
            let link = &snapshot.tools[route.index];
            let chains = link.request.iter().chain(&link.response).map(|s| s.chain.name.clone()).collect();
            let object = crate::domain::raw::RawObject::parse(route.own_definition.get()).unwrap_or_default();
            ToolView {
                name: route.public.clone(),
                upstream: snapshot.linked.upstreams[route.upstream].target.plan.key.name.clone(),
                upstream_name: route.tool.name.clone(),
                description: object.get_str("description"),
                chains,
                schema_problem: link.arguments.not_enforced.clone(),
            }
        });
        views.collect()
    }

    /// The plan and its problems. Values written in manifests as headers or variables are left out: people put
    /// secrets there.
    pub fn plan(&self) -> PlanView {
        let snapshot = self.snapshot();
        let mut plan = Plan::clone(snapshot.plan());
        plan.code.clear();
        plan.hide_values();
        PlanView { problems: snapshot.problems().to_vec(), plan }
    }
}
