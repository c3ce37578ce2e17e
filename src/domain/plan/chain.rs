//! A chain: the calls that it covers, and its entries in the order in which they run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Refusal;
use super::label::LabelSelector;
use crate::domain::ids::ObjectKey;
use crate::domain::method::Method;
use crate::domain::plugin::{FailurePolicy, Mode, Phase, Role, View};

/// A chain in the form that was accepted, with its references resolved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChainPlan {
    /// Namespace and name of the PluginChain.
    pub key: ObjectKey,
    /// Digest of the chain, including the digests of its plugins' code; 12 hex characters.
    pub revision: String,
    /// The phase in which the chain runs.
    pub phase: Phase,
    /// Position among the chains with the same value of `owner`; lower runs first.
    pub order: i32,
    /// Whether the chain belongs to the gateway's owner: it is in the gateway's namespace, or the gateway requires it.
    /// Such chains can cover upstreams of any namespace, and run last.
    pub owner: bool,
    /// The MCP methods that the chain covers; by default only `tools/call`.
    pub methods: Vec<Method>,
    /// Whether `methods` is the default, because the chain sets none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default_methods: bool,
    /// The upstreams that the chain covers.
    pub upstreams: UpstreamScope,
    /// Globs that match the servers' own names of the tools that the chain covers. Empty means all tools.
    pub include: Vec<String>,
    /// Globs that match the servers' own names of tools that the chain does not cover, even if `include` matches them.
    pub exclude: Vec<String>,
    /// Whether log messages, and the texts of progress notifications, reach the client although the chain has a Guard
    /// on the response.
    pub notifications_pass: bool,
    /// The entries in the order in which they run.
    pub entries: Vec<EntryPlan>,
    /// If set, every call that the chain selects is refused: no accepted form of the chain is known, or it needs
    /// something that this version does not have.
    pub refusing: Option<Refusal>,
}

/// The upstreams that a chain covers. An upstream of `namespace` is covered if `all` is set, a glob in `names` matches
/// its name, or `selector` matches its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamScope {
    /// Only upstreams of this namespace can be covered; `None` means any namespace.
    pub namespace: Option<String>,
    /// Whether all upstreams of the namespace are covered, such as when the chain lists no names and no labels.
    pub all: bool,
    /// Globs that match the names of upstreams.
    pub names: Vec<String>,
    /// Label selector that matches upstreams.
    pub selector: Option<LabelSelector>,
}

/// An entry of a chain: one plugin, and how it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EntryPlan {
    /// Namespace and name of the Plugin.
    pub plugin: ObjectKey,
    /// Index of the entry in the chain's `spec.entries`, from 0.
    pub place: u32,
    /// Whether the entry is enabled. Its plugin can be disabled separately.
    pub enabled: bool,
    /// Timeout in milliseconds; `None` means the plugin's timeout.
    pub timeout_ms: Option<u32>,
    /// Token limit for plugins that shorten content; `None` means the limit in the call's `_meta`, if any.
    pub max_tokens: Option<u32>,
    /// The entry's `order`; `None` means the plugin's `order`.
    pub order: Option<i64>,
    /// The entry's configuration. Its keys replace the same keys in the plugin's configuration.
    pub config: Option<Box<RawValue>>,
    /// The part of a response that the entry sees.
    pub view: View,
    /// The CEL condition; `None` means that the entry always runs.
    pub when: Option<String>,
    /// `failurePolicy` as the chain sets it for the entry; `None` means the default of the plugin's role.
    pub written_policy: Option<FailurePolicy>,
    /// What a failure of the entry does to the call: `written_policy`, or the default of the role.
    pub failure_policy: FailurePolicy,
    /// `Shadow` if the entry runs without affecting calls.
    pub mode: Mode,
    /// The plugin's role; `Guard` for an entry that cannot run.
    pub role: Role,
    /// If set, the entry cannot run: it counts as a Guard that always fails.
    pub unavailable: Option<Refusal>,
}

impl EntryPlan {
    /// Returns the end of a message that each call is refused because the entry cannot run: whether its `when` excepts
    /// calls. In the response phase it excepts none, because the content is not known before a call is sent.
    pub fn exception(&self, phase: Phase) -> &'static str {
        if phase == Phase::Request && self.when.is_some() { ", unless the `when` of the entry is false" } else { "" }
    }

    /// If a setting lets calls pass although the entry is a Guard, returns the field of that setting and a description
    /// of the effect. An unavailable entry in mode Shadow is not reported, because it counts as a Guard whatever the
    /// role of its plugin.
    pub fn weakness(&self) -> Option<(&'static str, String)> {
        if !self.enabled || self.role != Role::Guard {
            return None;
        }
        match (self.mode, self.failure_policy) {
            (Mode::Shadow, _) if self.unavailable.is_some() => None,
            (Mode::Shadow, _) => {
                Some(("mode", "Shadow on a Guard: it only records, no call is denied or withheld".to_owned()))
            }
            (Mode::Enforce, FailurePolicy::Fail) => None,
            (Mode::Enforce, policy) => {
                Some(("failurePolicy", format!("{policy:?} on a Guard: where it fails, the call goes on unguarded")))
            }
        }
    }
}
