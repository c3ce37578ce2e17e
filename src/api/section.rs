//! The kind SectionBinding.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::ObjectRef;
use crate::api::status::{Condition, TakenBy};

/// Inside this part of a document, only that server's tools (document 003, SectionBinding).
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
    doc = "Inside this part of a document, only that server's tools.",
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
    /// Gateways it is for; across namespaces by name only. Default: every one of its namespace.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub gateways: Option<Vec<ObjectRef>>,
    /// Documents it covers.
    pub document: Document,
    /// The section below a heading. Default: none.
    pub heading: Option<Heading>,
    /// One block. Default: none.
    pub block: Option<Block>,
    /// Lines. Default: none.
    pub range: Option<LineRange>,
    /// The server whose tools are to be had there; of another namespace with its consent.
    pub upstream: ObjectRef,
    /// Whether it holds in sections below too. Default: false.
    pub inherit_to_children: Option<bool>,
}

/// Documents, by the name that the client gives them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// `*` stops at a slash, `**` does not.
    #[schemars(length(min = 1, max = 1024))]
    pub glob: String,
}

/// A section, by its heading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!self.text.startsWith('#')"
).message(
    "heading.text is the text without its #s; say how many in `level`"
))]
pub struct Heading {
    /// The heading's text without its `#`s.
    #[schemars(length(min = 1, max = 512))]
    pub text: String,
    /// How many `#`s it has. Default: any number.
    #[schemars(range(min = 1, max = 6))]
    pub level: Option<u32>,
}

/// A block, by its id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!self.id.startsWith('^')"
).message(
    "block.id is written without its ^"
))]
pub struct Block {
    /// The id without its `^`.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
}

/// Lines of a document, both ends included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.startLine < self.endLine"
).message(
    "range.startLine must be less than endLine"
))]
pub struct LineRange {
    /// The first line; lines count from 1.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub start_line: u32,
    /// The last line.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub end_line: u32,
}

/// What came of a binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SectionBindingStatus {
    /// The generation that this speaks of.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Programmed, Ready; others while they are bad.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Gateways that run it, of those that take it.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Who takes it.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// The part of the document as people write it: `## Deploy`, `^db-checks`, `10-40`.
    #[schemars(length(max = 600))]
    pub section: Option<String>,
}
