//! What came from the cluster or from disk, and how old it is.

use serde::{Deserialize, Serialize};

use crate::api::snapshot::{GatewaySnapshot, Shard, SnapshotIndex, SnapshotRevision};
use crate::api::{restrictions, seen};
use crate::config::compile::restrict;
use crate::domain::plan::{Plan, Restrictions};
use crate::domain::seen::SeenNames;

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

/// What counts at once for the revision that runs, by what an index says now; `before` is what counted last. None where
/// an operator wrote the index that does not say.
///
/// What the index says of the current revision is not true of another: what this one withdraws, that one never names.
fn restrictions_of(index: &SnapshotIndex, running: &str, before: Option<&Restrictions>) -> Option<Restrictions> {
    let current = index.restrictions.as_ref().map(restrictions::read);
    if index.current == running {
        return current;
    }
    let kept = index.revisions.iter().find(|revision| revision.revision == running);
    match kept.and_then(|revision| revision.restrictions.as_ref()) {
        Some(stored) => Some(restrictions::read(stored)),
        None => held(index, current, before),
    }
}

/// The same for a revision of which the index says nothing: nothing that was taken away comes back, and what any
/// revision lost this one lost too.
fn held(index: &SnapshotIndex, current: Option<Restrictions>, before: Option<&Restrictions>) -> Option<Restrictions> {
    let Some(mut held) = current else { return before.cloned() };
    held.refusing = before.and_then(|before| before.refusing.clone()).or(held.refusing);
    let of_others =
        index.revisions.iter().filter_map(|revision| revision.restrictions.as_ref()).map(restrictions::read);
    let lost = before.cloned().into_iter().chain(of_others).flat_map(|restrictions| restrictions.revoked);
    for revoked in lost {
        if !held.revoked.contains(&revoked) {
            held.revoked.push(revoked);
        }
    }
    Some(held)
}

/// What an index says besides its revisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IndexExtras {
    /// What counts at once, to be applied to the plan before it is put in force. None where the index is of a version
    /// that does not say: then the plan stands as it is.
    pub restrictions: Option<Restrictions>,
    /// Names of tools that upstreams were seen to have, by any pod of the gateway.
    pub seen_names: SeenNames,
}

impl IndexExtras {
    /// What the index says to a pod that runs this revision; see [`restrictions_of`].
    pub(super) fn of(index: &SnapshotIndex, running: &str, before: Option<&Restrictions>) -> Self {
        Self { restrictions: restrictions_of(index, running, before), seen_names: seen::read(index) }
    }
}

/// A plan to put in force.
#[derive(Clone, Debug)]
pub struct Received {
    /// The plan, named as in the index. Plugins with a path have no code yet.
    pub plan: Plan,
    /// What the index says besides the plan.
    pub extras: IndexExtras,
    /// The objects of the plan, to be stored on disk once it is in force; none if it came from disk.
    pub(super) from: Option<PlanObjects>,
}

impl Received {
    /// The plan to run.
    pub fn in_force(&self) -> Plan {
        let mut plan = self.plan.clone();
        if let Some(restrictions) = &self.extras.restrictions {
            restrict(&mut plan, restrictions);
        }
        plan
    }
}

/// The objects of a plan.
#[derive(Clone, Debug)]
pub(super) struct PlanObjects {
    pub(super) version: Version,
    pub(super) revision: SnapshotRevision,
    /// By name.
    pub(super) shards: Vec<(String, Shard)>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::ids::ObjectKey;
    use crate::domain::plan::Revoked;
    use crate::domain::reason::Reason;

    /// Of an index whose current revision is `new` and that keeps `old` with these restrictions, what counts for `running` after
    /// `before`.
    fn counts(old: &Value, running: &str, before: Option<&Restrictions>) -> Option<Restrictions> {
        let revision = |name: &str, restrictions: &Value| {
            let mut revision = json!({"revision": name, "formatVersion": 1, "shards": []});
            if !restrictions.is_null() {
                revision["acts"] = restrictions.clone();
            }
            revision
        };
        let revisions = [revision("new", &Value::Null), revision("old", old)];
        let index = json!({"current": "new", "revisions": revisions, "acts": {"stopped": true}});
        restrictions_of(&serde_json::from_value(index).unwrap(), running, before)
    }

    fn taken(name: &str) -> Restrictions {
        Restrictions { revoked: vec![Revoked::Upstream(ObjectKey::new("team", name))], ..Restrictions::default() }
    }

    #[test]
    fn what_was_taken_away_from_the_revision_that_runs_counts_while_another_is_current() {
        let up = json!({"stopped": false, "revoked": [{"kind": "MCPUpstream", "namespace": "team", "name": "up"}]});
        assert_eq!(counts(&up, "old", None), Some(taken("up")));
        assert_eq!(counts(&up, "old", Some(&taken("back"))), Some(taken("up")), "it is said of that revision");
        let stop = Restrictions { stopped: true, ..Restrictions::default() };
        assert_eq!(counts(&up, "new", Some(&taken("up"))), Some(stop), "the newest knows it by itself");
    }

    #[test]
    fn nothing_comes_back_to_a_revision_of_which_the_index_says_nothing() {
        let refusal = crate::domain::plan::Refusal { reason: Reason::RequiredChainMissing, message: "m".into() };
        let before = Restrictions { refusing: Some(refusal), ..taken("up") };
        let held = Restrictions { stopped: true, ..before.clone() };
        assert_eq!(counts(&Value::Null, "old", Some(&before)), Some(held));
        let up = json!({"stopped": false, "revoked": [{"kind": "MCPUpstream", "namespace": "team", "name": "up"}]});
        let found = counts(&up, "lost", Some(&taken("back"))).unwrap();
        assert_eq!(found.revoked, [taken("back").revoked, taken("up").revoked].concat());
        assert!(found.stopped);
    }

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
