//! The GatewaySnapshot custom resource: what the operator compiled for one gateway. Users do not write such objects.

// The lint mistakes printer columns of the same type for duplicates.
#![allow(clippy::duplicated_attributes)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::api::values::{DNS_LABEL, SHA256};
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// Label of every object that the operator creates for a gateway; the label's value is the gateway's name.
pub const GATEWAY_LABEL: &str = "hawsepipe.dev/gateway";
/// Label of GatewaySnapshots; the label's value is `index` or `shard`.
pub const PART_LABEL: &str = "hawsepipe.dev/part";

/// One part of what a gateway's pods run: either the index, which the operator updates, or a shard, which never
/// changes.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "hawsepipe.dev",
    version = "v1alpha1",
    kind = "GatewaySnapshot",
    namespaced,
    derive = "PartialEq",
    doc = "One part of what a gateway's pods run: an index or a shard. Only the operator writes it.",
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
    /// Name of the MCPGateway, in the same namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub gateway: String,
    /// The index, which lists the kept revisions and the shards of each. Default: none, if the object is a shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<SnapshotIndex>,
    /// A shard, which is a part of one or more plans. Default: none, if the object is the index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// The kept revisions of a gateway, with the restrictions and other data that take effect without a new revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.revisions.exists(r, r.revision == self.current)"
).message(
    "index.current must be one of revisions"
))]
pub struct SnapshotIndex {
    /// Name of the revision that pods must run.
    #[schemars(length(min = 12, max = 12))]
    pub current: String,
    /// Kept revisions, newest first: at most the newest three and, if it is older, the current revision.
    #[schemars(length(min = 1, max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["revision"]))]
    pub revisions: Vec<SnapshotRevision>,
    /// Restrictions that take effect immediately, without a new revision, in pods that run the current revision.
    /// Default: none; an older operator may have written the index.
    #[serde(rename = "acts", default, deserialize_with = "understood", skip_serializing_if = "Option::is_none")]
    pub restrictions: Option<SnapshotRestrictions>,
    /// Versions of Plugins that a pod could not load. The newest revision contains the preceding version of each of
    /// these Plugins instead. Default: none.
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<Vec<NotLoadedForm>>,
    /// Names of all tools that each upstream ever listed, for gateways whose `upstreams.prefix` is OnConflict. Because
    /// of this list, a restart does not give a tool's name to the tool of another upstream. Default: none.
    #[schemars(length(max = 4096), extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_names: Option<Vec<UpstreamNames>>,
}

/// Tool names of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamNames {
    /// Namespace of the MCPUpstream.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// Name of the MCPUpstream.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// The server's own names of the tools.
    #[schemars(length(max = 512), inner(length(min = 1, max = 128)), extend("x-kubernetes-list-type" = "atomic"))]
    pub tools: Vec<String>,
}

/// A version of a Plugin that a pod could not load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotLoadedForm {
    /// Namespace of the Plugin.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// Name of the Plugin.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// First 12 characters of a digest over the Plugin's code and settings.
    #[schemars(length(min = 12, max = 12))]
    pub form: String,
    /// Error message of the pod.
    #[schemars(length(max = 512))]
    pub message: String,
}

impl NotLoadedForm {
    /// Whether this is a version of `plugin`.
    pub fn is_of(&self, plugin: &ObjectKey) -> bool {
        self.namespace == plugin.namespace && self.name == plugin.name
    }
}

/// The state of the stop switch, and the objects that were revoked after a revision was compiled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRestrictions {
    /// The gateway's `spec.stopped`, which applies to every revision.
    pub stopped: bool,
    /// Whether the stop switch also ends calls that are in flight. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// Why every call is refused. Default: calls are not refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusing: Option<SnapshotRefusal>,
    /// Objects that must no longer run. Default: none.
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Vec<Revocation>>,
}

/// Reads restrictions. If another version wrote restrictions that this version does not understand, the result contains
/// those that it does understand, and a refusal of every call, because any call could be one that the other version
/// refuses.
fn understood<'de, D: Deserializer<'de>>(written: D) -> Result<Option<SnapshotRestrictions>, D::Error> {
    let Some(written) = Option::<Value>::deserialize(written)? else { return Ok(None) };
    let read = SnapshotRestrictions::deserialize(&written).ok();
    // Members that this version does not know are lost when the result is serialized again.
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
    /// Machine-readable reason, such as RequiredChainMissing.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// Human-readable explanation.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// An object that a revision names but that must no longer run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revocation {
    /// `MCPUpstream` (also for a ToolPipeline) or `Plugin`. A gateway that does not know the kind refuses every call.
    #[schemars(length(max = 64))]
    pub kind: String,
    /// Namespace of the object.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Namespace of the PluginChain, ToolPipeline or MCPUpstream that must no longer run the Plugin. Default: none; the
    /// revocation then applies to all of them.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_namespace: Option<String>,
    /// Name of the PluginChain, ToolPipeline or MCPUpstream that must no longer run the Plugin. Default: none; the
    /// revocation then applies to all of them.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// Machine-readable reason. Default: PluginNotFound.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One compiled plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRevision {
    /// Name of the revision: the first 12 characters of a digest over the digests of the revision's shards.
    #[schemars(length(min = 12, max = 12))]
    pub revision: String,
    /// When the plan was compiled. Default: unknown.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_time: Option<String>,
    /// Format of the plan in the shards. A pod that does not know the format keeps running its current plan.
    #[schemars(range(min = 1))]
    pub format_version: u32,
    /// Version of the operator that compiled the plan. Default: unknown.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiled_by: Option<String>,
    /// Number of objects that the plan was compiled from. Default: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<u32>,
    /// Number of problems that were found in these objects. Default: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problems: Option<u32>,
    /// Restrictions for pods that run this revision while another revision is current. For the current revision, the
    /// restrictions of the index apply instead. Default: unknown.
    #[serde(rename = "acts", default, deserialize_with = "understood", skip_serializing_if = "Option::is_none")]
    pub restrictions: Option<SnapshotRestrictions>,
    /// Shards that the plan consists of.
    #[schemars(length(max = 1024))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub shards: Vec<ShardRef>,
}

/// Refers to a shard of a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShardRef {
    /// Name of the GatewaySnapshot that holds the shard.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Kind of the shard's content.
    pub kind: ShardKind,
    /// Number of the shard among those of the same kind. Default: 0.
    #[schemars(range(max = 4095))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket: Option<u32>,
    /// SHA-256 digest of the uncompressed JSON, in hexadecimal.
    #[schemars(length(min = 64, max = 64), regex(pattern = SHA256))]
    pub sha256: String,
    /// Size of the uncompressed JSON in bytes.
    pub size_bytes: u32,
}

/// A part of one or more plans. A shard never changes, because the name of its object contains a digest of its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self == oldSelf"
).message(
    "a shard never changes: its name is its content"
))]
pub struct Shard {
    /// Kind of the shard's content.
    pub kind: ShardKind,
    /// How `data` is encoded.
    pub encoding: ShardEncoding,
    /// SHA-256 digest of the uncompressed JSON, in hexadecimal; verified when the shard is read.
    #[schemars(length(min = 64, max = 64), regex(pattern = SHA256))]
    pub sha256: String,
    /// Size of the uncompressed JSON in bytes; decompression stops at this size.
    pub size_bytes: u32,
    /// The compressed JSON in base64.
    // The field has no `format: byte`, because the API server cannot decode the standard base64 alphabet when it
    // evaluates the rule that forbids changes to a shard, and would therefore refuse every write to the object's
    // metadata.
    #[schemars(length(min = 1, max = 1_300_000))]
    pub data: String,
}

/// Kind of the content of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ShardKind {
    /// The gateway's settings.
    Gateway,
    /// Upstreams.
    Upstreams,
    /// Chains and the plugins that they run.
    Chains,
    /// Access rules.
    Access,
    /// Pipelines.
    Pipelines,
    /// Section bindings.
    Sections,
    /// Code of plugins.
    Code,
    /// A kind that only newer versions know. This version reads it, but never writes it.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// How a shard's JSON is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ShardEncoding {
    /// JSON, compressed with Zstandard (RFC 8878).
    JSONZstd,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a revision with this name and without shards.
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
