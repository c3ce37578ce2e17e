//! The objects that the admin API shows: the plan, and the state of its upstreams, plugins, chains and tools.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Views;
use crate::domain::health::ConnectionState;
use crate::domain::item::ItemKind;
use crate::domain::plan::Plan;
use crate::domain::plugin::Phase;
use crate::domain::ports::WorkerInfo;
use crate::domain::problem::Problem;
use crate::engine::catalogue::pinning::unapproved;
use crate::engine::catalogue::upstream_state::UpstreamState;
use crate::engine::plan::link::{LinkedChain, LinkedUpstream};
use crate::engine::request::Endpoint;

/// An upstream (document 003, MCPServerConfig and ServerHealthStatus).
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamView {
    /// The upstream, as `namespace/name`.
    pub upstream: String,
    /// The name of the upstream, without its namespace.
    pub name: String,
    /// Whether the upstream is enabled (`spec.enabled`).
    pub enabled: bool,
    /// The connection state, as defined in document 003.
    pub connection_state: ConnectionState,
    /// When the connection was found closed for lack of use, in Unix milliseconds. The next call reconnects; until then
    /// it is not known whether the server still answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resting_since: Option<u64>,
    /// Number of failures since the last success: probes, and requests for the tool list.
    pub consecutive_failures: u32,
    /// Whether the upstream has left routing.
    pub auto_disabled: bool,
    /// When it left routing, in Unix milliseconds; absent while it is in routing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_disabled_at: Option<u64>,
    /// The retries after failures.
    pub retry_state: RetryState,
    /// Why calls to the upstream are refused, or else the message of the last failure; absent if there is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The era, version and name of the server; absent before the first handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<crate::domain::upstream::ServerFacts>,
    /// Number of the upstream's tools that the gateway offers.
    pub tools: usize,
    /// Number of its prompts.
    pub prompts: usize,
    /// Number of its resources.
    pub resources: usize,
    /// Number of its templates of resources.
    pub templates: usize,
    /// Whether the tool list may be outdated.
    pub stale: bool,
    /// When a probe last succeeded, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ping_at: Option<u64>,
    /// Duration of the last successful probe in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ping_latency: Option<f64>,
    /// When the next probe is due, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<u64>,
}

/// The retries of an upstream after failures (document 003, ServerHealthStatus.retryState).
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryState {
    /// Whether the upstream is in routing, its last probe failed, and it is probed again.
    pub is_retrying: bool,
    /// How many of the retries have failed: from 0 to the number of intervals. With all of them, the upstream leaves routing.
    pub current_attempt: u32,
    /// When the next probe after a failure is due, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<u64>,
    /// Milliseconds before each retry (`spec.health.retryBackoffMs`).
    pub backoff_intervals: Vec<u32>,
}

impl RetryState {
    fn of(state: &UpstreamState, backoff_ms: &[u32]) -> Self {
        let failures = state.health.failures;
        let retries = u32::try_from(backoff_ms.len()).unwrap_or(u32::MAX);
        let next_retry_at = state.next_probe_at.filter(|_| failures > 0);
        Self {
            is_retrying: next_retry_at.is_some() && state.health.in_routing(),
            current_attempt: failures.saturating_sub(1).min(retries),
            next_retry_at,
            backoff_intervals: backoff_ms.to_vec(),
        }
    }
}

/// A chain, as the admin API shows it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainView {
    /// The chain, as `namespace/name`.
    pub chain: String,
    /// Digest of the chain, including the digests of its plugins' code; 12 hex characters.
    pub revision: String,
    /// The phase in which the chain runs.
    pub phase: Phase,
    /// The order among the gateway owner's chains, or among all others: lower numbers run first.
    pub order: i32,
    /// Whether the chain belongs to the gateway's owner: it is in the gateway's namespace, or the gateway requires it.
    pub owner: bool,
    /// The plugins of the chain's enabled entries, in the order in which they run.
    pub runs: Vec<String>,
    /// Names of the upstreams that the chain covers.
    pub upstreams: Vec<String>,
    /// Why the chain refuses the calls that it selects, because of the plan or because a plugin that must run cannot
    /// run in this process; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusing: Option<String>,
}

/// The definition of a tool that an upstream lists.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinView {
    /// Name of the upstream.
    pub upstream: String,
    /// The server's own name for the tool.
    pub name: String,
    /// The digest that `spec.pinning.approved` names.
    pub sha256: String,
    /// Whether it is approved; `None` if it need not be.
    pub approved: Option<bool>,
}

/// A tool that the gateway knows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolView {
    /// The tool's name on the endpoint for all upstreams; absent if the name is taken or too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the upstream.
    pub upstream: String,
    /// The server's own name for the tool.
    pub upstream_name: String,
    /// The description that clients see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments that clients see.
    #[schemars(with = "serde_json::Value")]
    pub input_schema: Box<RawValue>,
    /// Whether only pipelines can use the tool.
    pub for_pipelines: bool,
    /// The chains that select the tool, as `namespace/name`, request chains first.
    pub chains: Vec<String>,
    /// Why the tool's input schema is not enforced; absent if it is enforced or does not have to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_problem: Option<String>,
}

/// The plan and its problems, as the admin API shows them.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    /// Problems with the plan, with linking it, and with the tool lists.
    pub problems: Vec<Problem>,
    /// The plan, without plugin code. Values that can be secrets are hidden.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub plan: Plan,
}

impl Views {
    /// Returns every upstream of the plan.
    pub fn upstreams(&self) -> Vec<UpstreamView> {
        let (snapshot, now) = (self.in_force.snapshot(), self.clock.monotonic());
        let views = snapshot.linked.upstreams.iter().enumerate().map(|(index, upstream)| {
            let plan = &upstream.target.plan;
            let state = self.catalogues.upstream(&plan.key);
            let own = || snapshot.routes.all().iter().filter(|route| route.upstream == index);
            let count = |kind: ItemKind| own().filter(|route| route.item.kind == kind).count();
            UpstreamView {
                upstream: plan.key.to_string(),
                name: plan.key.name.clone(),
                enabled: plan.enabled,
                connection_state: state.connection_state(now, snapshot.call_timeout(plan)),
                resting_since: state.resting_since,
                consecutive_failures: state.health.failures,
                auto_disabled: !state.health.in_routing(),
                auto_disabled_at: state.auto_disabled_at,
                retry_state: RetryState::of(&state, &plan.health.retry_backoff_ms),
                error: state.error(upstream.refusing.as_ref(), now),
                server: state.facts,
                tools: count(ItemKind::Tool),
                prompts: count(ItemKind::Prompt),
                resources: count(ItemKind::Resource),
                templates: count(ItemKind::Template),
                stale: state.stale,
                last_ping_at: state.last_ping_at,
                ping_latency: state.ping_ms,
                next_retry_at: state.next_probe_at,
            }
        });
        views.collect()
    }

    /// Returns every worker.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        self.plugins.workers()
    }

    /// Returns all chains of the plan, in the order in which they run.
    pub fn chains(&self) -> Vec<ChainView> {
        let snapshot = self.in_force.snapshot();
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
            refusing: self.loads.refusing(chain).map(|refusal| refusal.message),
        });
        views.collect()
    }

    /// Returns all tools, in the order of the tool list. First waits, for at most the list timeout, until each upstream
    /// has been tried once.
    pub async fn tools(&self) -> Vec<ToolView> {
        self.lists.wait_for_lists(&self.in_force.snapshot(), &Endpoint::All, ItemKind::Tool).await;
        let snapshot = self.in_force.snapshot();
        let views = snapshot.routes.tools().map(|route| {
            let link = &snapshot.items[route.index];
            let chains = link.request.iter().chain(&link.response).map(|s| s.chain.name.clone()).collect();
            let object = crate::domain::raw::RawObject::parse(route.own_definition.get()).unwrap_or_default();
            ToolView {
                name: route.public.clone(),
                upstream: snapshot.linked.upstreams[route.upstream].target.plan.key.name.clone(),
                upstream_name: route.item.name.clone(),
                description: object.get_str("description"),
                input_schema: object.get("inputSchema").map(ToOwned::to_owned).unwrap_or_default(),
                for_pipelines: snapshot.for_pipelines.contains(&route.index),
                chains,
                schema_problem: link.arguments.not_enforced.clone(),
            }
        });
        views.collect()
    }

    /// Returns all tools that upstreams list, also those that are not offered, with the digests of their definitions.
    /// First waits, as [`Self::tools`] does.
    pub async fn pins(&self) -> Vec<PinView> {
        self.lists.wait_for_lists(&self.in_force.snapshot(), &Endpoint::All, ItemKind::Tool).await;
        let of_one = |upstream: &LinkedUpstream| {
            let plan = &upstream.target.plan;
            let state = self.catalogues.upstream(&plan.key);
            let unapproved = unapproved(plan, state.catalogue.as_deref(), &state.first_seen);
            let pins = state.catalogue.iter().flat_map(|list| list.pins());
            let view = |(tool, sha256): (&String, &String)| PinView {
                upstream: plan.key.name.clone(),
                name: tool.clone(),
                sha256: sha256.clone(),
                approved: plan.pinning.as_ref().map(|_| !unapproved.contains_key(tool.as_str())),
            };
            pins.map(view).collect::<Vec<_>>()
        };
        self.in_force.snapshot().linked.upstreams.iter().flat_map(of_one).collect()
    }

    /// Returns the upstream of the tool that clients see under this name, and its own name for the tool, if that is another one.
    pub fn tool_listed_as(&self, name: &str) -> Option<(String, String)> {
        let snapshot = self.in_force.snapshot();
        let route = snapshot.routes.public(ItemKind::Tool, name).filter(|route| route.item.name != name)?;
        let upstream = &snapshot.linked.upstreams[route.upstream].target.plan.key;
        Some((upstream.name.clone(), route.item.name.clone()))
    }

    /// Returns the plan and its problems. Values that can be secrets are hidden; see [`Plan::hide_values`].
    pub fn plan(&self) -> PlanView {
        let snapshot = self.in_force.snapshot();
        let mut plan = Plan::clone(snapshot.plan());
        plan.code.clear();
        plan.hide_values();
        PlanView { problems: self.problems(&snapshot), plan }
    }
}
