//! The plan: what a gateway is to do, as data. The compiler writes it, `link` makes it run.
//!
//! A plan holds references to secrets, never values, and plugin code by digest. It carries a format version, so that
//! gateways of neighbouring versions can read it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::ids::ObjectKey;
use super::plugin::{FailurePolicy, Mode, Phase, Protocol, Role, View};
use super::reason::Reason;

/// The format that this version writes.
pub const FORMAT_VERSION: u32 = 1;

/// Everything that one gateway runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Digest of all below it, 12 hex characters.
    pub revision: String,
    /// The gateway's own settings.
    pub gateway: GatewayPlan,
    /// What the gateway takes; none is everything there is, as the implicit gateway does.
    pub takes: Option<GatewayTakes>,
    /// In routing order: by creation, in a folder by file order.
    pub upstreams: Vec<UpstreamPlan>,
    /// Every plugin that was ever accepted and is still there, by key.
    pub plugins: Vec<PluginPlan>,
    /// In the order in which they run on a call that several select.
    pub chains: Vec<ChainPlan>,
    /// Plugin code by its SHA-256 in hex.
    pub code: BTreeMap<String, String>,
}

/// Why calls are refused, and where that was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// One word of the closed list.
    pub reason: Reason,
    /// For people.
    pub message: String,
}

/// The gateway's settings with every default filled in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GatewayPlan {
    /// Its object; `default/hawsepipe` where no manifest declares one.
    pub key: ObjectKey,
    /// Whether a manifest declares it.
    pub declared: bool,
    /// `spec.stopped`.
    pub stopped: bool,
    /// Whether `stopMode` is `Cancel`: calls in flight end too.
    pub stop_cancels: bool,
    /// Listeners that the manifest names; empty for the one of the command line.
    pub listeners: Vec<ListenerPlan>,
    /// Whether a manifest writes `anonymous: {}`.
    pub anonymous: bool,
    /// How tools are named.
    pub prefix: PrefixMode,
    /// What bounds calls.
    pub limits: Limits,
    /// What bounds plugins.
    pub runtime: Runtime,
    /// Seconds after which an idle session ends.
    pub session_idle_seconds: u32,
    /// Executions kept in memory for each plugin.
    pub history_per_plugin: u32,
    /// `error`, `warn`, `info`, `debug` or `trace`; none where the manifest says nothing.
    pub log_level: Option<String>,
    /// Chains that must be in force before any call is served.
    pub required: Vec<ObjectKey>,
    /// Every call is refused: a required chain is missing, or a guarding setting cannot be enforced.
    pub refusing: Option<Refusal>,
}

/// One address that clients come in by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerPlan {
    /// Its name, unique in the gateway.
    pub name: String,
    /// TCP port.
    pub port: u16,
    /// Path of the endpoint for all upstreams.
    pub path: String,
    /// Accepted Host headers besides loopback; lower case, without port.
    pub hosts: Vec<String>,
    /// Accepted Origin headers; none means that browsers are refused.
    pub allowed_origins: Vec<String>,
    /// A setting that guards and cannot be enforced: the listener does not open.
    pub refusing: Option<Refusal>,
}

/// How a tool's public name comes about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrefixMode {
    /// `{upstream}__{tool}`.
    #[default]
    Always,
    /// Its own name, unless an upstream before it was ever seen to have it.
    OnConflict,
    /// Its own name; a conflict leaves the later one out.
    Never,
}

/// What bounds calls, for each gateway process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Calls at once.
    pub concurrent_calls: u32,
    /// Milliseconds for an upstream's answer.
    pub call_timeout_ms: u32,
    /// Milliseconds for a call as a whole; progress does not move it.
    pub call_ceiling_ms: u32,
    /// Milliseconds for an upstream's list.
    pub list_timeout_ms: u32,
    /// Bytes of a request body.
    pub max_request_size: u64,
    /// Bytes of an upstream's answer.
    pub max_response_size: u64,
    /// Calls at once for each session or principal; none is no limit.
    pub session_concurrent_calls: Option<u32>,
    /// Calls in all for each session or principal; none is no limit.
    pub session_total_calls: Option<u64>,
}

/// What bounds plugins, for each gateway process. Names, ranges and defaults are document 000's PluginConfiguration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// The folder that `source.path` starts in.
    pub plugin_dir: PathBuf,
    /// Node's program: a path, or a name that PATH resolves.
    pub node_executable: PathBuf,
    /// Plugin executions at once (1 to 100).
    pub max_concurrent_executions: u32,
    /// Warm workers for each plugin (0 to 20).
    pub pool_size_per_plugin: u32,
    /// Milliseconds where neither entry nor plugin says otherwise (100 to 600,000).
    pub default_timeout_ms: u32,
    /// Executions that may wait for a worker.
    pub max_queued_executions: u32,
    /// Milliseconds that one may wait.
    pub queue_timeout_ms: u32,
    /// Bytes of content in workers and queues together.
    pub max_bytes_in_flight: u64,
    /// A sandbox that cannot be enforced is required: no plugin runs.
    pub refusing: Option<Refusal>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrent_calls: 1000,
            call_timeout_ms: 30_000,
            call_ceiling_ms: 600_000,
            list_timeout_ms: 5000,
            max_request_size: 4 << 20,
            max_response_size: 16 << 20,
            session_concurrent_calls: Some(25),
            session_total_calls: None,
        }
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            plugin_dir: PathBuf::from("/plugins"),
            node_executable: PathBuf::from("node"),
            max_concurrent_executions: 10,
            pool_size_per_plugin: 5,
            default_timeout_ms: 30_000,
            max_queued_executions: 100,
            queue_timeout_ms: 1000,
            max_bytes_in_flight: 64 << 20,
            refusing: None,
        }
    }
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self { max_input: 8 << 20, max_output: 8 << 20, max_stderr: 64 << 10 }
    }
}

/// What a declared gateway takes. Kept in the plan for when an edit of the gateway is not valid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayTakes {
    /// Upstreams.
    pub upstreams: Takes,
    /// Chains.
    pub chains: Takes,
}

/// Which objects a gateway takes: of which namespaces, with which labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takes {
    /// Namespaces.
    pub namespaces: Namespaces,
    /// Labels of the objects; an empty selector is all.
    pub selector: LabelSelector,
}

/// A set of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespaces {
    /// The object's own.
    #[default]
    Same,
    /// These.
    Names(Vec<String>),
    /// Those with these labels.
    Selector(LabelSelector),
    /// Every one.
    All,
}

/// Where a value comes from. Secrets are resolved when the plan is linked, in the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueSource {
    /// Written in the manifest, or read from a ConfigMap.
    Literal(String),
    /// A key of a Secret in the object's own namespace.
    Secret {
        /// The Secret.
        secret: ObjectKey,
        /// The key in it.
        key: String,
        /// Whether its lack is no fault.
        optional: bool,
    },
    /// A variable of the gateway's own environment (standalone only).
    Environment(String),
}

/// A header or an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: ValueSource,
}

/// One upstream with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamPlan {
    /// Its object. The name alone is unique in a gateway.
    pub key: ObjectKey,
    /// Its labels, for `upstream.labels` in CEL.
    pub labels: BTreeMap<String, String>,
    /// `spec.enabled`.
    pub enabled: bool,
    /// How it is reached.
    pub transport: TransportPlan,
    /// Which era to speak.
    pub era: EraSetting,
    /// Milliseconds to connect, headers included.
    pub connect_timeout_ms: u32,
    /// Milliseconds for a call's answer; none is the gateway's.
    pub call_timeout_ms: Option<u32>,
    /// Milliseconds after which an unused upstream session is closed.
    pub idle_timeout_ms: u32,
    /// How its health is judged.
    pub health: HealthPlan,
    /// Whether arguments are checked against the tool's input schema.
    pub validate_arguments: bool,
    /// Calls at once.
    pub concurrent_calls: Option<u32>,
    /// Bytes of an answer; none is the gateway's.
    pub max_response_size: Option<u64>,
    /// Globs over the server's own tool names; empty is all.
    pub include: Vec<String>,
    /// Globs that take out.
    pub exclude: Vec<String>,
    /// What is changed about single tools.
    pub overrides: Vec<ToolOverride>,
    /// A guarding setting cannot be enforced, or something it needs is missing: its calls are refused.
    pub refusing: Option<Refusal>,
}

/// How an upstream is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransportPlan {
    /// Streamable HTTP to a URL.
    External {
        /// Its endpoint.
        url: String,
        /// Headers to send along.
        headers: Vec<NamedValue>,
    },
    /// A child process that speaks on stdin and stdout.
    Process {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// The folder it starts in.
        cwd: PathBuf,
        /// Variables besides PATH, HOME, USER, LANG, TMPDIR.
        env: Vec<NamedValue>,
    },
    /// Nothing that can be reached here; `refusing` says why.
    None,
}

/// Which protocol era to speak with an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EraSetting {
    /// Modern first, else legacy; what was found is kept.
    #[default]
    Auto,
    /// `initialize` and sessions.
    Legacy,
    /// 2026-07-28, stateless.
    Modern,
}

/// How health is judged (document 003, ServerHealthStatus).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthPlan {
    /// Seconds between probes.
    pub period_seconds: u32,
    /// Milliseconds for a probe.
    pub timeout_ms: u32,
    /// A wait for each retry; when the last fails too, the upstream leaves routing.
    pub retry_backoff_ms: Vec<u32>,
    /// Whether an upstream that left is probed on.
    pub auto_recover: bool,
}

/// What is changed about one tool, by the server's own name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOverride {
    /// The server's own name for it.
    pub name: String,
    /// Another word for clients.
    pub rename: Option<String>,
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Not listed and not callable.
    pub hidden: bool,
    /// Milliseconds for its calls.
    pub timeout_ms: Option<u32>,
    /// A guarding part of it cannot be enforced: its calls are refused.
    pub refusing: Option<Refusal>,
}

/// A plugin in the form that was accepted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginPlan {
    /// Its object.
    pub key: ObjectKey,
    /// 8 hex characters of the hash of its identity: document 000's Plugin.id, stable over edits.
    pub id: String,
    /// SHA-256 of its code in hex; the key into [`Plan::code`].
    pub digest: String,
    /// File name that the code is written under: its ending tells ESM from CommonJS.
    pub file_name: String,
    /// The folder whose other files the code may import, for code from a `path`.
    pub folder: Option<PathBuf>,
    /// Digest of those other files; empty where there is no folder.
    #[serde(default)]
    pub siblings: String,
    /// What it is for.
    pub role: Role,
    /// Phases it serves.
    pub phases: Vec<Phase>,
    /// How it is spoken with, `Auto` resolved.
    pub protocol: Protocol,
    /// `spec.enabled`.
    pub enabled: bool,
    /// Of an entry that names none.
    pub order: i64,
    /// Globs over upstream names; empty is all.
    pub filter_upstreams: Vec<String>,
    /// Globs over tool names; empty is all.
    pub filter_tools: Vec<String>,
    /// Milliseconds; none is the gateway's default.
    pub timeout_ms: Option<u32>,
    /// Its own configuration.
    pub config: Option<Box<RawValue>>,
    /// Its environment, all of it.
    pub env: Vec<NamedValue>,
    /// Warm workers; none is the gateway's `poolSizePerPlugin`.
    pub pool_size: Option<u32>,
    /// Bytes of input, output, and stderr a call.
    pub limits: PluginLimits,
}

/// Bytes that one execution may use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PluginLimits {
    /// Content in.
    pub max_input: u64,
    /// Content out.
    pub max_output: u64,
    /// Standard error a call; beyond it the worker is replaced.
    pub max_stderr: u64,
}

/// A chain in the form that was accepted, references resolved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChainPlan {
    /// Its object.
    pub key: ObjectKey,
    /// 12 hex characters over the chain and its plugins' digests.
    pub revision: String,
    /// When it runs.
    pub phase: Phase,
    /// Among chains of its group.
    pub order: i32,
    /// Whether it is the gateway owner's: of its namespace, or required. Those run last and reach every upstream.
    pub owner: bool,
    /// MCP methods it covers; `tools/call` unless it says otherwise.
    pub methods: Vec<String>,
    /// Names (globs) and labels of upstreams it covers.
    pub upstreams: UpstreamScope,
    /// Globs over the servers' own tool names; empty is all.
    pub include: Vec<String>,
    /// Globs that take out.
    pub exclude: Vec<String>,
    /// Whether the free text of progress and log messages passes although a Guard is on the response.
    pub notifications_pass: bool,
    /// In the order in which they run.
    pub entries: Vec<EntryPlan>,
    /// It refuses all that it selects: no form of it ever compiled, or it needs what is not built.
    pub refusing: Option<Refusal>,
}

/// Which upstreams a chain covers: what either line names, within its reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamScope {
    /// Only upstreams of this namespace; none reaches all.
    pub namespace: Option<String>,
    /// Whether it names any; if not, every upstream in reach is covered.
    pub all: bool,
    /// Globs over names.
    pub names: Vec<String>,
    /// Labels.
    pub selector: Option<LabelSelector>,
}

/// A Kubernetes label selector, all of whose lines must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelSelector {
    /// Exact values.
    pub match_labels: BTreeMap<String, String>,
    /// Sets.
    pub match_expressions: Vec<LabelExpression>,
}

/// One line of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelExpression {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: LabelOperator,
    /// With what.
    pub values: Vec<String>,
}

/// The operators of label selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelOperator {
    /// Has one of the values.
    In,
    /// Has none of them, or is absent.
    NotIn,
    /// Is there.
    Exists,
    /// Is absent.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether `labels` satisfy every line.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(k, v)| labels.get(k) == Some(v))
            && self.match_expressions.iter().all(|e| {
                let value = labels.get(&e.key);
                match e.operator {
                    LabelOperator::In => value.is_some_and(|v| e.values.contains(v)),
                    LabelOperator::NotIn => value.is_none_or(|v| !e.values.contains(v)),
                    LabelOperator::Exists => value.is_some(),
                    LabelOperator::DoesNotExist => value.is_none(),
                }
            })
    }
}

/// One plugin's place in a chain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EntryPlan {
    /// The plugin.
    pub plugin: ObjectKey,
    /// Its index in `spec.entries`.
    pub place: u32,
    /// `enabled` of the entry.
    pub enabled: bool,
    /// Milliseconds; none is the plugin's.
    pub timeout_ms: Option<u32>,
    /// For curating plugins.
    pub max_tokens: Option<u32>,
    /// `order` of the entry; none is the plugin's.
    pub order: Option<i64>,
    /// Keys that replace those of the plugin's configuration.
    pub config: Option<Box<RawValue>>,
    /// What of a response it sees.
    pub view: View,
    /// CEL text.
    pub when: Option<String>,
    /// `failurePolicy` of the entry.
    pub written_policy: Option<FailurePolicy>,
    /// What its failure does, the role's default filled in.
    pub failure_policy: FailurePolicy,
    /// Whether it acts.
    pub mode: Mode,
    /// The plugin's role; `Guard` for what cannot run.
    pub role: Role,
    /// It cannot run: it counts as a Guard that always fails.
    pub unavailable: Option<Refusal>,
}

impl Plan {
    /// The plugin under `key`.
    pub fn plugin(&self, key: &ObjectKey) -> Option<&PluginPlan> {
        self.plugins.iter().find(|p| p.key == *key)
    }

    /// The chain under `key`.
    pub fn chain(&self, key: &ObjectKey) -> Option<&ChainPlan> {
        self.chains.iter().find(|c| c.key == *key)
    }

    /// The upstream of this name.
    pub fn upstream(&self, name: &str) -> Option<&UpstreamPlan> {
        self.upstreams.iter().find(|u| u.key.name == name)
    }

    /// Blanks where people put secrets although they should not, for showing the plan: values of headers and variables,
    /// arguments of processes, what of a URL is no address.
    pub fn hide_values(&mut self) {
        for upstream in &mut self.upstreams {
            match &mut upstream.transport {
                TransportPlan::External { url, .. } => *url = address_of(url),
                TransportPlan::Process { args, .. } => args.iter_mut().for_each(|arg| "[hidden]".clone_into(arg)),
                TransportPlan::None => {}
            }
        }
        let upstreams = self.upstreams.iter_mut().filter_map(|upstream| match &mut upstream.transport {
            TransportPlan::External { headers, .. } => Some(headers),
            TransportPlan::Process { env, .. } => Some(env),
            TransportPlan::None => None,
        });
        for value in upstreams.chain(self.plugins.iter_mut().map(|p| &mut p.env)).flatten() {
            if let ValueSource::Literal(text) = &mut value.value {
                "[hidden]".clone_into(text);
            }
        }
    }
}

/// A URL without user, query and fragment.
fn address_of(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = plain.split_once("://") else { return plain.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_address_holds_no_user_and_no_query() {
        for (url, address) in [
            ("https://user:pw@host:8443/mcp?token=x#y", "https://host:8443/mcp"),
            ("http://host/a@b", "http://host/a@b"),
            ("http://host", "http://host"),
        ] {
            assert_eq!(super::address_of(url), address);
        }
    }
}
