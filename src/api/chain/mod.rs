//! The kind PluginChain.

pub mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::chain::status::PluginChainStatus;
use crate::api::plugin::Phase;
use crate::api::shared::{ObjectRef, Selector};
use crate::api::values::{DNS_LABEL, FreeObject, GLOB};

/// Which plugins run on which calls.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "hawsepipe.dev",
    version = "v1alpha1",
    kind = "PluginChain",
    namespaced,
    status = "PluginChainStatus",
    derive = "PartialEq",
    category = "hawsepipe",
    shortname = "pchain",
    doc = "Which plugins run on which calls.",
    printcolumn(name = "PHASE", type_ = "string", json_path = ".spec.phase"),
    printcolumn(name = "RUNS", type_ = "string", json_path = ".status.runs"),
    printcolumn(name = "UPSTREAMS", type_ = "string", json_path = ".status.upstreams"),
    printcolumn(name = "LIVE", type_ = "string", json_path = ".status.live"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "REASON", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "REVISION", type_ = "string", json_path = ".status.revision", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(
        "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ).message(
        "metadata.name: at most 63 characters of a-z, 0-9 and -, a letter first: it is a label value"
    ),
)]
#[x_kube(validation = Rule::new(
    "self.phase == 'Response' || !has(self.notifications) && self.entries.all(e, !has(e.view))"
).message(
    "view and notifications are for phase Response"
))]
#[x_kube(validation = Rule::new(
    "self.phase == oldSelf.phase"
).message(
    "phase is immutable: a chain turned round would leave its calls unguarded; make a new PluginChain"
))]
pub struct PluginChainSpec {
    /// When it runs; immutable.
    pub phase: Phase,
    /// Among chains that select the same call; ties by namespace and name. Default: 100.
    #[schemars(range(max = 1000))]
    pub order: Option<u32>,
    /// Gateways it is for; across namespaces by name only. Default: every one of its namespace.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub gateways: Option<Vec<ObjectRef>>,
    /// Upstreams it covers: what either line names. Default: every one in reach.
    pub upstreams: Option<ChainUpstreams>,
    /// Tools it covers, by the names the servers use. Default: every one.
    pub tools: Option<ChainTools>,
    /// Methods it covers. Default: tools/call.
    #[schemars(length(min = 1, max = 3), extend("x-kubernetes-list-type" = "set"))]
    pub methods: Option<Vec<Method>>,
    /// Of a call with a response Guard, the free text of progress and log messages: `Drop` or `Pass`. Default:
    /// Drop.
    pub notifications: Option<Notifications>,
    /// By order, ties by place in this list. One plugin stands in a chain once.
    #[schemars(length(min = 1, max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub entries: Vec<Entry>,
}

/// Upstreams that a chain covers; at least one line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ChainUpstreams {
    /// Globs over names, so a server may come later than its chain.
    #[schemars(length(min = 1, max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub names: Option<Vec<String>>,
    /// Labels.
    pub selector: Option<Selector>,
}

/// Tools that a chain covers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainTools {
    /// Globs. Default: all.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub include: Option<Vec<String>>,
    /// Globs that take out. Default: none.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub exclude: Option<Vec<String>>,
}

/// A method of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Method {
    /// A tool is called.
    #[serde(rename = "tools/call")]
    ToolsCall,
    /// A prompt is fetched.
    #[serde(rename = "prompts/get")]
    PromptsGet,
    /// A resource is read.
    #[serde(rename = "resources/read")]
    ResourcesRead,
}

/// What happens to the text of notifications of a guarded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Notifications {
    /// It is dropped.
    Drop,
    /// It passes.
    Pass,
}

/// One plugin's place in a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.canary) || self.canary.name != self.name"
).message(
    "canary.name must be another Plugin: a revision of its own"
))]
#[x_kube(validation = Rule::new(
    "!has(self.mode) || self.mode != 'Shadow' || (!has(self.failurePolicy) && !has(self.canary))"
).message(
    "a Shadow entry changes nothing: take failurePolicy and canary out"
))]
#[x_kube(validation = Rule::new(
    "!has(self.canary) || !has(self.enabled) || self.enabled"
).message(
    "a disabled entry has no canary"
))]
pub struct Entry {
    /// The Plugin's name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// The Plugin's namespace, with its consent. Default: the chain's.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,
    /// Lower runs first. Default: the Plugin's.
    #[schemars(range(max = u32::MAX))]
    pub order: Option<u32>,
    /// Default: true.
    pub enabled: Option<bool>,
    /// Milliseconds for an execution. Default: the Plugin's, else the gateway's.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u32>,
    /// For curating plugins. Default: what the call's `_meta` says, else none.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub max_tokens: Option<u32>,
    /// Top-level keys replace the plugin's; nothing below them is merged. Default: none.
    pub config: Option<FreeObject>,
    /// CEL over call, tool, upstream, identity, content; where it errs, the plugin runs. Default: always.
    #[schemars(length(min = 1, max = 1024))]
    pub when: Option<String>,
    /// What its failure does: `Fail`, `LastGood` or `Ignore`. Default: by the plugin's role.
    pub failure_policy: Option<FailurePolicy>,
    /// `Shadow` runs beside the call and changes nothing. Default: Enforce.
    pub mode: Option<Mode>,
    /// What of a response it sees: `Auto`, `Text` or `Json`. `Text` keeps the rest of a result from a Guard too. Default: Auto.
    pub view: Option<View>,
    /// A share of sessions gets another plugin. Default: none.
    pub canary: Option<Canary>,
}

/// What the failure of an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// The call fails.
    Fail,
    /// The content goes on as it entered the entry.
    LastGood,
    /// The same content goes on; the failure is only recorded.
    Ignore,
}

/// Whether an entry acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// It acts.
    Enforce,
    /// It only watches.
    Shadow,
}

/// What of a response an entry sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum View {
    /// The text where the result is one text block, else the JSON.
    Auto,
    /// The text of the only text block.
    Text,
    /// The JSON of the result or error.
    Json,
}

/// Another plugin for a share of sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    /// The other Plugin, of the same namespace as the entry's.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Percent of sessions.
    #[schemars(range(max = 100))]
    pub percent: u32,
}
