//! Reads stored snapshots from a cluster.

use std::collections::HashMap;

use anyhow::{Context, bail};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::api::item::Item;
use crate::api::pack;
use crate::api::snapshot::{GATEWAY_LABEL, GatewaySnapshot, PART_LABEL, Shard, SnapshotIndex, SnapshotRevision};
use crate::cli::refused::Asked;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Plan;

/// Returns the indexes of all gateways in `namespace`, or in all namespaces if `namespace` is `None`, sorted by
/// namespace and name.
///
/// # Errors
/// If the GatewaySnapshots cannot be listed.
pub async fn indices(client: Client, namespace: Option<&str>) -> anyhow::Result<Vec<(ObjectKey, SnapshotIndex)>> {
    let api: Api<Item<GatewaySnapshot>> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let params = ListParams::default().labels(&format!("{PART_LABEL}=index"));
    let asked = Asked::of::<GatewaySnapshot>(&["list"], namespace);
    let list = api.list(&params).await.map_err(|error| asked.failed("gatewaysnapshots cannot be listed", &error))?;
    let indices = list.items.into_iter().filter_map(|Item(object)| {
        let key = ObjectKey::new(object.namespace()?, object.spec.gateway);
        Some((key, object.spec.index?))
    });
    let mut indices: Vec<_> = indices.collect();
    indices.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(indices)
}

/// The index and the shards of one gateway.
pub struct Stored {
    key: ObjectKey,
    index: SnapshotIndex,
    shards: HashMap<String, Shard>,
}

impl Stored {
    /// Reads the GatewaySnapshots of a gateway.
    ///
    /// # Errors
    /// If the GatewaySnapshots cannot be listed, or the gateway has no index.
    pub async fn read(client: Client, key: ObjectKey) -> anyhow::Result<Self> {
        let api: Api<Item<GatewaySnapshot>> = Api::namespaced(client, &key.namespace);
        let params = ListParams::default().labels(&format!("{GATEWAY_LABEL}={}", key.name));
        let asked = Asked::of::<GatewaySnapshot>(&["list"], Some(&key.namespace));
        let list = api.list(&params).await.map_err(|error| {
            asked.failed(&format!("gatewaysnapshots in {} cannot be listed", key.namespace), &error)
        })?;
        let (mut index, mut shards) = (None, HashMap::new());
        for Item(object) in list.items {
            let name = object.name_any();
            match (object.spec.index, object.spec.shard) {
                (Some(found), _) if name == key.name => index = Some(found),
                (_, Some(shard)) => drop(shards.insert(name, shard)),
                _ => {}
            }
        }
        let index = index.with_context(|| {
            format!("nothing is compiled for MCPGateway {key}: is it there, and does an operator watch its namespace?")
        })?;
        Ok(Self { key, index, shards })
    }

    /// Returns the revision whose name begins with `wanted`, or the current revision if `wanted` is `None`.
    ///
    /// # Errors
    /// If no kept revision, or more than one, begins with `wanted`.
    pub fn revision(&self, wanted: Option<&str>) -> anyhow::Result<&SnapshotRevision> {
        let wanted = wanted.unwrap_or(&self.index.current);
        let revisions = &self.index.revisions;
        let found: Vec<_> = revisions.iter().filter(|revision| revision.revision.starts_with(wanted)).collect();
        match found[..] {
            [one] => Ok(one),
            _ => {
                let kept: Vec<_> = revisions.iter().map(|revision| revision.revision.as_str()).collect();
                let kept = kept.join(", ");
                let key = &self.key;
                if found.is_empty() {
                    bail!("MCPGateway {key} has no revision {wanted:?}; kept are {kept}")
                }
                bail!("several revisions of MCPGateway {key} begin with {wanted:?}; kept are {kept}")
            }
        }
    }

    /// Returns the plan of a revision, chosen as in [`Stored::revision`].
    ///
    /// # Errors
    /// If the revision is not kept, is damaged, or has a format that this version does not know.
    pub fn plan(&self, wanted: Option<&str>) -> anyhow::Result<Plan> {
        let revision = self.revision(wanted)?;
        let plan = pack::plan(revision, &self.shards);
        plan.with_context(|| format!("revision {} of MCPGateway {} cannot be read", revision.revision, self.key))
    }
}
