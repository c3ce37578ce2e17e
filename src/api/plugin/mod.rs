//! The kind Plugin.

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

/// Code that a chain or a pipeline runs.
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
    doc = "Code that a chain or a pipeline runs.",
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
    "!has(self.wrapper) || !has(self.protocol) && !has(self.encoding) && !has(self.source.inline) && \
     !has(self.source.configMapKeyRef)"
).message(
    "a wrapper comes from source.path or source.image and has no protocol or encoding of ours"
))]
#[x_kube(validation = Rule::new(
    "has(self.wrapper) || !has(self.source.path) || self.source.path.matches('[.](js|mjs|cjs)$')"
).message(
    "source.path must end in .js, .mjs or .cjs"
))]
#[x_kube(validation = Rule::new(
    "!has(self.role) || self.role != 'Guard' || !has(self.source.image) || has(self.sha256) || \
     self.source.image.reference.contains('@sha256:')"
).message(
    "a Guard from an image is pinned: by digest in source.image.reference, or by sha256"
))]
pub struct PluginSpec {
    /// Whether entries run it; where not, each is skipped whatever its role. Default: true.
    pub enabled: Option<bool>,
    /// What it is; immutable. Default: middleware.
    pub r#type: Option<PluginType>,
    /// What its failure means: `Guard` fails the call, `Transform` lets the content go on as it was, `Observe` is
    /// off the call's path. Default: Transform.
    pub role: Option<Role>,
    /// Phases it serves. Default: what its exports say, else both.
    #[schemars(length(min = 1, max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub phases: Option<Vec<Phase>>,
    /// How it is spoken with: `Once` (contract 1.0), `Lines`, `Module`; `Auto` goes by its exports. Default: Auto.
    pub protocol: Option<Protocol>,
    /// With Once: run again in a fresh context of a warm worker, a promise of its owner. Default: false.
    pub reuse: Option<bool>,
    /// With Lines: `JSON` or `MessagePack`. Default: JSON.
    pub encoding: Option<Encoding>,
    /// Where its code is: exactly one.
    pub source: Source,
    /// Digest of its code in hex; another content is not loaded. Default: any.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: Option<String>,
    /// Of an entry that names none; lower runs first. Default: 0.
    #[schemars(range(max = u32::MAX))]
    pub order: Option<u32>,
    /// Where it may run at all, whatever a chain says. Default: everywhere.
    pub filter: Option<Filter>,
    /// Milliseconds for an execution; an entry may say otherwise. Default: the gateway's.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u32>,
    /// Any JSON object: `ctx.config`, and `metadata.config` of a script's input. Default: none.
    pub config: Option<FreeObject>,
    /// A JSON Schema that `config` must fit, an entry's keys on top. Default: none.
    pub config_schema: Option<FreeObject>,
    /// Its environment, all of it. Default: none.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Option<Vec<EnvVar>>,
    /// `host:port` it may reach, through the gateway's proxy. Default: none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 270), regex(pattern = HOST_PORT)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub egress: Option<Vec<String>>,
    /// Its workers.
    pub pool: Option<Pool>,
    /// What one execution may use.
    pub limits: Option<PluginLimits>,
    /// A helper in any language in the code's place. Default: none.
    pub wrapper: Option<Wrapper>,
    /// What a typed plugin says of itself; where its code ships one, what is written here wins, key by key.
    pub descriptor: Option<Descriptor>,
    /// Who may name it from another namespace. Default: nobody.
    pub share_with: Option<PluginShareWith>,
}

/// What kind of plugin it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PluginType {
    /// Code of a chain.
    #[serde(rename = "middleware")]
    Middleware,
    /// Seed detection.
    #[serde(rename = "sd-plugin")]
    SdPlugin,
    /// Knowledge retrieval.
    #[serde(rename = "kb-plugin")]
    KbPlugin,
    /// Goal solving.
    #[serde(rename = "gs-plugin")]
    GsPlugin,
    /// Validation.
    #[serde(rename = "val-plugin")]
    ValPlugin,
    /// A planner.
    #[serde(rename = "mrp-plan-plugin")]
    MrpPlanPlugin,
    /// Tools.
    #[serde(rename = "tool-provider")]
    ToolProvider,
    /// Prompts.
    #[serde(rename = "prompt-provider")]
    PromptProvider,
    /// A phase of a pipeline.
    #[serde(rename = "phase")]
    Phase,
    /// Changes to a pipeline.
    #[serde(rename = "pipeline-customizer")]
    PipelineCustomizer,
    /// A form of output.
    #[serde(rename = "output-type")]
    OutputType,
    /// Intents of a conversation.
    #[serde(rename = "intent-classifier")]
    IntentClassifier,
    /// Questions of a conversation.
    #[serde(rename = "qa-handler")]
    QaHandler,
    /// Updates of a conversation.
    #[serde(rename = "update-handler")]
    UpdateHandler,
}

/// What a plugin is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Role {
    /// Checks and redactors.
    Guard,
    /// Curation, enrichment.
    Transform,
    /// Loggers.
    Observe,
}

/// When in a call a plugin runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Before the call is sent.
    Request,
    /// On what came back.
    Response,
}

/// How a worker speaks with its plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// By its exports.
    Auto,
    /// Contract 1.0: standard input to its end, one line out, exit.
    Once,
    /// Line after line.
    Lines,
    /// Exported functions in a warm worker.
    Module,
}

/// What lines hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encoding {
    /// JSON.
    JSON,
    /// MessagePack.
    MessagePack,
}

/// Where a plugin may run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filter {
    /// Globs over upstream names. Default: all.
    #[schemars(length(max = 64), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub upstreams: Option<Vec<String>>,
    /// Globs over the servers' own tool names. Default: all.
    #[schemars(length(max = 256), inner(length(min = 1, max = 128), regex(pattern = GLOB)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub tools: Option<Vec<String>>,
}

/// Who may name a plugin from another namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginShareWith {
    /// Namespaces whose chains may name it.
    pub namespaces: FromNamespaces,
    /// Whether their entries may replace keys of `config`: `Deny` or `Allow`. Default: Deny.
    pub config_overrides: Option<ConfigOverrides>,
}

/// Whether others may replace keys of `config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConfigOverrides {
    /// They may not.
    Deny,
    /// They may.
    Allow,
}
