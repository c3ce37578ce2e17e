//! A chain: the calls that it covers, and its entries in the order in which they run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Refusal;
use super::label::LabelSelector;
use crate::domain::ids::ObjectKey;
use crate::domain::plugin::{FailurePolicy, Mode, Phase, Role, View};

/// A chain in the form that was accepted, with its references resolved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChainPlan {
    /// The PluginChain object.
    pub key: ObjectKey,
    /// Digest of the chain and its plugins' digests, 12 hex characters.
    pub revision: String,
    /// The phase in which it runs.
    pub phase: Phase,
    /// Its place among the chains of its group: lower numbers run first.
    pub order: i32,
    /// Whether it belongs to the gateway's owner: it is in the gateway's namespace, or the gateway requires it. Such
    /// chains run last and can cover every upstream.
    pub owner: bool,
    /// The MCP methods that it covers; by default only `tools/call`.
    pub methods: Vec<String>,
    /// The upstreams that it covers.
    pub upstreams: UpstreamScope,
    /// Globs over the servers' own tool names that it covers; empty means all tools.
    pub include: Vec<String>,
    /// Globs over tool names that it does not cover.
    pub exclude: Vec<String>,
    /// Whether the text of progress and log messages reaches the client even if the chain has a Guard on the response.
    pub notifications_pass: bool,
    /// The entries in the order in which they run.
    pub entries: Vec<EntryPlan>,
    /// If set, every call that the chain selects is refused: no form of it ever compiled, or it needs something that
    /// this version does not have.
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
    /// Globs over the names of upstreams.
    pub names: Vec<String>,
    /// Selector of the labels of upstreams.
    pub selector: Option<LabelSelector>,
}

/// The place of one plugin in a chain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EntryPlan {
    /// The Plugin object.
    pub plugin: ObjectKey,
    /// Its index in `spec.entries`.
    pub place: u32,
    /// `enabled` of the entry.
    pub enabled: bool,
    /// Timeout in milliseconds; `None` means that of the plugin.
    pub timeout_ms: Option<u32>,
    /// The most tokens that a curating plugin should return.
    pub max_tokens: Option<u32>,
    /// `order` of the entry; `None` means that of the plugin.
    pub order: Option<i64>,
    /// Configuration whose keys replace those of the plugin's configuration.
    pub config: Option<Box<RawValue>>,
    /// The part of a response that the entry sees.
    pub view: View,
    /// The CEL condition.
    pub when: Option<String>,
    /// `failurePolicy` of the entry.
    pub written_policy: Option<FailurePolicy>,
    /// What a failure of the entry does, with the role's default filled in.
    pub failure_policy: FailurePolicy,
    /// Whether the entry affects calls.
    pub mode: Mode,
    /// The plugin's role; `Guard` for an entry that cannot run.
    pub role: Role,
    /// If set, the entry cannot run: it counts as a Guard that always fails.
    pub unavailable: Option<Refusal>,
}

impl EntryPlan {
    /// Returns the field that lets calls pass in spite of a Guard, and a description of the effect. An unavailable
    /// entry in mode Shadow is not reported: it counts as a Guard only because it cannot run.
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
