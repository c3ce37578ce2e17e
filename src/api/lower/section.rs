//! Turns a SectionBinding into the compiler's input.

use super::shared::{key, labels, object_ref};
use crate::api::section::{SectionBinding, SectionBindingSpec};
use crate::config::input::SectionInput;
use crate::domain::plan::{SectionHeading, SectionPart, SectionPlan};

pub fn section(object: &SectionBinding) -> SectionInput {
    let spec = &object.spec;
    let key = key(&object.metadata);
    let gateways = spec.gateways.iter().flatten().map(|gateway| object_ref(gateway, &key.namespace)).collect();
    let plan = SectionPlan {
        glob: spec.document.glob.clone(),
        part: part(spec),
        inherits: spec.inherit_to_children.unwrap_or(false),
        upstream: object_ref(&spec.upstream, &key.namespace),
        refusing: None,
        key,
    };
    SectionInput { labels: labels(&object.metadata), gateways, plan }
}

/// Returns the part that the binding covers. The schema requires exactly one.
fn part(spec: &SectionBindingSpec) -> SectionPart {
    let block = spec.block.as_ref().map(|block| SectionPart::Block { id: block.id.clone() });
    let range = spec.range.as_ref().map(|range| SectionPart::Range { start: range.start_line, end: range.end_line });
    block.or(range).unwrap_or_else(|| {
        let heading = spec.heading.as_ref();
        let text = heading.map(|heading| heading.text.trim().to_owned()).unwrap_or_default();
        SectionPart::Heading(SectionHeading { text, level: heading.and_then(|heading| heading.level) })
    })
}
