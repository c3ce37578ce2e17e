//! The kind GatewaySnapshot: what the operator compiled for one gateway. People do not write it.

// Several columns have the same type.
#![allow(clippy::duplicated_attributes)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::api::values::{DNS_LABEL, SHA256};
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// A label of everything that the operator makes for a gateway: the gateway's name.
pub const GATEWAY_LABEL: &str = "hawsepipe.dev/gateway";
/// A label of snapshots: `index` or `shard`.
pub const PART_LABEL: &str = "hawsepipe.dev/part";

/// One part of what a gateway's pods run: the index, which changes, or a shard, which never does.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "hawsepipe.dev",
    version = "v1alpha1",
    kind = "GatewaySnapshot",
    namespaced,
    derive = "PartialEq",
    doc = "One part of what a gateway's pods run; written by the operator only.",
    printcolumn(name = "GATEWAY", type_ = "string", json_path = ".spec.gateway"),
    printcolumn(name = "PART", type_ = "string", json_path = ".metadata.labels.hawsepipe\\.dev/part"),
    printcolumn(name = "KIND", type_ = "string", json_path = ".spec.shard.kind"),
    printcolumn(name = "REVISION", type_ = "string", json_path = ".spec.index.current"),
    printcolumn(name = "SIZE", type_ = "integer", json_path = ".spec.shard.sizeBytes"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = Rule::new(
    "(has(self.index) ? 1 : 0) + (has(self.shard) ? 1 : 0) == 1"
).message(
    "give exactly one of index, shard"
))]
pub struct GatewaySnapshotSpec {
    /// The gateway, of the same namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub gateway: String,
    /// Which shards make up each revision. Default: none; then it is a shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<SnapshotIndex>,
    /// A piece of plans. Default: none; then it is the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// The revisions that are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.revisions.exists(r, r.revision == self.current)"
).message(
    "index.current must be one of revisions"
))]
pub struct SnapshotIndex {
    /// What pods are to run.
    #[schemars(length(min = 12, max = 12))]
    pub current: String,
    /// Newest first: the current one, the last before it, and a pinned one.
    #[schemars(length(min = 1, max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["revision"]))]
    pub revisions: Vec<SnapshotRevision>,
    /// What counts at once, whatever revision pods run. Default: nothing, as operators before this one write it.
    #[serde(rename = "acts", default, deserialize_with = "understood", skip_serializing_if = "Option::is_none")]
    pub restrictions: Option<SnapshotRestrictions>,
    /// Forms of Plugins that a pod tried and could not load: the form before is in the newest revision in their place.
    /// Default: none.
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<Vec<NotLoadedForm>>,
    /// Names of tools that upstreams were ever seen to have, where tools keep their own names: no restart gives one to
    /// another upstream. Default: none.
    #[schemars(length(max = 4096), extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_names: Option<Vec<UpstreamNames>>,
}

/// Names of an upstream's tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamNames {
    /// The MCPUpstream's namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// The MCPUpstream's name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// The server's own names.
    #[schemars(length(max = 512), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "atomic"))]
    pub tools: Vec<String>,
}

/// A form of a Plugin that a pod could not load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotLoadedForm {
    /// The Plugin's namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// The Plugin's name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// The start of the digest of its code and settings.
    #[schemars(length(min = 12, max = 12))]
    pub form: String,
    /// What the pod says.
    #[schemars(length(max = 512))]
    pub message: String,
}

impl NotLoadedForm {
    /// Whether it is of this Plugin.
    pub fn is_of(&self, plugin: &ObjectKey) -> bool {
        self.namespace == plugin.namespace && self.name == plugin.name
    }
}

/// The stop switch, and what was taken away since a revision was compiled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRestrictions {
    /// `spec.stopped` of the gateway, whatever a revision says.
    pub stopped: bool,
    /// Whether calls in flight end too. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// Why every call is refused. Default: they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusing: Option<SnapshotRefusal>,
    /// What may not run any more. Default: nothing.
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Vec<Revocation>>,
}

/// Reads restrictions. Of those that another version wrote, and that this one does not understand as a whole, what it
/// understands counts, and every call is refused: none may be answered that the other version refuses.
fn understood<'de, D: Deserializer<'de>>(written: D) -> Result<Option<SnapshotRestrictions>, D::Error> {
    let Some(written) = Option::<Value>::deserialize(written)? else { return Ok(None) };
    let read = SnapshotRestrictions::deserialize(&written).ok();
    // What is not understood does not come back.
    let is_whole = read.as_ref().is_some_and(|read| serde_json::to_value(read).is_ok_and(|known| known == written));
    let mut read = read.unwrap_or_default();
    if !is_whole {
        read.refusing.get_or_insert_with(|| SnapshotRefusal {
            reason: Reason::UnknownFormat.as_str().to_owned(),
            message:
                "the operator says of this gateway what this version does not know: bring gateway and operator to \
                      the same version"
                    .to_owned(),
        });
    }
    Ok(Some(read))
}

/// Why calls are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRefusal {
    /// One word of the closed list.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// For people.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// An object that a revision names and that may not run any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revocation {
    /// `MCPUpstream` or `Plugin`. A gateway that does not know the word refuses every call.
    #[schemars(length(max = 64))]
    pub kind: String,
    /// Its namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// The namespace of the PluginChain that may not name the Plugin any more. Default: none; then no chain may.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_namespace: Option<String>,
    /// The name of that PluginChain. Default: none.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// One word of the closed list. Default: PluginNotFound.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One compiled plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRevision {
    /// The start of the digest of its list of shards.
    #[schemars(length(min = 12, max = 12))]
    pub revision: String,
    /// When it was compiled.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_time: Option<String>,
    /// Of the plan in its shards. A pod that does not know it keeps what it has.
    #[schemars(range(min = 1))]
    pub format_version: u32,
    /// The operator's version.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiled_by: Option<String>,
    /// Objects that went in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<u32>,
    /// Problems that were found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problems: Option<u32>,
    /// What counts at once for pods that run it while another is current. Default: not told, as for the current one.
    #[serde(rename = "acts", default, deserialize_with = "understood", skip_serializing_if = "Option::is_none")]
    pub restrictions: Option<SnapshotRestrictions>,
    /// Its pieces, by name.
    #[schemars(length(max = 1024))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub shards: Vec<ShardRef>,
}

/// A shard of a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardRef {
    /// The GatewaySnapshot that holds it.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// What is in it.
    pub kind: ShardKind,
    /// Which of its kind it is. Default: 0.
    #[schemars(range(max = 4095))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<u32>,
    /// Of the plain JSON.
    #[schemars(length(min = 64, max = 64), regex(pattern = SHA256))]
    pub sha256: String,
    /// Of the plain JSON.
    pub size_bytes: u32,
}

/// A piece of plans. Its name is its content, so it never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self == oldSelf"
).message(
    "a shard never changes: its name is its content"
))]
pub struct Shard {
    /// What is in it.
    pub kind: ShardKind,
    /// How `data` was made.
    pub encoding: ShardEncoding,
    /// Of the plain JSON; checked when it is read.
    #[schemars(length(min = 64, max = 64), regex(pattern = SHA256))]
    pub sha256: String,
    /// Of the plain JSON; no more is unpacked.
    pub size_bytes: u32,
    /// In base64.
    // Without `format: byte`: in the rule that a shard never changes an API server does not decode the standard alphabet,
    // and would refuse every write to the object's metadata.
    #[schemars(length(min = 1, max = 1_300_000))]
    pub data: String,
}

/// What a shard holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ShardKind {
    /// The gateway itself.
    Gateway,
    /// Upstreams.
    Upstreams,
    /// Chains and the plugins they run.
    Chains,
    /// Who may do what.
    Access,
    /// Pipelines.
    Pipelines,
    /// Bindings of sections.
    Sections,
    /// The text of a plugin.
    Code,
    /// What a newer operator writes. Never written.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// How a shard's JSON is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ShardEncoding {
    /// Zstandard (RFC 8878).
    JSONZstd,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A revision of this name without shards.
    pub(crate) fn empty_revision(name: &str) -> SnapshotRevision {
        SnapshotRevision {
            revision: name.to_owned(),
            created_time: None,
            format_version: 1,
            compiled_by: None,
            inputs: None,
            problems: None,
            restrictions: None,
            shards: Vec::new(),
        }
    }
}
