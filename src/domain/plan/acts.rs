//! What counts at once, whatever revision a gateway runs.

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::domain::digest::revision;
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// The stop switch, and what was taken away since the plan that runs was compiled.
///
/// Edits wait while a gateway is pinned to an older plan. These do not: who stops a gateway, deletes an object or
/// withdraws consent relies on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acts {
    /// `spec.stopped`.
    pub stopped: bool,
    /// Whether `stopMode` is `Cancel`.
    pub stop_cancels: bool,
    /// Every call is refused.
    pub refusing: Option<Refusal>,
    /// What may not run any more.
    pub revoked: Vec<Revoked>,
}

/// Something that a plan names and that was taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Revoked {
    /// An upstream that was deleted, or is no longer shared with the gateway.
    Upstream(ObjectKey),
    /// A plugin that was deleted, or that a chain may no longer name.
    Plugin {
        /// The plugin.
        plugin: ObjectKey,
        /// The chain that may not name it; none is every chain.
        chain: Option<ObjectKey>,
        /// Why.
        refusal: Refusal,
    },
}

impl Acts {
    /// Twelve hex characters by which two of them are told apart; empty where there is nothing to obey.
    pub fn digest(&self) -> String {
        if *self == Self::default() { String::new() } else { revision(self) }
    }
}

impl Refusal {
    /// Why an entry may not run `plugin` any more.
    pub fn of_revoked(reason: Reason, plugin: &ObjectKey) -> Self {
        let message = match reason {
            Reason::PluginNotFound => format!("there is no Plugin {plugin}"),
            _ => format!("{plugin} is no longer shared with the chain's namespace as the chain uses it"),
        };
        Self { reason, message }
    }
}
