//! What the compiler reads: objects of the custom resources in neutral form, each field at its value or absent, with
//! the defaults that the object alone decides filled in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::domain::ids::{ObjectId, ObjectKey};
use crate::domain::plan::{GatewayPlan, LabelSelector, PluginLimits, PluginPlan, Refusal, UpstreamPlan};
pub use crate::domain::plan::{Namespaces, Takes};
use crate::domain::plugin::{Encoding, FailurePolicy, Mode, Phase, Protocol, Role, View};
use crate::domain::ports::CodeFacts;
use crate::domain::reason::Reason;

/// Labels of an object or a namespace.
pub type Labels = BTreeMap<String, String>;

/// Everything that is compiled into one gateway's plan.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The gateway; none for the implicit one of a folder without.
    pub gateway: Option<GatewayInput>,
    /// The folder that plugin paths start in, where the gateway names none.
    pub default_plugin_dir: PathBuf,
    /// In order: by creation, in a folder by file order.
    pub upstreams: Vec<UpstreamInput>,
    /// In any order.
    pub plugins: Vec<PluginInput>,
    /// In any order.
    pub chains: Vec<ChainInput>,
    /// Objects that are there but are not valid: their last accepted form runs on.
    pub invalid: Vec<InvalidObject>,
    /// ConfigMaps by key, with their data, or why one that may be there cannot be read.
    pub config_maps: BTreeMap<ObjectKey, ConfigMapData>,
    /// URLs of servers by the namespace and object that name them, or why there is none.
    pub servers: BTreeMap<(String, ServerInput), Result<String, (Reason, String)>>,
    /// Labels of namespaces; of one that is not here only `kubernetes.io/metadata.name` is known.
    pub namespaces: BTreeMap<String, Labels>,
    /// Files of plugins with `source.path`.
    pub files: Files,
    /// Whether only the gateway can read those: then such plugins are planned without code, and the gateway completes
    /// its plan ([`super::compile::complete`]).
    pub files_elsewhere: bool,
    /// Forms of plugins that a gateway tried and could not load.
    pub not_loaded: BTreeMap<ObjectKey, NotLoaded>,
    /// Objects that are too large as they are written for what other objects leave of the gateway's plan, and why.
    pub no_room: BTreeMap<ObjectId, String>,
    /// What is known of code, by [`code_key`] of text and file name.
    pub facts: BTreeMap<String, CodeFacts>,
    /// Keys of code that is being parsed for the first time: what it is like is known soon.
    pub parsing: BTreeSet<String>,
}

/// A form of a plugin that a gateway tried and could not load.
#[derive(Clone, Debug)]
pub struct NotLoaded {
    /// [`PluginPlan::form`] of it.
    pub form: String,
    /// What the gateway says.
    pub message: String,
    /// The form before it, with its code; none where that is not known.
    pub before: Option<Arc<(PluginPlan, String)>>,
}

/// The data of a ConfigMap, or why it cannot be read.
pub type ConfigMapData = Result<BTreeMap<String, String>, (Reason, String)>;

/// Files of plugins by their path below the plugin folder; an error says why one cannot be read.
pub type Files = BTreeMap<String, Result<FileCode, Unread>>;

/// Why a file is not there to be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unread {
    /// It is not there or cannot be read, is too large, or is not a text.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

impl Unread {
    /// With this reason and these words.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// A plugin file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCode {
    /// Its text.
    pub text: String,
    /// Its folder, whose other files it may import.
    pub folder: PathBuf,
    /// Digest of those other files: where they change, workers are made anew.
    pub siblings: String,
}

/// An object that did not pass its schema or rules. The code that found its Problems reports them.
#[derive(Clone, Debug)]
pub struct InvalidObject {
    /// The object.
    pub id: ObjectId,
    /// Of a chain: what it selects, as far as that could be read, without entries. None where that cannot be told: it
    /// selects everything, of each gateway that takes chains of its namespace.
    pub chain: Option<ChainInput>,
    /// Whether it says that it is switched off (`enabled: false` of an upstream, `stopped: true` of a gateway) or on; none
    /// where it says neither.
    pub off: Option<bool>,
}

/// A gateway.
#[derive(Clone, Debug)]
pub struct GatewayInput {
    /// Its settings, with defaults.
    pub plan: GatewayPlan,
    /// Which upstreams it takes.
    pub upstreams: Takes,
    /// Which chains it takes.
    pub chains: Takes,
    /// The revision that pods are to stay at, in a cluster.
    pub pinned: Option<String>,
}

/// An upstream. Its plan's header or variable list is filled from `values` when references are resolved.
#[derive(Clone, Debug)]
pub struct UpstreamInput {
    /// Its settings, with defaults.
    pub plan: UpstreamPlan,
    /// Headers or variables as written.
    pub values: Vec<NamedInput>,
    /// The object that knows where it is, where it is not written.
    pub server: Option<ServerInput>,
    /// Which other namespaces' gateways may take it; none is nobody.
    pub share_with: Option<Namespaces>,
}

/// An object of a cluster that knows where an MCP server is: a Service, or one with `status.address.url`. It is in
/// the namespace of the upstream that names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerInput {
    /// Its API group; empty is core.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Of a Service: number or name.
    pub port: Option<String>,
    /// The endpoint's path; none is that of the URL, or `/mcp`.
    pub path: Option<String>,
}

/// A header or variable as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInput {
    /// Its name.
    pub name: String,
    /// Where its value comes from.
    pub value: InputValue,
    /// The path of the field, for Problems.
    pub field: String,
}

/// Where a value comes from; references lie in the object's own namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputValue {
    /// Written there.
    Literal(String),
    /// A key of a ConfigMap.
    ConfigMap {
        /// The ConfigMap's name.
        name: String,
        /// The key.
        key: String,
        /// Whether it may be missing.
        optional: bool,
    },
    /// A key of a Secret.
    Secret {
        /// The Secret's name.
        name: String,
        /// The key.
        key: String,
        /// Whether it may be missing.
        optional: bool,
    },
    /// A variable of the gateway's own environment.
    Environment(String),
}

/// A plugin.
#[derive(Clone, Debug)]
pub struct PluginInput {
    /// Its object.
    pub key: ObjectKey,
    /// `spec.enabled`.
    pub enabled: bool,
    /// `spec.role`, by default Transform.
    pub role: Role,
    /// `spec.phases`; none is what its exports say, else both.
    pub phases: Option<Vec<Phase>>,
    /// `spec.order`, by default 0.
    pub order: i64,
    /// `spec.protocol`.
    pub protocol: ProtocolSetting,
    /// Where its code is.
    pub source: SourceInput,
    /// The digest that the code must have, hex.
    pub sha256: Option<String>,
    /// Globs over upstream names.
    pub filter_upstreams: Vec<String>,
    /// Globs over tool names.
    pub filter_tools: Vec<String>,
    /// Milliseconds.
    pub timeout_ms: Option<u32>,
    /// A JSON object, canonical text.
    pub config: Option<Box<RawValue>>,
    /// What `config`, an entry's overrides included, must fit.
    pub config_schema: Option<serde_json::Value>,
    /// Its environment as written.
    pub env: Vec<NamedInput>,
    /// `host:port` that it may reach.
    pub egress: Vec<String>,
    /// `spec.reuse`.
    pub reuse: bool,
    /// `spec.encoding`.
    pub encoding: Encoding,
    /// `spec.pool.size`.
    pub pool_size: Option<u32>,
    /// `spec.pool.concurrency`.
    pub concurrency: u32,
    /// `spec.pool.maxExecutions`.
    pub max_executions: Option<u32>,
    /// `spec.pool.maxLifetimeSeconds`.
    pub max_lifetime_seconds: Option<u32>,
    /// With defaults.
    pub limits: PluginLimits,
    /// Chains of which other namespaces may name it; none is nobody.
    pub share_with: Option<Namespaces>,
    /// Whether entries of other namespaces may replace keys of `config`.
    pub config_overrides: bool,
    /// A type, source or guarding field that is not built: it cannot run.
    pub refusing: Option<Refusal>,
}

/// `spec.protocol`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolSetting {
    /// By its exports.
    #[default]
    Auto,
    /// Contract 1.0.
    Once,
    /// Message after message.
    Lines,
    /// Exported functions.
    Module,
}

impl ProtocolSetting {
    /// The protocol that is written; none is `Auto`.
    pub fn written(self) -> Option<Protocol> {
        match self {
            Self::Auto => None,
            Self::Once => Some(Protocol::Once),
            Self::Lines => Some(Protocol::Lines),
            Self::Module => Some(Protocol::Module),
        }
    }
}

/// Where a plugin's code is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceInput {
    /// In the object.
    Inline(String),
    /// A key of a ConfigMap of its namespace; the key's ending tells ESM from CommonJS.
    ConfigMap {
        /// The ConfigMap's name.
        name: String,
        /// The key.
        key: String,
    },
    /// A file below the plugin directory.
    Path(String),
    /// A source that is not built; the plugin's `refusing` says so.
    NotBuilt,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct ChainInput {
    /// Its object.
    pub key: ObjectKey,
    /// Its labels.
    pub labels: Labels,
    /// When it runs. Of an invalid chain whose phase cannot be read: Request.
    pub phase: Phase,
    /// `spec.order`, by default 100.
    pub order: i32,
    /// Gateways it is for; empty is every one of its namespace.
    pub gateways: Vec<ObjectKey>,
    /// Globs over upstream names and labels; none covers all in reach.
    pub upstreams: Option<UpstreamsInput>,
    /// Globs over tool names.
    pub include: Vec<String>,
    /// Globs that take out.
    pub exclude: Vec<String>,
    /// Methods; by default `tools/call`.
    pub methods: Vec<String>,
    /// `notifications: Pass`.
    pub notifications_pass: bool,
    /// In the order of the list.
    pub entries: Vec<EntryInput>,
}

/// `spec.upstreams` of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamsInput {
    /// Globs over names.
    pub names: Vec<String>,
    /// Labels.
    pub selector: Option<LabelSelector>,
}

/// One entry of a chain, absent fields absent.
#[derive(Clone, Debug)]
pub struct EntryInput {
    /// The Plugin it names, namespace filled in.
    pub plugin: ObjectKey,
    /// `order`; none is the Plugin's.
    pub order: Option<i64>,
    /// `enabled`, by default true.
    pub enabled: bool,
    /// Milliseconds.
    pub timeout_ms: Option<u32>,
    /// Above 0.
    pub max_tokens: Option<u32>,
    /// A JSON object whose keys replace the plugin's.
    pub config: Option<Box<RawValue>>,
    /// What it sees.
    pub view: View,
    /// CEL text.
    pub when: Option<String>,
    /// `failurePolicy`; none is the role's.
    pub failure_policy: Option<FailurePolicy>,
    /// Whether it acts.
    pub mode: Mode,
}

/// The key of [`Inputs::facts`]: digest of the text, and the ending that decides how it is parsed.
pub fn code_key(digest: &str, file_name: &str) -> String {
    let ending = file_name.rsplit_once('.').map_or("", |(_, ending)| ending);
    format!("{digest}.{ending}")
}
