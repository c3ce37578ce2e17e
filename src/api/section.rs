//! The SectionBinding custom resource.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::ObjectRef;
use crate::api::status::{Condition, TakenBy};

/// Restricts calls that come from a part of a document to the tools of one server (document 003, SectionBinding).
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "hawsepipe.dev",
    version = "v1alpha1",
    kind = "SectionBinding",
    namespaced,
    status = "SectionBindingStatus",
    derive = "PartialEq",
    category = "hawsepipe",
    shortname = "secbind",
    doc = "Restricts calls that come from a part of a document to the tools of one server.",
    printcolumn(name = "DOCUMENT", type_ = "string", json_path = ".spec.document.glob"),
    printcolumn(name = "SECTION", type_ = "string", json_path = ".status.section"),
    printcolumn(name = "UPSTREAM", type_ = "string", json_path = ".spec.upstream.name"),
    printcolumn(name = "LIVE", type_ = "string", json_path = ".status.live"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "REASON", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(
        "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ).message(
        "metadata.name: at most 63 characters of a-z, 0-9 and -, a letter first: it is a label value"
    ),
)]
#[x_kube(validation = Rule::new(
    "(has(self.heading) ? 1 : 0) + (has(self.block) ? 1 : 0) + (has(self.range) ? 1 : 0) == 1"
).message(
    "give exactly one of heading, block, range"
))]
pub struct SectionBindingSpec {
    /// Gateways that the binding is for, in any namespace. A gateway applies the binding only if the gateway's own
    /// `sections` field selects the binding too. Default: every gateway of the binding's namespace.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub gateways: Option<Vec<ObjectRef>>,
    /// Documents that the binding covers.
    pub document: Document,
    /// Covers the section below a heading. Exactly one of `heading`, `block`, `range` must be set. Default: none.
    pub heading: Option<Heading>,
    /// Covers one block. Exactly one of `heading`, `block`, `range` must be set. Default: none.
    pub block: Option<Block>,
    /// Covers a range of lines. Exactly one of `heading`, `block`, `range` must be set. Default: none.
    pub range: Option<LineRange>,
    /// Upstream whose tools are available in the covered part. An upstream of another namespace must permit its use in
    /// `shareWith`.
    pub upstream: ObjectRef,
    /// Whether the binding also applies to subsections. Default: false.
    pub inherit_to_children: Option<bool>,
}

/// Selects documents by the names that clients give them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Glob over document names; `*` does not match a slash, `**` does.
    #[schemars(length(min = 1, max = 1024))]
    pub glob: String,
}

/// A section, identified by its heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!self.text.startsWith('#')"
).message(
    "heading.text is the text without its #s; say how many in `level`"
))]
pub struct Heading {
    /// Text of the heading, without the leading `#` characters.
    #[schemars(length(min = 1, max = 512))]
    pub text: String,
    /// Number of leading `#` characters. Default: any.
    #[schemars(range(min = 1, max = 6))]
    pub level: Option<u32>,
}

/// A block, identified by its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!self.id.startsWith('^')"
).message(
    "block.id is written without its ^"
))]
pub struct Block {
    /// Id of the block, without the leading `^`.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
}

/// A range of lines, both ends included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.startLine < self.endLine"
).message(
    "range.startLine must be less than endLine"
))]
pub struct LineRange {
    /// First line, counted from 1.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub start_line: u32,
    /// Last line, counted from 1; must be greater than `startLine`.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub end_line: u32,
}

/// Observed state of a SectionBinding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SectionBindingStatus {
    /// The `metadata.generation` that this status describes.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Conditions of the types Accepted, ResolvedRefs, Programmed and Ready; other types appear only while something is
    /// wrong.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Number of gateways that run the current version of the binding, out of the number that use the binding; for
    /// example, `1/2`.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Gateways that use the binding.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// Short form of the covered part, such as `## Deploy`, `^db-checks` or `10-40`.
    #[schemars(length(max = 600))]
    pub section: Option<String>,
}
