//! A chain: what it covers, and its entries in the order in which they run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Refusal;
use super::label::LabelSelector;
use crate::domain::ids::ObjectKey;
use crate::domain::plugin::{FailurePolicy, Mode, Phase, Role, View};

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

impl EntryPlan {
    /// Which of its fields lets calls pass by a Guard, and what that means. What only counts as a Guard because it cannot
    /// run guarded nothing that a shadow would miss.
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
