//! The PluginChain custom resource.

pub mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::chain::status::PluginChainStatus;
use crate::api::plugin::Phase;
use crate::api::shared::{ObjectRef, Selector};
use crate::api::values::{DNS_LABEL, FreeObject, GLOB};

/// Selects calls and lists the plugins that run on them.
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
    /// When the chain runs: `Request`, before the call is sent, or `Response`, on the answer. Immutable.
    pub phase: Phase,
    /// Position among the chains that select the same call; lower runs first, and ties are broken by namespace and
    /// name. Default: 100.
    #[schemars(range(max = 1000))]
    pub order: Option<u32>,
    /// Gateways that the chain is for. A gateway of another namespace must be listed by name. Default: every gateway of
    /// the chain's namespace.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub gateways: Option<Vec<ObjectRef>>,
    /// Upstreams that the chain covers: those that match `names` or `selector`. Default: every upstream within reach.
    /// Chains of the gateway's namespace and required chains reach all upstreams; others reach those of their own
    /// namespace.
    pub upstreams: Option<ChainUpstreams>,
    /// Tools that the chain covers, by the names that the servers use. Default: every tool.
    pub tools: Option<ChainTools>,
    /// MCP methods that the chain covers. Default: tools/call.
    #[schemars(length(min = 1, max = 3), extend("x-kubernetes-list-type" = "set"))]
    pub methods: Option<Vec<Method>>,
    /// What happens to the free text of progress and log messages of calls that have a response Guard: `Drop` removes
    /// it, `Pass` lets it through. Default: Drop.
    pub notifications: Option<Notifications>,
    /// Plugins to run, sorted by `order`; ties keep their position in this list. A plugin can appear only once in a
    /// chain.
    #[schemars(length(min = 1, max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub entries: Vec<Entry>,
}

/// Upstreams that a chain covers: those that match `names` or `selector`. At least one of the two must be set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ChainUpstreams {
    /// Globs over upstream names. They also match upstreams that are created later. Default: none.
    #[schemars(length(min = 1, max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub names: Option<Vec<String>>,
    /// Selects upstreams by their labels. Default: none.
    pub selector: Option<Selector>,
}

/// Tools to select, by globs over their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainTools {
    /// Globs over the names of the tools to include. Default: all tools.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub include: Option<Vec<String>>,
    /// Globs over the names of tools to exclude, even if `include` matches them. Default: none.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub exclude: Option<Vec<String>>,
}

/// An MCP method that a chain can cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Method {
    /// `tools/call`: a tool is called.
    #[serde(rename = "tools/call")]
    ToolsCall,
    /// `prompts/get`: a prompt is fetched.
    #[serde(rename = "prompts/get")]
    PromptsGet,
    /// `resources/read`: a resource is read.
    #[serde(rename = "resources/read")]
    ResourcesRead,
}

/// What happens to the free text of progress and log messages of calls that have a response Guard: `Drop` removes it,
/// `Pass` lets it through. Default: Drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Notifications {
    /// The text is removed.
    Drop,
    /// The text is passed on to the client.
    Pass,
}

/// One plugin's entry in a chain.
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
    /// Name of the Plugin to run.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Namespace of the Plugin. A Plugin of another namespace must permit this in its `shareWith`. Default: the chain's
    /// namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,
    /// Position in the chain; lower runs first. Default: the Plugin's `order`.
    #[schemars(range(max = u32::MAX))]
    pub order: Option<u32>,
    /// Whether the entry runs; a disabled entry is skipped, whatever its role. Default: true.
    pub enabled: Option<bool>,
    /// Time limit of one execution, in milliseconds. Default: the Plugin's, else the gateway's.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u32>,
    /// Token limit that is handed to the plugin, for plugins that shorten content. Default: the limit in the call's
    /// `_meta`, else none.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub max_tokens: Option<u32>,
    /// Keys that replace top-level keys of the Plugin's `config`; nested objects are replaced as a whole, not merged.
    /// Default: none.
    pub config: Option<FreeObject>,
    /// CEL condition over call, tool, upstream, identity and content. If its evaluation fails, the plugin runs.
    /// Default: the plugin always runs.
    #[schemars(length(min = 1, max = 1024))]
    pub when: Option<String>,
    /// What happens if the plugin fails: `Fail` fails the call; `LastGood` and `Ignore` pass the content on unchanged.
    /// Default: by the plugin's role (Fail for a Guard).
    pub failure_policy: Option<FailurePolicy>,
    /// `Enforce`, or `Shadow`: the plugin runs beside the call, and its answer is recorded but changes nothing.
    /// Default: Enforce.
    pub mode: Option<Mode>,
    /// What the plugin sees of a response: `Auto`, `Text` or `Json`. With `Text`, even a Guard sees only the text and
    /// no other part of the result. Default: Auto.
    pub view: Option<View>,
    /// Another Plugin to run instead for a percentage of the sessions. Default: none.
    pub canary: Option<Canary>,
}

/// What happens if the plugin fails: `Fail` fails the call; `LastGood` and `Ignore` pass the content on unchanged.
/// Default: by the plugin's role (Fail for a Guard).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// The call fails.
    Fail,
    /// The content is passed on as the entry received it.
    LastGood,
    /// The same effect as `LastGood`. The default for plugins that only observe.
    Ignore,
}

/// `Enforce`, or `Shadow`: the plugin runs beside the call, and its answer is recorded but changes nothing. Default:
/// Enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// The plugin's answer takes effect.
    Enforce,
    /// The plugin's answer is only recorded.
    Shadow,
}

/// What the plugin sees of a response: `Auto` is the text if the result is a single text block, else the JSON; `Text`
/// is the text only; `Json` is the whole result. Default: Auto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum View {
    /// The text if the result is a single text block, else the JSON.
    Auto,
    /// The text of the result's only text block.
    Text,
    /// The JSON of the whole result or error.
    Json,
}

/// Runs another Plugin for a percentage of the sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    /// Name of the other Plugin, in the same namespace as the entry's Plugin.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Percentage of sessions that the other Plugin runs for, from 0 to 100.
    #[schemars(range(max = 100))]
    pub percent: u32,
}
