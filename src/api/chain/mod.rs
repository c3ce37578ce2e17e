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
    doc = "Selects calls and lists the plugins that run on them.",
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
    "self.phase == 'Response' || !has(self.methods) || self.methods.all(m, !m.endsWith('/list'))"
).message(
    "methods that list something are for phase Response: a plugin sees each definition that a server lists"
))]
#[x_kube(validation = Rule::new(
    "self.phase == oldSelf.phase"
).message(
    "phase is immutable: a chain turned round would leave its calls unguarded; make a new PluginChain"
))]
pub struct PluginChainSpec {
    /// When the chain runs: `Request` is before a call is sent to the upstream, `Response` is after the upstream has
    /// answered. Immutable.
    pub phase: Phase,
    /// Position among the chains that select the same call: chains with a lower number run first, and ties are broken
    /// by namespace and name. Chains of the gateway's namespace and required chains run after all others, whatever
    /// their number. Default: 100.
    #[schemars(range(max = 1000))]
    pub order: Option<u32>,
    /// Gateways that the chain is for, in any namespace. A gateway runs the chain only if the gateway's own `chains`
    /// field selects the chain too. Default: every gateway of the chain's namespace.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub gateways: Option<Vec<ObjectRef>>,
    /// Upstreams that the chain covers: those that match `names` or `selector`. Chains of the gateway's namespace and
    /// required chains can cover all upstreams of the gateway; other chains can cover only upstreams of their own
    /// namespace. Default: every upstream that the chain can cover.
    pub upstreams: Option<ChainUpstreams>,
    /// Tools that the chain covers, selected by the servers' own names for them: their calls, what servers ask during
    /// these, and their definitions. Prompts and resources are not selected by this: the chain covers all of them if
    /// `methods` names their method. Default: every tool.
    pub tools: Option<ChainTools>,
    /// MCP methods that the chain covers. Everything else passes unseen by the chain, so a Guard of data names every
    /// method by which clients can get it. The methods that list something are for phase Response. Default: tools/call.
    #[schemars(length(min = 1, max = 9), extend("x-kubernetes-list-type" = "set"))]
    pub methods: Option<Vec<Method>>,
    /// What happens to the notifications of a call if this chain runs a Guard on the response. `Drop` removes the text
    /// of progress notifications and drops log messages, because the Guard does not check them. `Pass` forwards all
    /// notifications unchanged. Default: Drop.
    pub notifications: Option<Notifications>,
    /// Plugins to run, in ascending `order`; entries with the same `order` run in the order of this list. A plugin can
    /// appear only once in a chain.
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

/// Selects tools by globs over their names.
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
    /// `sampling/createMessage`: a server asks the client for an answer of its model, in the course of a call.
    #[serde(rename = "sampling/createMessage")]
    SamplingCreateMessage,
    /// `elicitation/create`: a server asks the user of the client for input, in the course of a call.
    #[serde(rename = "elicitation/create")]
    ElicitationCreate,
    /// `tools/list`: the definition of each tool.
    #[serde(rename = "tools/list")]
    ToolsList,
    /// `prompts/list`: the definition of each prompt.
    #[serde(rename = "prompts/list")]
    PromptsList,
    /// `resources/list`: the definition of each resource.
    #[serde(rename = "resources/list")]
    ResourcesList,
    /// `resources/templates/list`: the definition of each template of resources.
    #[serde(rename = "resources/templates/list")]
    ResourcesTemplatesList,
}

/// What happens to the notifications of a call if this chain runs a Guard on the response. `Drop` removes the text of
/// progress notifications and drops log messages, because the Guard does not check them. `Pass` forwards all
/// notifications unchanged. Default: Drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Notifications {
    /// The text of progress notifications is removed, and log messages are dropped.
    Drop,
    /// Progress notifications and log messages are forwarded to the client.
    Pass,
}

/// An entry of a chain: the plugin to run, and how to run it.
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
    /// Namespace of the Plugin. A Plugin of another namespace must permit its use in `shareWith`. Default: the chain's
    /// namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,
    /// Position in the chain; entries with a lower number run first. Default: the Plugin's `order`.
    #[schemars(range(max = u32::MAX))]
    pub order: Option<u32>,
    /// Whether the entry runs. A disabled entry is skipped, even if its plugin is a Guard. Default: true.
    pub enabled: Option<bool>,
    /// Time limit of one execution, in milliseconds. Default: the Plugin's `timeoutMs`, or else the gateway's
    /// `plugins.defaultTimeoutMs`.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u32>,
    /// Token limit that the plugin receives; meant for plugins that shorten content. Default: the limit in the call's
    /// `_meta`, or else none.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub max_tokens: Option<u32>,
    /// Keys that replace top-level keys of the Plugin's `config`; nested objects are replaced as a whole, not merged.
    /// Default: none.
    pub config: Option<FreeObject>,
    /// CEL condition over call, tool, upstream, identity and content, with operators, has, all, exists, functions of strings
    /// and conversions. If the condition cannot be evaluated, the plugin runs. Default: the plugin always runs.
    #[schemars(length(min = 1, max = 1024))]
    pub when: Option<String>,
    /// What happens if the plugin fails: `Fail` fails the call; `LastGood` and `Ignore` pass the content on unchanged.
    /// Default: Fail for a Guard, LastGood for a Transform, Ignore for Observe.
    pub failure_policy: Option<FailurePolicy>,
    /// Whether the plugin can affect the call: with `Enforce`, it can; with `Shadow`, it runs beside the call, and its
    /// outcome is only recorded. Default: Enforce.
    pub mode: Option<Mode>,
    /// What the plugin sees of a response. `Json`: the JSON of the whole result. `Text`: the text of the result's only
    /// text block, even if the result holds other content that a Guard then cannot check; the JSON if there is no such
    /// block. `Auto`: the text if the result holds nothing else, otherwise the JSON. Default: Auto.
    pub view: Option<View>,
    /// Another Plugin that runs in place of the entry's Plugin for a percentage of the sessions. Default: none.
    pub canary: Option<Canary>,
}

/// What happens if the plugin fails: `Fail` fails the call; `LastGood` and `Ignore` pass the content on unchanged.
/// Default: Fail for a Guard, LastGood for a Transform, Ignore for Observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// The call fails.
    Fail,
    /// The content is passed on as the entry received it.
    LastGood,
    /// Has the same effect as `LastGood`; the default for plugins with the role Observe.
    Ignore,
}

/// Whether the plugin can affect the call: with `Enforce`, it can; with `Shadow`, it runs beside the call, and its
/// outcome is only recorded. Default: Enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// The plugin can change or deny the call, as its role permits.
    Enforce,
    /// The plugin runs beside the call, and its outcome is only recorded.
    Shadow,
}

/// What the plugin sees of a response. `Json`: the JSON of the whole result. `Text`: the text of the result's only text
/// block, even if the result holds other content that a Guard then cannot check; the JSON if there is no such block.
/// `Auto`: the text if the result holds nothing else, otherwise the JSON. Default: Auto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum View {
    /// The text if the result holds nothing but one text block, otherwise the JSON.
    Auto,
    /// The text of the result's only text block, or the JSON if there is no such block.
    Text,
    /// The JSON of the whole result or error.
    Json,
}

/// Another Plugin that runs in place of the entry's Plugin for a percentage of the sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    /// Name of the other Plugin, in the same namespace as the entry's Plugin.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Percentage of the sessions for which the other Plugin runs, from 0 to 100.
    #[schemars(range(max = 100))]
    pub percent: u32,
}
