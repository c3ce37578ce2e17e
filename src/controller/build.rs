//! Packs a plan into the objects that store it. Pure functions.

use std::collections::BTreeSet;

use super::owner::Owner;
use crate::api::pack::{self, TooLarge};
use crate::api::snapshot::{GatewaySnapshot, GatewaySnapshotSpec, ShardRef, SnapshotIndex, SnapshotRevision};
use crate::config::shards::split;
use crate::domain::plan::{EntryPlan, PhasePluginPlan, PipelinePlan, Plan, UpstreamPlan};
use crate::domain::reason::Reason;

/// Maximum number of shards in a revision, as in the CRD schema.
const MAX_SHARDS: usize = 1024;

/// A revision's entry in the index, and those of its shards that are not stored yet.
#[derive(Clone, Debug)]
pub(super) struct BuiltRevision {
    pub(super) entry: SnapshotRevision,
    pub(super) lacking: Vec<GatewaySnapshot>,
}

/// Why a plan cannot be stored.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum BuildError {
    /// A shard exceeds the size limit.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The plan splits into more than [`MAX_SHARDS`] shards.
    #[error("the plan has {0} pieces, where {MAX_SHARDS} are the most: give this gateway fewer plugins")]
    TooMany(usize),
    /// The pinned revision is not kept, and there is no current revision to keep running.
    #[error("spec.pinnedRevision: there is no revision {0}; nothing runs until the field is taken out")]
    NotKept(String),
}

/// Removes the plugins that the plan does not load, as no chain or pipeline that their owner lets use them runs them, and their code:
/// code of other namespaces stays out of the gateway's snapshot, and this gateway has no part in the status of such a plugin.
pub(super) fn prune(plan: &mut Plan) {
    let may_use =
        |entry: &&EntryPlan| entry.unavailable.as_ref().is_none_or(|refusal| refusal.reason != Reason::RefNotPermitted);
    let entries = plan.chains.iter().flat_map(|chain| &chain.entries).filter(may_use);
    let steps = plan.upstreams.iter().filter_map(UpstreamPlan::pipeline).flat_map(PipelinePlan::plugins);
    let may_run = |step: &&PhasePluginPlan| {
        step.unavailable.as_ref().is_none_or(|refusal| refusal.reason != Reason::RefNotPermitted)
    };
    let steps = steps.filter(may_run).map(|step| step.key.clone());
    let helpers = plan.upstreams.iter().flat_map(UpstreamPlan::helpers).map(|helper| helper.key.clone());
    let loaded = helpers.chain(plan.stage_plugins().cloned());
    let used: BTreeSet<_> = entries.map(|entry| entry.plugin.clone()).chain(steps).chain(loaded).collect();
    plan.plugins.retain(|plugin| used.contains(&plugin.key));
    let digests: BTreeSet<_> = plan.plugins.iter().map(|plugin| plugin.digest.clone()).collect();
    plan.code.retain(|digest, _| digests.contains(digest));
}

/// Builds the revision that holds `plan`. A shard for which `is_stored` returns true is not packed again. The name of
/// the revision differs from that of every other revision in `kept`.
///
/// # Errors
/// See [`BuildError`].
pub(super) fn revision(
    owner: &Owner,
    plan: &Plan,
    is_stored: impl Fn(&ShardRef) -> bool,
    kept: &[SnapshotRevision],
    now: String,
) -> Result<BuiltRevision, BuildError> {
    let mut entries = Vec::new();
    let mut lacking = Vec::new();
    let pieces = split(plan);
    if pieces.len() > MAX_SHARDS {
        return Err(BuildError::TooMany(pieces.len()));
    }
    for piece in pieces {
        let entry = pack::reference(&owner.key.name, &piece)?;
        if !is_stored(&entry) {
            let shard = Some(pack::pack(&piece)?);
            let spec = GatewaySnapshotSpec { gateway: owner.key.name.clone(), index: None, shard };
            lacking.push(GatewaySnapshot { metadata: owner.metadata(&entry.name, Some("shard")), spec });
        }
        entries.push(entry);
    }
    let inputs = plan.upstreams.len() + plan.plugins.len() + plan.chains.len() + plan.sections.len() + 1;
    let entry = SnapshotRevision {
        revision: pack::revision(&entries, kept),
        created_time: Some(now),
        format_version: plan.format_version,
        compiled_by: Some(env!("CARGO_PKG_VERSION").to_owned()),
        inputs: u32::try_from(inputs).ok(),
        problems: None,
        restrictions: None,
        shards: entries,
    };
    Ok(BuiltRevision { entry, lacking })
}

/// Returns the Kubernetes object that holds the index.
pub(super) fn index_object(owner: &Owner, index: SnapshotIndex) -> GatewaySnapshot {
    let spec = GatewaySnapshotSpec { gateway: owner.key.name.clone(), index: Some(index), shard: None };
    GatewaySnapshot { metadata: owner.metadata(&owner.key.name, Some("index")), spec }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::compile::compile;
    use crate::config::compile::tests::{add_plugin, chain, empty, plugin_of};
    use crate::controller::{GATEWAY_LABEL, MANAGED_BY, PART_LABEL};
    use crate::domain::ids::ObjectKey;
    use crate::domain::plan::Namespaces;

    #[test]
    fn a_plan_holds_no_plugin_that_is_not_shared_with_those_who_name_it() {
        let mut inputs = empty();
        add_plugin(&mut inputs, "lib/p", |_| {});
        inputs.chains.push(chain("uses", &["lib/p"]));
        for (shared_with, held) in [(None, 0), (Some(Namespaces::Same), 0), (Some(Namespaces::All), 1)] {
            plugin_of(&mut inputs, "lib/p").share_with = shared_with;
            let (mut plan, _) = compile(&inputs, None);
            prune(&mut plan);
            assert_eq!((plan.plugins.len(), plan.code.len()), (held, held));
            assert_eq!(plan.chains[0].entries.len(), 1, "its entry fails, or runs");
        }
    }

    #[test]
    fn what_is_written_is_labelled_and_goes_with_its_gateway() {
        let owner = Owner::gateway(ObjectKey::new("ns", "gw"), "u");
        let object = index_object(
            &owner,
            SnapshotIndex {
                current: "a".into(),
                revisions: Vec::new(),
                restrictions: None,
                not_loaded: None,
                seen_names: None,
            },
        );
        let expected = json!({
            "name": "gw", "namespace": "ns",
            "labels": {GATEWAY_LABEL: "gw", MANAGED_BY.0: MANAGED_BY.1, PART_LABEL: "index"},
            "ownerReferences": [{
                "apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPGateway", "name": "gw", "uid": "u", "controller": true,
            }],
        });
        assert_eq!(serde_json::to_value(&object.metadata).unwrap(), expected);
        assert!(owner.owns(&object.metadata));
        assert!(!Owner { uid: "other".into(), ..owner }.owns(&object.metadata));
    }
}
