//! The inputs of the compiler: the custom resources in neutral form. Each field holds its value or is absent; defaults
//! that depend on nothing but the object are already filled in.

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

/// Everything that is compiled into the plan of one gateway.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The gateway; `None` for a folder that declares none, which gets an implicit gateway.
    pub gateway: Option<GatewayInput>,
    /// Folder that paths of plugins are relative to, if the gateway names none.
    pub default_plugin_dir: PathBuf,
    /// Upstreams, oldest first; in a folder, in the order of the files.
    pub upstreams: Vec<UpstreamInput>,
    /// Plugins, in any order.
    pub plugins: Vec<PluginInput>,
    /// Chains, in any order.
    pub chains: Vec<ChainInput>,
    /// Objects that exist but are invalid; their last accepted form stays in force.
    pub invalid: Vec<InvalidObject>,
    /// Data of ConfigMaps, or why one cannot be read although it might exist.
    pub config_maps: BTreeMap<ObjectKey, ConfigMapData>,
    /// URLs of servers, or why one has none, by the namespace and the object that the upstream refers to.
    pub servers: BTreeMap<(String, ServerInput), Result<String, (Reason, String)>>,
    /// Labels of namespaces. Of a namespace that is missing here, only `kubernetes.io/metadata.name` is known.
    pub namespaces: BTreeMap<String, Labels>,
    /// Files of plugins with `source.path`.
    pub files: Files,
    /// Whether only the gateway can read those files. If so, such plugins are planned without code, and the gateway
    /// completes its plan ([`super::compile::complete`]).
    pub files_elsewhere: bool,
    /// Forms of plugins that a gateway could not load.
    pub not_loaded: BTreeMap<ObjectKey, NotLoaded>,
    /// Objects whose new form is too large for the room that other objects leave in the gateway's plan, and why.
    pub no_room: BTreeMap<ObjectId, String>,
    /// The facts that parsing found about code, by the [`code_key`] of text and file name.
    pub facts: BTreeMap<String, CodeFacts>,
    /// Keys of code that is being parsed for the first time; facts about it will be available soon.
    pub parsing: BTreeSet<String>,
}

/// A form of a plugin that a gateway could not load.
#[derive(Clone, Debug)]
pub struct NotLoaded {
    /// The form, as [`PluginPlan::form`] identifies it.
    pub form: String,
    /// Error message of the gateway.
    pub message: String,
    /// The preceding form with its code; `None` if it is unknown.
    pub before: Option<Arc<(PluginPlan, String)>>,
}

/// Data of a ConfigMap, or why it cannot be read.
pub type ConfigMapData = Result<BTreeMap<String, String>, (Reason, String)>;

/// Files of plugins by their paths relative to the plugin folder, or why a file cannot be read.
pub type Files = BTreeMap<String, Result<FileCode, Unread>>;

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unread {
    /// Whether the file cannot be read, is too large, or is not text.
    pub reason: Reason,
    /// Human-readable explanation.
    pub message: String,
}

impl Unread {
    /// Creates the error from its reason and message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The content of a plugin file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCode {
    /// Text of the file.
    pub text: String,
    /// Folder of the file, whose other files the code can import.
    pub folder: PathBuf,
    /// Digest of those other files. Workers are replaced if it changes.
    pub siblings: String,
}

/// An object that violates its schema or a rule. Its Problems are reported by the code that found them.
#[derive(Clone, Debug)]
pub struct InvalidObject {
    /// Identifies the object.
    pub id: ObjectId,
    /// For a chain: what it selects, as far as it can be read, without entries. `None` if that is unknown; the chain
    /// then selects everything on each gateway that takes chains of its namespace.
    pub chain: Option<ChainInput>,
    /// Whether the object asks to be switched off (`enabled: false` of an upstream, `stopped: true` of a gateway) or
    /// on; `None` if it asks for neither.
    pub off: Option<bool>,
}

/// An MCPGateway in the form that the compiler reads.
#[derive(Clone, Debug)]
pub struct GatewayInput {
    /// Settings of the gateway, with defaults.
    pub plan: GatewayPlan,
    /// Upstreams that the gateway takes.
    pub upstreams: Takes,
    /// Chains that the gateway takes.
    pub chains: Takes,
    /// Revision that pods must keep running, in a cluster; `None` if the gateway is not pinned.
    pub pinned: Option<String>,
}

/// An MCPUpstream in the form that the compiler reads. When references are resolved, `values` become the headers or
/// variables of its plan.
#[derive(Clone, Debug)]
pub struct UpstreamInput {
    /// Settings of the upstream, with defaults.
    pub plan: UpstreamPlan,
    /// Headers or environment variables, as written.
    pub values: Vec<NamedInput>,
    /// Object that publishes the server's address, if the upstream refers to one.
    pub server: Option<ServerInput>,
    /// Other namespaces whose gateways can take the upstream; `None` permits none.
    pub share_with: Option<Namespaces>,
}

/// An object in the cluster that publishes the address of an MCP server: a Service, or an object with
/// `status.address.url`. It is in the same namespace as the upstream that refers to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerInput {
    /// API group of the object; empty for the core group.
    pub group: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Number or name of a Service's port.
    pub port: Option<String>,
    /// Path of the endpoint; `None` keeps the path of the URL, and means `/mcp` for a Service.
    pub path: Option<String>,
}

/// A header or environment variable, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInput {
    /// Name of the header or variable.
    pub name: String,
    /// Where the value comes from.
    pub value: InputValue,
    /// Path of the field, for Problems.
    pub field: String,
}

/// Where a value comes from. References are to objects of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputValue {
    /// Written in the object itself.
    Literal(String),
    /// A key of a ConfigMap.
    ConfigMap {
        /// Name of the ConfigMap.
        name: String,
        /// Key in its data.
        key: String,
        /// Whether the key can be missing.
        optional: bool,
    },
    /// A key of a Secret.
    Secret {
        /// Name of the Secret.
        name: String,
        /// Key in its data.
        key: String,
        /// Whether the key can be missing.
        optional: bool,
    },
    /// A variable of the gateway's own environment.
    Environment(String),
}

/// A Plugin in the form that the compiler reads.
#[derive(Clone, Debug)]
pub struct PluginInput {
    /// Namespace and name of the Plugin.
    pub key: ObjectKey,
    /// `spec.enabled`.
    pub enabled: bool,
    /// `spec.role`. Default: Transform.
    pub role: Role,
    /// `spec.phases`; `None` means the phases that the code's exports support, or both.
    pub phases: Option<Vec<Phase>>,
    /// `spec.order`. Default: 0.
    pub order: i64,
    /// `spec.protocol`.
    pub protocol: ProtocolSetting,
    /// Where the code comes from.
    pub source: SourceInput,
    /// Digest that the code must have, in hexadecimal; `None` accepts any code.
    pub sha256: Option<String>,
    /// Globs over upstream names; empty matches all.
    pub filter_upstreams: Vec<String>,
    /// Globs over tool names; empty matches all.
    pub filter_tools: Vec<String>,
    /// Time limit of one execution in milliseconds; `None` is the gateway's default.
    pub timeout_ms: Option<u32>,
    /// `spec.config`, a JSON object as canonical text.
    pub config: Option<Box<RawValue>>,
    /// JSON Schema that `config` must match, including the keys that an entry replaces.
    pub config_schema: Option<serde_json::Value>,
    /// Environment variables, as written.
    pub env: Vec<NamedInput>,
    /// Addresses, as `host:port`, that the plugin can connect to.
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
    /// Limits of executions and workers, with defaults.
    pub limits: PluginLimits,
    /// Other namespaces whose chains can use the plugin; `None` permits none.
    pub share_with: Option<Namespaces>,
    /// Whether entries of other namespaces can replace keys of `config`.
    pub config_overrides: bool,
    /// Why the plugin cannot run: its type, its source or a protective setting is not implemented.
    pub refusing: Option<Refusal>,
}

/// `spec.protocol` of a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolSetting {
    /// The code's exports decide.
    #[default]
    Auto,
    /// Contract 1.0: one execution per process.
    Once,
    /// The script reads and answers one message after another.
    Lines,
    /// The code exports functions.
    Module,
}

impl ProtocolSetting {
    /// Returns the protocol that the manifest names, or `None` for `Auto`.
    pub fn written(self) -> Option<Protocol> {
        match self {
            Self::Auto => None,
            Self::Once => Some(Protocol::Once),
            Self::Lines => Some(Protocol::Lines),
            Self::Module => Some(Protocol::Module),
        }
    }
}

/// Where a plugin's code comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceInput {
    /// Code in the object itself.
    Inline(String),
    /// A key of a ConfigMap in the same namespace; its extension decides between ES module and CommonJS.
    ConfigMap {
        /// Name of the ConfigMap.
        name: String,
        /// Key in its data.
        key: String,
    },
    /// A file, by its path relative to the plugin folder.
    Path(String),
    /// A source that is not implemented; the plugin's `refusing` says so.
    NotBuilt,
}

/// A PluginChain in the form that the compiler reads.
#[derive(Clone, Debug)]
pub struct ChainInput {
    /// Namespace and name of the PluginChain.
    pub key: ObjectKey,
    /// Labels of the PluginChain.
    pub labels: Labels,
    /// Phase in which the chain runs; Request for an invalid chain whose phase cannot be read.
    pub phase: Phase,
    /// `spec.order`. Default: 100.
    pub order: i32,
    /// Gateways that the chain is for; empty means every gateway of its namespace.
    pub gateways: Vec<ObjectKey>,
    /// Upstreams that the chain covers; `None` covers all within reach.
    pub upstreams: Option<UpstreamsInput>,
    /// Globs over the names of tools to include; empty includes all.
    pub include: Vec<String>,
    /// Globs over the names of tools to exclude.
    pub exclude: Vec<String>,
    /// MCP methods that the chain covers. Default: `tools/call`.
    pub methods: Vec<String>,
    /// Whether `spec.notifications` is `Pass`.
    pub notifications_pass: bool,
    /// Entries in the order of the list.
    pub entries: Vec<EntryInput>,
}

/// `spec.upstreams` of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamsInput {
    /// Globs over upstream names.
    pub names: Vec<String>,
    /// Label selector over upstreams.
    pub selector: Option<LabelSelector>,
}

/// An entry of a chain in the form that the compiler reads, without defaults from its plugin.
#[derive(Clone, Debug)]
pub struct EntryInput {
    /// Plugin that the entry names.
    pub plugin: ObjectKey,
    /// `order`; `None` is the plugin's.
    pub order: Option<i64>,
    /// `enabled`. Default: true.
    pub enabled: bool,
    /// Time limit of one execution in milliseconds; `None` is the plugin's.
    pub timeout_ms: Option<u32>,
    /// Token limit that is handed to the plugin, at least 1; `None` is the one in the call's `_meta`.
    pub max_tokens: Option<u32>,
    /// JSON object whose keys replace those of the plugin's configuration.
    pub config: Option<Box<RawValue>>,
    /// What the plugin sees of a response.
    pub view: View,
    /// CEL condition; `None` means that the plugin always runs.
    pub when: Option<String>,
    /// `failurePolicy`; `None` is the default of the plugin's role.
    pub failure_policy: Option<FailurePolicy>,
    /// Whether the plugin's answer takes effect.
    pub mode: Mode,
}

/// Returns the key of code in [`Inputs::facts`]: the digest of its text and the file extension, which decides how it is
/// parsed.
pub fn code_key(digest: &str, file_name: &str) -> String {
    let ending = file_name.rsplit_once('.').map_or("", |(_, ending)| ending);
    format!("{digest}.{ending}")
}
