//! What came from the cluster or from disk, and how old it is.

use serde::{Deserialize, Serialize};

use crate::api::snapshot::{GatewaySnapshot, Shard, SnapshotRevision};
use crate::config::compile::obey;
use crate::domain::plan::{Acts, Plan};

/// Which state of an index something is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    /// The object's.
    pub(super) uid: String,
    /// Counts the object's changes.
    pub(super) generation: i64,
    /// Counts the changes of the whole cluster.
    pub(super) resource_version: u64,
}

impl Version {
    /// That of an index.
    pub(super) fn of(snapshot: &GatewaySnapshot) -> Self {
        let meta = &snapshot.metadata;
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            resource_version: meta.resource_version.as_deref().and_then(|word| word.parse().ok()).unwrap_or_default(),
        }
    }

    /// Whether it is from before `other`: somebody read it late.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        match self.uid == other.uid {
            true => self.generation < other.generation,
            false => self.resource_version < other.resource_version,
        }
    }
}

/// A plan to put in force.
#[derive(Clone, Debug)]
pub struct Received {
    /// It is called what the index calls it. Plugins with a path have no code yet.
    pub plan: Plan,
    /// What counts at once, to be applied to the plan before it is put in force. None where the index is of a version
    /// that does not say: then the plan stands as it is.
    pub acts: Option<Acts>,
    /// What it came from, to be kept once it is in force; none where it came from there.
    pub(super) from: Option<Origin>,
}

impl Received {
    /// The plan as it is to be run.
    pub fn in_force(&self) -> Plan {
        let mut plan = self.plan.clone();
        if let Some(acts) = &self.acts {
            obey(&mut plan, acts);
        }
        plan
    }
}

/// The objects of a plan.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) version: Version,
    pub(super) revision: SnapshotRevision,
    /// By name.
    pub(super) shards: Vec<(String, Shard)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_states_are_told_from_newer_ones() {
        let version =
            |uid: &str, generation, resource_version| Version { uid: uid.into(), generation, resource_version };
        for (a, b, before) in [
            (version("a", 1, 9), version("a", 2, 5), true),
            (version("a", 2, 5), version("a", 2, 9), false),
            (version("a", 3, 5), version("a", 2, 9), false),
            (version("b", 1, 9), version("a", 7, 5), false),
            (version("b", 9, 4), version("a", 7, 5), true),
        ] {
            assert_eq!(a.is_before(&b), before, "{a:?} {b:?}");
        }
    }
}
