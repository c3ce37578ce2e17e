//! The Plugin custom resource.

pub mod code;
pub mod descriptor;
pub mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::plugin::code::{PluginLimits, Pool, Source, Wrapper};
use crate::api::plugin::descriptor::Descriptor;
use crate::api::plugin::status::PluginStatus;
use crate::api::shared::{EnvVar, FromNamespaces};
use crate::api::values::{FreeObject, GLOB, HOST_PORT, SHA256};

/// Code that chains or pipelines run.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "hawsepipe.dev",
    version = "v1alpha1",
    kind = "Plugin",
    namespaced,
    status = "PluginStatus",
    derive = "PartialEq",
    category = "hawsepipe",
    shortname = "plug",
    doc = "Code that chains or pipelines run.",
    printcolumn(name = "TYPE", type_ = "string", json_path = ".status.type"),
    printcolumn(name = "ROLE", type_ = "string", json_path = ".status.role"),
    printcolumn(name = "PROTOCOL", type_ = "string", json_path = ".status.protocol"),
    printcolumn(name = "CHAINS", type_ = "integer", json_path = ".status.chains"),
    printcolumn(name = "LIVE", type_ = "string", json_path = ".status.live"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "REASON", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "SHA256", type_ = "string", json_path = ".status.running.sha256", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(
        "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ).message(
        "metadata.name: at most 63 characters of a-z, 0-9 and -, a letter first: it is a label value and a \
         prefix of tool names"
    ),
)]
#[x_kube(validation = Rule::new(
    "(has(self.type) ? self.type : 'middleware') == (has(oldSelf.type) ? oldSelf.type : 'middleware')"
).message(
    "type is immutable: what names this plugin expects its methods; make a new Plugin"
))]
#[x_kube(validation = Rule::new(
    "(!has(self.type) || self.type == 'middleware') || (!has(self.role) && !has(self.phases) && !has(self.order))"
).message(
    "role, phases and order are for type middleware"
))]
#[x_kube(validation = Rule::new(
    "!has(self.reuse) || !self.reuse || has(self.protocol) && self.protocol == 'Once'"
).message(
    "reuse needs protocol: Once"
))]
#[x_kube(validation = Rule::new(
    "!has(self.encoding) || self.encoding == 'JSON' || has(self.protocol) && self.protocol == 'Lines'"
).message(
    "encoding MessagePack needs protocol: Lines"
))]
#[x_kube(validation = Rule::new(
    "!has(self.pool) || !has(self.pool.concurrency) || self.pool.concurrency == 1 || has(self.protocol) && \
     self.protocol == 'Module'"
).message(
    "pool.concurrency above 1 needs protocol: Module"
))]
#[x_kube(validation = Rule::new(
    "!has(self.wrapper) || !has(self.protocol) || self.protocol in ['Auto', 'Once', 'Lines']"
).message(
    "a wrapper has protocol Once or Lines"
))]
#[x_kube(validation = Rule::new(
    "has(self.wrapper) || !has(self.source.path) || self.source.path.matches('[.](m?[jt]s|cjs)$')"
).message(
    "source.path must end in .js, .mjs, .cjs, .ts or .mts"
))]
#[x_kube(validation = Rule::new(
    "!has(self.role) || self.role != 'Guard' || !has(self.source.image) || has(self.sha256) || \
     self.source.image.reference.contains('@sha256:')"
).message(
    "a Guard from an image is pinned: by digest in source.image.reference, or by sha256"
))]
pub struct PluginSpec {
    /// Whether the plugin runs. If false, every entry that names the plugin is skipped, even if the plugin is a Guard.
    /// Default: true.
    pub enabled: Option<bool>,
    /// Type of the plugin; immutable. Default: middleware.
    pub r#type: Option<PluginType>,
    /// Role of the plugin. The role determines what a failure does if the entry does not set `failurePolicy`: if a
    /// `Guard` fails, the call fails; if a `Transform` fails, the content stays unchanged. An `Observe` plugin runs
    /// beside the call and has no effect on it. Default: Transform.
    pub role: Option<Role>,
    /// Phases that the plugin supports. Default: the phases for which its code exports functions, or both if its code
    /// exports no functions.
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub phases: Option<Vec<Phase>>,
    /// How workers communicate with the plugin: `Once` (contract 1.0), `Lines` or `Module`; `Auto` chooses Module if
    /// the code exports a plugin function, otherwise Once. Default: Auto.
    pub protocol: Option<Protocol>,
    /// With protocol Once: whether the script runs repeatedly in one warm worker, each time in a fresh context. Set
    /// this field only if the script tolerates repeated runs in one process. Default: false.
    pub reuse: Option<bool>,
    /// With protocol Lines: encoding of the messages, `JSON` or `MessagePack`. Default: JSON.
    pub encoding: Option<Encoding>,
    /// Where the code comes from.
    pub source: Source,
    /// SHA-256 digest that the code must have, in hexadecimal; other code is not loaded. Default: any code is loaded.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: Option<String>,
    /// Position in a chain for entries that do not set `order`; entries with a lower number run first. Default: 0.
    #[schemars(range(max = u32::MAX))]
    pub order: Option<u32>,
    /// Restricts the plugin to some upstreams and tools, even if a chain selects others. Default: no restriction.
    pub filter: Option<Filter>,
    /// Time limit of one execution, in milliseconds; an entry can set another limit. Default: the gateway's
    /// `plugins.defaultTimeoutMs`.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u32>,
    /// Configuration, any JSON object. The code reads the configuration as `ctx.config` or, in a script, as
    /// `metadata.config` of its input. Default: none.
    pub config: Option<FreeObject>,
    /// JSON Schema that the configuration must match, also after an entry has replaced keys. Default: none.
    pub config_schema: Option<FreeObject>,
    /// Environment variables of the plugin, which has no other variables. Default: none.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Option<Vec<EnvVar>>,
    /// Addresses, as `host:port`, that the plugin can connect to through the gateway's proxy. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 270), regex(pattern = HOST_PORT)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub egress: Option<Vec<String>>,
    /// Workers of the plugin, in each pod. Default: each field's own default.
    pub pool: Option<Pool>,
    /// Limits of one execution and of its worker. Default: each field's own default.
    pub limits: Option<PluginLimits>,
    /// A program in any language that runs in place of JavaScript code. Default: none.
    pub wrapper: Option<Wrapper>,
    /// Describes the plugin. Keys that are set here take precedence over those of a `plugin.json` beside the code, and these
    /// over what the code's `getDescriptor` returns. Default: none.
    pub descriptor: Option<Descriptor>,
    /// Permits chains of other namespaces to use the plugin. Default: only chains of the plugin's own namespace can use
    /// it.
    pub share_with: Option<PluginShareWith>,
}

/// Type of the plugin; immutable. Default: middleware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PluginType {
    /// Run by the entries of chains.
    #[serde(rename = "middleware")]
    Middleware,
    /// For the seed detection stage of a planned pipeline.
    #[serde(rename = "sd-plugin")]
    SdPlugin,
    /// For the retrieval stage of a planned pipeline.
    #[serde(rename = "kb-plugin")]
    KbPlugin,
    /// For the goal solving stage of a planned pipeline.
    #[serde(rename = "gs-plugin")]
    GsPlugin,
    /// For the validation stage of a planned pipeline.
    #[serde(rename = "val-plugin")]
    ValPlugin,
    /// Planner of a planned pipeline.
    #[serde(rename = "mrp-plan-plugin")]
    MrpPlanPlugin,
    /// Provides tools.
    #[serde(rename = "tool-provider")]
    ToolProvider,
    /// Provides prompts.
    #[serde(rename = "prompt-provider")]
    PromptProvider,
    /// Step of a declared pipeline: an agent of type custom, or an inserted phase.
    #[serde(rename = "phase")]
    Phase,
    /// Changes a pipeline.
    #[serde(rename = "pipeline-customizer")]
    PipelineCustomizer,
    /// Defines a form of pipeline output.
    #[serde(rename = "output-type")]
    OutputType,
    /// Classifies the intent of follow-ups in a conversation.
    #[serde(rename = "intent-classifier")]
    IntentClassifier,
    /// Answers questions in a conversation.
    #[serde(rename = "qa-handler")]
    QaHandler,
    /// Handles requests for updates in a conversation.
    #[serde(rename = "update-handler")]
    UpdateHandler,
}

/// Role of the plugin. The role determines what a failure does if the entry does not set `failurePolicy`: if a `Guard`
/// fails, the call fails; if a `Transform` fails, the content stays unchanged. An `Observe` plugin runs beside the call
/// and has no effect on it. Default: Transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Role {
    /// For checks and redaction: by default, if the plugin fails, the call fails.
    Guard,
    /// For curation and enrichment: by default, if the plugin fails, the content stays unchanged.
    Transform,
    /// For logging: the plugin runs beside the call and has no effect on it.
    Observe,
}

/// Phase of a call in which a plugin runs: `Request` is before the call is sent to the upstream, `Response` is after
/// the upstream has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Before the call is sent to the upstream.
    Request,
    /// After the upstream has answered.
    Response,
}

/// How workers communicate with the plugin: `Once` (contract 1.0), `Lines` or `Module`; `Auto` chooses Module if the
/// code exports a plugin function, otherwise Once. Default: Auto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// Module if the code exports a plugin function, otherwise Once.
    Auto,
    /// Contract 1.0: the script reads standard input to the end, writes one line and exits.
    Once,
    /// The script reads one message at a time and writes an answer to each.
    Lines,
    /// A warm worker calls the functions that the code exports.
    Module,
}

/// With protocol Lines: encoding of the messages, `JSON` or `MessagePack`. Default: JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encoding {
    /// JSON, one message per line.
    JSON,
    /// MessagePack.
    MessagePack,
}

/// Restricts a plugin to some upstreams and tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// Globs over upstream names. Default: all upstreams.
    #[schemars(length(max = 64), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub upstreams: Option<Vec<String>>,
    /// Globs over the servers' own names of tools. Default: all tools.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub tools: Option<Vec<String>>,
}

/// Permits chains of other namespaces to use the plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginShareWith {
    /// Namespaces whose chains can use the plugin.
    pub namespaces: FromNamespaces,
    /// Whether entries of chains in other namespaces can replace keys of `config`: `Deny` or `Allow`. Default: Deny.
    pub config_overrides: Option<ConfigOverrides>,
}

/// Whether entries of chains in other namespaces can replace keys of `config`: `Deny` or `Allow`. Default: Deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConfigOverrides {
    /// Entries of chains in other namespaces cannot replace keys.
    Deny,
    /// Entries of chains in other namespaces can replace keys.
    Allow,
}
