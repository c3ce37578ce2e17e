//! Plans and extras that came from the cluster or from disk, and their versions.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::api::snapshot::{GatewaySnapshot, Shard, SnapshotIndex, SnapshotRevision};
use crate::api::{restrictions, seen};
use crate::config::compile::restrict;
use crate::domain::plan::{Plan, Refusal, Restrictions};
use crate::domain::reason::Reason;
use crate::domain::seen::SeenNames;

/// A version of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) uid: String,
    /// The object's generation, which rises with each change of its spec.
    pub(super) generation: i64,
    /// The object's resource version, which rises with each change in the cluster.
    pub(super) resource_version: u64,
}

impl Version {
    pub(super) fn of(snapshot: &GatewaySnapshot) -> Self {
        let meta = &snapshot.metadata;
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            resource_version: meta.resource_version.as_deref().and_then(|word| word.parse().ok()).unwrap_or_default(),
        }
    }

    /// Whether this version is older than `other`, as when a stale object was read.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        match self.uid == other.uid {
            true => self.generation < other.generation,
            false => self.resource_version < other.resource_version,
        }
    }
}

/// Returns the restrictions that an index puts on the running revision. `before` are the ones that applied last. `None`
/// if there are none to apply, as when an older operator wrote the index.
///
/// The restrictions of the current revision do not fit another revision: they leave out objects that the current
/// revision does not name at all, but an older one does.
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

/// Returns the restrictions of a running revision that the index does not list, or lists without restrictions. They
/// keep everything revoked that was revoked before, and also revoke everything that the index revokes in any revision.
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

/// The content of an index apart from its revisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexExtras {
    /// The restrictions to apply to the plan before it is put in force. `None` if the index was written by an operator
    /// that does not know restrictions: the plan then stays as it is.
    ///
    /// A stored file always has the field, even if the value is `null`. Earlier versions called it `acts`.
    #[serde(alias = "acts", deserialize_with = "understood")]
    pub restrictions: Option<Restrictions>,
    /// Tool names that any pod of the gateway has ever received from upstreams.
    #[serde(default)]
    pub seen_names: SeenNames,
}

impl IndexExtras {
    /// Returns the extras for a pod that runs the revision `running`. `before` are the restrictions that applied last.
    pub(super) fn of(index: &SnapshotIndex, running: &str, before: Option<&Restrictions>) -> Self {
        Self { restrictions: restrictions_of(index, running, before), seen_names: seen::read(index) }
    }
}

/// Reads restrictions from disk. If another version wrote them and this one does not understand all of them, every call
/// is refused, as for such restrictions in an index.
fn understood<'de, D: Deserializer<'de>>(written: D) -> Result<Option<Restrictions>, D::Error> {
    let Some(written) = Option::<Value>::deserialize(written)? else { return Ok(None) };
    let read = Restrictions::deserialize(&written).ok();
    // Members that this version does not know are missing when the result is serialized again.
    let is_whole = read.as_ref().is_some_and(|read| serde_json::to_value(read).is_ok_and(|known| known == written));
    let mut read = read.unwrap_or_default();
    if !is_whole {
        read.refusing.get_or_insert_with(|| Refusal {
            reason: Reason::UnknownFormat,
            message: "another version of the gateway stored restrictions that this version does not know: the gateway \
                      serves again once it has read its GatewaySnapshot from the API server"
                .to_owned(),
        });
    }
    Ok(Some(read))
}

/// A plan to put in force.
#[derive(Clone, Debug)]
pub struct Received {
    /// The plan. Its `revision` is the name in the index. Plugins with a path have no code yet.
    pub plan: Plan,
    /// The extras of the index for this plan.
    pub extras: IndexExtras,
    /// The objects of the plan, to store on disk once it is in force; `None` if they are on disk already.
    pub(super) from: Option<PlanObjects>,
}

impl Received {
    /// Returns the plan with its restrictions applied.
    pub fn in_force(&self) -> Plan {
        let mut plan = self.plan.clone();
        if let Some(restrictions) = &self.extras.restrictions {
            restrict(&mut plan, restrictions);
        }
        plan
    }
}

/// The snapshot objects that a plan was made from.
#[derive(Clone, Debug)]
pub(super) struct PlanObjects {
    pub(super) version: Version,
    pub(super) revision: SnapshotRevision,
    /// The shards, each with its name.
    pub(super) shards: Vec<(String, Shard)>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::ids::ObjectKey;
    use crate::domain::plan::Revoked;

    /// Returns the restrictions on `running` after `before`. The current revision of the index is `new`, with a stop;
    /// its other revision is `old`, with the restrictions in the argument `old`.
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
        let refusal = Refusal { reason: Reason::RequiredChainMissing, message: "m".into() };
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
