//! A binding of a section: the part of documents that it covers, and the upstream that is visible there.

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::domain::ids::ObjectKey;

/// A SectionBinding in the form that was accepted, with its reference resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionPlan {
    /// Namespace and name of the SectionBinding.
    pub key: ObjectKey,
    /// Glob that matches the names of the documents.
    pub glob: String,
    /// The part that is covered.
    pub part: SectionPart,
    /// Whether a section counts for its subsections.
    pub inherits: bool,
    /// The only upstream that is visible in the part.
    pub upstream: ObjectKey,
    /// If set, nothing is visible in the part and calls are refused: the upstream does not exist or may not be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusing: Option<Refusal>,
}

impl SectionPlan {
    /// Returns the message about an older binding that is as specific as this one, with the same glob and for another
    /// upstream. `older` has the bindings that come first in the plan.
    pub fn conflict(&self, older: &[Self]) -> Option<String> {
        let rivals =
            |older: &&Self| older.glob == self.glob && older.part.rivals(&self.part) && older.upstream != self.upstream;
        let Self { key, part, upstream, .. } = older.iter().find(rivals)?;
        Some(format!(
            "SectionBinding {key} covers {part} of the same documents too, for upstream {upstream}. It is older or comes \
             first, so it counts where both cover a place: take one of them out, or make one more specific"
        ))
    }
}

/// The part of a document that a binding covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SectionPart {
    /// The section below a heading.
    Heading(SectionHeading),
    /// A block.
    Block {
        /// The id of the block, without `^`.
        id: String,
    },
    /// A range of lines, counted from 1. Both ends are in it.
    Range {
        /// The first line.
        start: u32,
        /// The last line.
        end: u32,
    },
}

/// The heading of a section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionHeading {
    /// The text, without the leading `#` characters.
    pub text: String,
    /// The number of these characters; `None` means any.
    pub level: Option<u32>,
}
