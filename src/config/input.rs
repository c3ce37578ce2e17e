//! The inputs of the compiler: custom resources, and the data that they refer to, in the compiler's own types. Defaults
//! that depend on the object alone are already filled in; a field whose default depends on something else is `None` if
//! it is not set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::access::AccessTest;
use super::config_schema::{ConfigSchema, ConfigVerdicts};
pub use super::pipeline_input::PipelineInput;
pub use super::plugin_file::{FileCode, Files, Unread};
pub use super::section_input::SectionInput;
pub use super::wrapper_input::WrapperInput;
use crate::domain::descriptor::Descriptor;
use crate::domain::ids::{ObjectId, ObjectKey};
use crate::domain::method::Method;
use crate::domain::plan::{GatewayPlan, ImagePlan, LabelSelector, PluginLimits, PluginPlan, Refusal, UpstreamPlan};
pub use crate::domain::plan::{Namespaces, Takes};
use crate::domain::plugin::{Encoding, FailurePolicy, Mode, Phase, PluginKind, Protocol, Role, View};
use crate::domain::ports::CodeFacts;
use crate::domain::reason::Reason;

/// Labels of an object or a namespace.
pub type Labels = BTreeMap<String, String>;

/// Everything that is compiled into the plan of one gateway.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The gateway. `None` if the gateway is invalid and therefore listed in `invalid`, or if the folder declares no
    /// gateway and gets an implicit one.
    pub gateway: Option<GatewayInput>,
    /// Plugin folder of an implicit gateway; `source.path` of a plugin is relative to it. A declared gateway has its
    /// own setting.
    pub default_plugin_dir: PathBuf,
    /// Upstreams, oldest first; in a folder, in the order of the files.
    pub upstreams: Vec<UpstreamInput>,
    /// Plugins, in any order.
    pub plugins: Vec<PluginInput>,
    /// Chains, in any order.
    pub chains: Vec<ChainInput>,
    /// Pipelines, oldest first; in a folder, in the order of the files.
    pub pipelines: Vec<PipelineInput>,
    /// Bindings of sections, oldest first; in a folder, in the order of the files.
    pub sections: Vec<SectionInput>,
    /// Objects that exist but are invalid. The last accepted form of each stays in force.
    pub invalid: Vec<InvalidObject>,
    /// Data of each ConfigMap, or the reason why it cannot be read although it might exist.
    pub config_maps: BTreeMap<ObjectKey, ConfigMapData>,
    /// URL of each server that an upstream refers to, or the reason why there is none. A key consists of the upstream's
    /// namespace and the reference.
    pub servers: BTreeMap<(String, ServerInput), Result<String, (Reason, String)>>,
    /// URL of each managed upstream's server, or the reason why there is none.
    pub managed: BTreeMap<ObjectKey, Result<String, (Reason, String)>>,
    /// Upstreams that pods were told not to call in an older revision. As long as it is not known who has the address of a
    /// managed one, that stays so.
    pub revoked: BTreeSet<ObjectKey>,
    /// Labels of each namespace. Of one that is missing here, only `kubernetes.io/metadata.name` is known.
    pub namespaces: BTreeMap<String, Labels>,
    /// Files of the plugins that have `source.path`.
    pub files: Files,
    /// Whether only the gateway, and not this process, can read the files of plugins with `source.path`. If so, these
    /// plugins are planned without code, and the gateway completes its plan ([`super::compile::complete`]).
    pub files_elsewhere: bool,
    /// Whether the pods of gateways are not made by this process, so that nothing mounts the images of plugins.
    pub no_pods: bool,
    /// For each plugin that a gateway could not load: the form that failed.
    pub not_loaded: BTreeMap<ObjectKey, NotLoaded>,
    /// Objects whose new form does not fit into the room that others leave in the gateway's plan, and what to report.
    pub no_room: BTreeMap<ObjectId, String>,
    /// The facts that parsing found about code. The keys are those of [`code_key`].
    pub facts: BTreeMap<String, CodeFacts>,
    /// Keys ([`code_key`]) of code that is being parsed for the first time; facts about it will be available soon.
    pub parsing: BTreeSet<String>,
    /// What checks of configurations found in earlier compilations.
    pub config_verdicts: Arc<ConfigVerdicts>,
}

/// A form of a plugin that a gateway could not load.
#[derive(Clone, Debug)]
pub struct NotLoaded {
    /// Identifier of the form, as returned by [`PluginPlan::form`].
    pub form: String,
    /// Error message that the gateway reported.
    pub message: String,
    /// The preceding form with its code; `None` if it is unknown.
    pub before: Option<Arc<(PluginPlan, String)>>,
}

/// Data of a ConfigMap, or why it cannot be read: a reason and a message.
pub type ConfigMapData = Result<BTreeMap<String, String>, (Reason, String)>;

/// An object that violates its schema or a rule. Its Problems are reported by the code that found them.
#[derive(Clone, Debug)]
pub struct InvalidObject {
    /// Identifies the object.
    pub id: ObjectId,
    /// For a chain: the settings that decide what it selects, as far as they can be read; the entries are left out.
    /// `None` if they cannot be read: a chain that was never accepted then counts as selecting every tool call within
    /// its reach.
    pub chain: Option<ChainInput>,
    /// Labels of the object; `None` if they cannot be read.
    pub labels: Option<Labels>,
    /// `Some(true)` if the object asks to be switched off (`enabled: false` of an upstream, `stopped: true` of a
    /// gateway), `Some(false)` if it asks to be switched on, `None` if it asks for neither.
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
    /// Pipelines that the gateway takes.
    pub pipelines: Takes,
    /// Bindings of sections that the gateway takes.
    pub sections: Takes,
    /// Plugins of types other than middleware that the gateway takes.
    pub plugins: Takes,
    /// Whether the folders below the plugin folder are plugins too, which no object declares.
    pub discovers: bool,
    /// Tests of the gateway's rules, or why one of them cannot be run.
    pub access_tests: Vec<Result<AccessTest, String>>,
    /// In a cluster, the revision that the gateway's pods must keep running; `None` if the gateway is not pinned.
    pub pinned: Option<String>,
}

/// An MCPUpstream in the form that the compiler reads. Values go into `plan` when references are resolved.
#[derive(Clone, Debug)]
pub struct UpstreamInput {
    /// Settings of the upstream, with defaults.
    pub plan: UpstreamPlan,
    /// Headers or environment variables, as written.
    pub values: Vec<NamedInput>,
    /// Certificates for the connection, and the secret of OAuth.
    pub tls: Vec<NamedInput>,
    /// Object that publishes the server's address, if the upstream refers to one.
    pub server: Option<ServerInput>,
    /// Server that the operator runs for the upstream, if there is one.
    pub managed: Option<ManagedInput>,
    /// Other namespaces whose gateways can take the upstream; `None` permits none.
    pub share_with: Option<Namespaces>,
}

/// A server that the operator runs for an upstream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagedInput {
    /// Port of the MCP endpoint.
    pub port: u16,
    /// Path of the MCP endpoint.
    pub path: String,
    /// Field of the upstream that contradicts another one, with a message. The server then stays as it is.
    pub fault: Option<(String, String)>,
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
    /// For a Service: number or name of its port.
    pub port: Option<String>,
    /// Path of the endpoint. `None` means `/mcp` for a Service, and the path of the published URL for any other object.
    pub path: Option<String>,
}

/// A header or environment variable, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInput {
    /// Name of the header or variable.
    pub name: String,
    /// Where the value comes from.
    pub value: InputValue,
    /// Path of the field in the manifest, for Problems.
    pub field: String,
}

/// The source of a value. ConfigMaps and Secrets are in the same namespace as the object that refers to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputValue {
    /// The value itself, as written in the object.
    Literal(String),
    /// A key of a ConfigMap.
    ConfigMap {
        /// Name of the ConfigMap.
        name: String,
        /// Key in its data.
        key: String,
        /// Whether the value is left out, without a Problem, if the ConfigMap or the key does not exist.
        optional: bool,
    },
    /// A key of a Secret.
    Secret {
        /// Name of the Secret.
        name: String,
        /// Key in its data.
        key: String,
        /// Whether the value is left out, without an error, if the Secret or the key does not exist.
        optional: bool,
    },
    /// A variable of the gateway's own environment, or a text that refers to some of them.
    Environment(String),
}

/// A Plugin in the form that the compiler reads.
#[derive(Clone, Debug)]
pub struct PluginInput {
    /// Namespace and name of the Plugin.
    pub key: ObjectKey,
    /// Labels of the Plugin.
    pub labels: Labels,
    /// `spec.type`. Default: middleware.
    pub kind: PluginKind,
    /// `spec.descriptor`.
    pub descriptor: Descriptor,
    /// `spec.enabled`.
    pub enabled: bool,
    /// `spec.role`. Default: Transform.
    pub role: Role,
    /// `spec.phases`; `None` means every phase that the code supports.
    pub phases: Option<Vec<Phase>>,
    /// `spec.order`. Default: 0.
    pub order: i64,
    /// `spec.protocol`. Default: Auto.
    pub protocol: ProtocolSetting,
    /// Where the code comes from.
    pub source: SourceInput,
    /// `spec.wrapper`; `None` if the code is JavaScript.
    pub wrapper: Option<WrapperInput>,
    /// Digest that the code must have, in hexadecimal; `None` accepts any code.
    pub sha256: Option<String>,
    /// Globs over upstream names; empty matches all.
    pub filter_upstreams: Vec<String>,
    /// Globs over tool names; empty matches all.
    pub filter_tools: Vec<String>,
    /// Time limit of one execution in milliseconds; `None` means the gateway's default.
    pub timeout_ms: Option<u32>,
    /// `spec.config`, a JSON object as canonical text.
    pub config: Option<Box<RawValue>>,
    /// JSON Schema that `config` must match, including the keys that an entry replaces.
    pub config_schema: Option<Arc<ConfigSchema>>,
    /// Environment variables, as written.
    pub env: Vec<NamedInput>,
    /// Addresses, as `host:port`, that the plugin can connect to.
    pub egress: Vec<String>,
    /// `spec.reuse`, for protocol Once: whether a warm worker runs the script again in a fresh context.
    pub reuse: bool,
    /// `spec.encoding`, for protocol Lines: the format of the messages.
    pub encoding: Encoding,
    /// `spec.pool.size`: the number of warm workers; `None` means the gateway's `poolSizePerPlugin`.
    pub pool_size: Option<u32>,
    /// `spec.pool.concurrency`, for protocol Module: maximum number of concurrent executions in one worker.
    pub concurrency: u32,
    /// `spec.pool.maxExecutions`: executions after which a worker is replaced; `None` means the protocol's default.
    pub max_executions: Option<u32>,
    /// `spec.pool.maxLifetimeSeconds`: seconds after which a worker is replaced; `None` means 3600.
    pub max_lifetime_seconds: Option<u32>,
    /// Limits of executions and workers, with defaults.
    pub limits: PluginLimits,
    /// Other namespaces whose chains can use the plugin; `None` permits none.
    pub share_with: Option<Namespaces>,
    /// Whether entries of other namespaces can replace keys of `config`.
    pub config_overrides: bool,
    /// Set if the plugin cannot run because its type, its source or a protective setting is not implemented.
    pub refusing: Option<Refusal>,
}

/// The protocol that a manifest requests in `spec.protocol`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolSetting {
    /// The code's exports decide.
    #[default]
    Auto,
    /// The Plugin API Contract 1.0: each execution runs the whole script.
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
    /// A key of a ConfigMap in the same namespace. The extension of the key determines the module system; for `.js`,
    /// the syntax of the code does.
    ConfigMap {
        /// Name of the ConfigMap.
        name: String,
        /// Key in its data.
        key: String,
    },
    /// A file, by its path relative to the plugin folder.
    Path(String),
    /// A file of an image that the gateway's pods mount.
    Image {
        /// The image.
        image: ImagePlan,
        /// Path of the file, relative to the root of the image.
        path: String,
    },
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
    /// Upstreams that the chain covers; `None` means all within its reach.
    pub upstreams: Option<UpstreamsInput>,
    /// Globs over the names of tools to include; empty includes all.
    pub include: Vec<String>,
    /// Globs over the names of tools to exclude.
    pub exclude: Vec<String>,
    /// MCP methods that the chain covers. Default: `tools/call`.
    pub methods: Vec<Method>,
    /// Whether `methods` is the default, because the chain sets none.
    pub default_methods: bool,
    /// Whether `spec.notifications` is `Pass`: texts of progress and log messages pass although a Guard is on the response.
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

/// An entry of a chain in the form that the compiler reads. Defaults that come from the entry's plugin are not filled
/// in.
#[derive(Clone, Debug)]
pub struct EntryInput {
    /// Plugin that the entry names.
    pub plugin: ObjectKey,
    /// `order`; `None` means the `order` of the plugin.
    pub order: Option<i64>,
    /// `enabled`. Default: true.
    pub enabled: bool,
    /// Time limit of one execution in milliseconds; `None` means the plugin's.
    pub timeout_ms: Option<u32>,
    /// Token limit that is passed to the plugin, at least 1; `None` means the limit in the call's `_meta`.
    pub max_tokens: Option<u32>,
    /// JSON object whose keys replace those of the plugin's configuration.
    pub config: Option<Box<RawValue>>,
    /// What the plugin sees of a response.
    pub view: View,
    /// CEL condition; `None` means that the plugin always runs.
    pub when: Option<String>,
    /// `failurePolicy`; `None` means the default of the plugin's role.
    pub failure_policy: Option<FailurePolicy>,
    /// `Enforce` if the plugin's answer takes effect, `Shadow` if it is only recorded.
    pub mode: Mode,
}

/// Returns the key of code in [`Inputs::facts`]: the digest of the code's text, followed by the extension of
/// `file_name`, because the extension decides how the code is parsed.
pub fn code_key(digest: &str, file_name: &str) -> String {
    let ending = file_name.rsplit_once('.').map_or("", |(_, ending)| ending);
    format!("{digest}.{ending}")
}
