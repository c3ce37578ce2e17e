//! Joins the shards of a revision into its plan, or reports why that is not possible.

use std::collections::HashMap;
use std::sync::Arc;

use crate::api::pack::{UnpackError, is_known, unpack};
use crate::api::snapshot::{Shard, ShardRef, SnapshotRevision};
use crate::config::shards::{JoinError, PieceKind, is_readable, join};
use crate::domain::plan::Plan;
use crate::domain::reason::Reason;
use crate::domain::report::PendingReport;

/// Why a revision cannot be run.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// The plan has a format that this version does not know.
    #[error("it has format {0}, which this version does not know: bring gateway and operator to neighbouring versions")]
    Format(u32),
    /// A shard does not exist.
    #[error("its shard {0} is not there")]
    Absent(String),
    /// A shard does not have the digest or kind that the index names.
    #[error("its shard {0} is not the one that the index names")]
    Mismatch(String),
    /// The object of a shard cannot be parsed.
    #[error("its shard {name} cannot be read: {error}")]
    Invalid { name: String, error: String },
    /// A shard cannot be unpacked.
    #[error("its shard {name}: {error}")]
    Packed { name: String, error: UnpackError },
    /// The shards cannot be joined into a plan.
    #[error("{0}")]
    Plan(#[from] JoinError),
}

impl Unusable {
    fn reason(&self) -> Reason {
        match self {
            Self::Format(_)
            | Self::Plan(JoinError::Format { .. } | JoinError::Features(_))
            | Self::Packed { error: UnpackError::Kind(_), .. } => Reason::UnknownFormat,
            Self::Absent(_) | Self::Plan(JoinError::Missing { .. } | JoinError::Gateways(_)) => {
                Reason::SnapshotIncomplete
            }
            Self::Mismatch(_) | Self::Invalid { .. } | Self::Packed { .. } | Self::Plan(_) => {
                Reason::SnapshotUnreadable
            }
        }
    }

    /// Creates the report about a revision that cannot be run.
    pub(super) fn report(&self, revision: &str) -> PendingReport {
        let reason = self.reason().as_str().to_owned();
        PendingReport { revision: revision.to_owned(), reason, message: self.to_string() }
    }
}

/// The result of looking up a shard by its name.
pub(super) enum ShardLookup<'s> {
    Shard(&'s Shard),
    Invalid(&'s str),
    Absent,
}

/// The unpacked shards of the last revision by digest, so that an edit unpacks only the shards that it changed.
#[derive(Default)]
pub(super) struct ShardCache {
    known: HashMap<String, (PieceKind, Arc<str>)>,
}

impl ShardCache {
    /// Returns the plan of a revision. The plan's `revision` is the name of the revision in the index.
    pub(super) fn plan<'s>(
        &mut self,
        revision: &SnapshotRevision,
        find: impl Fn(&str) -> ShardLookup<'s>,
    ) -> Result<Plan, Unusable> {
        if !is_readable(revision.format_version) {
            return Err(Unusable::Format(revision.format_version));
        }
        let mut parts = HashMap::with_capacity(revision.shards.len());
        for named in revision.shards.iter().filter(|shard| is_known(shard.kind)) {
            let shard = match find(&named.name) {
                ShardLookup::Shard(shard) => shard,
                ShardLookup::Invalid(error) => {
                    return Err(Unusable::Invalid { name: named.name.clone(), error: error.to_owned() });
                }
                ShardLookup::Absent => return Err(Unusable::Absent(named.name.clone())),
            };
            parts.insert(named.sha256.clone(), self.part(named, shard)?);
        }
        let mut plan = join(parts.values().map(|(kind, json)| (*kind, &**json)))?;
        plan.revision.clone_from(&revision.revision);
        self.known = parts;
        Ok(plan)
    }

    fn part(&self, named: &ShardRef, shard: &Shard) -> Result<(PieceKind, Arc<str>), Unusable> {
        if shard.sha256 != named.sha256 || shard.kind != named.kind {
            return Err(Unusable::Mismatch(named.name.clone()));
        }
        if let Some(known) = self.known.get(&named.sha256) {
            return Ok(known.clone());
        }
        let unpacked = unpack(shard).map_err(|error| Unusable::Packed { name: named.name.clone(), error })?;
        Ok((unpacked.0, unpacked.1.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::pack::{pack, reference, revision};
    use crate::api::snapshot::tests::empty_revision;
    use crate::config::compile::compile;
    use crate::config::compile::tests::{add_plugin, folder};
    use crate::config::input::Inputs;
    use crate::config::shards::split;
    use crate::domain::plan::FORMAT_VERSION;

    type Shards = HashMap<String, Shard>;

    fn packed(inputs: &Inputs) -> (SnapshotRevision, Shards) {
        let (plan, _) = compile(inputs, None);
        let packed: Vec<_> =
            split(&plan).iter().map(|piece| (reference("main", piece).unwrap(), pack(piece).unwrap())).collect();
        let shards: Vec<_> = packed.iter().map(|(named, _)| named.clone()).collect();
        let objects = packed.into_iter().map(|(named, shard)| (named.name, shard)).collect();
        let name = revision(&shards, &[]);
        let revision = SnapshotRevision { format_version: FORMAT_VERSION, shards, ..empty_revision(&name) };
        (revision, objects)
    }

    fn find<'s>(shards: &'s Shards) -> impl Fn(&str) -> ShardLookup<'s> {
        |name| shards.get(name).map_or(ShardLookup::Absent, ShardLookup::Shard)
    }

    #[test]
    fn a_revision_becomes_the_plan_that_it_was_made_from() {
        let inputs = folder();
        let (revision, shards) = packed(&inputs);
        let plan = ShardCache::default().plan(&revision, find(&shards)).unwrap();
        let written = compile(&inputs, None).0;
        assert_eq!(plan.revision, revision.revision);
        let plan = Plan { revision: written.revision.clone(), ..plan };
        assert_eq!(serde_json::to_string(&plan).unwrap(), serde_json::to_string(&written).unwrap());
    }

    #[test]
    fn an_edit_unpacks_only_what_it_touched() {
        let mut inputs = folder();
        let (first, shards) = packed(&inputs);
        let mut parts = ShardCache::default();
        parts.plan(&first, find(&shards)).unwrap();
        add_plugin(&mut inputs, "new", |_| {});
        let (second, mut shards) = packed(&inputs);
        // Known shards must not be unpacked again, so invalid data in them does not matter.
        for named in &first.shards {
            if let Some(shard) = shards.get_mut(&named.name) {
                "!".clone_into(&mut shard.data);
            }
        }
        assert!(parts.plan(&second, find(&shards)).is_ok());
        assert!(ShardCache::default().plan(&second, find(&shards)).is_err());
        assert_eq!(parts.known.len(), second.shards.len(), "nothing else is kept");
    }

    #[test]
    fn what_is_not_whole_is_refused_with_its_reason() {
        let (revision, shards) = packed(&folder());
        let reason = |revision: &SnapshotRevision, shards: &Shards| {
            let unusable = ShardCache::default().plan(revision, find(shards)).unwrap_err();
            unusable.report("r").reason
        };
        let name = &revision.shards[0].name;
        let without = |change: &dyn Fn(&mut Shards)| {
            let mut shards = shards.clone();
            change(&mut shards);
            shards
        };
        let absent = without(&|shards| drop(shards.remove(name)));
        assert_eq!(reason(&revision, &absent), "SnapshotIncomplete");
        let torn = without(&|shards| shards.get_mut(name).unwrap().data.truncate(8));
        assert_eq!(reason(&revision, &torn), "SnapshotUnreadable");
        let other = without(&|shards| shards.get_mut(name).unwrap().sha256 = "0".repeat(64));
        assert_eq!(reason(&revision, &other), "SnapshotUnreadable");
        let newer = SnapshotRevision { format_version: FORMAT_VERSION + 1, ..revision.clone() };
        assert_eq!(reason(&newer, &shards), "UnknownFormat");
        let mut fewer = revision.clone();
        fewer.shards.retain(|shard| shard.kind != crate::api::snapshot::ShardKind::Chains);
        assert_eq!(reason(&fewer, &shards), "SnapshotIncomplete");
        let invalid = |_: &str| ShardLookup::Invalid("unknown variant");
        assert!(matches!(ShardCache::default().plan(&revision, invalid), Err(Unusable::Invalid { .. })));
    }
}
