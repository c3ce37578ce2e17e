//! What a pipeline, and in part a provider of tools, answers in the place of a server when it is probed or its lists are read.

use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::announcement::{Announcement, LegacyTasks};
use crate::domain::extensions::{Extensions, MAX_OF_SERVER, TASKS};
use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::plan::{PipelinePlan, UpstreamPlan};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::upstream::{Probed, ServerFacts, UpstreamError};
use crate::domain::version::{Era, MODERN_VERSION};

/// Returns the result of a probe. Runs of pipelines can go on as tasks of either era.
pub(in crate::engine) fn probed(plan: &UpstreamPlan) -> Probed {
    let announcement = match plan.pipeline() {
        Some(_) => Announcement {
            extensions: Extensions::read(Some(&*to_raw(&json!({TASKS: {}}))), MAX_OF_SERVER),
            tasks: Some(LegacyTasks { cancel: true }),
            ..Announcement::default()
        },
        None => Announcement::default(),
    };
    Probed::Up(ServerFacts { has_tools: true, announcement, ..ServerFacts::new(Era::Modern, MODERN_VERSION) })
}

/// Returns the list of tools: that of the pipeline, with one more member of its definition.
///
/// # Errors
/// If the definition of the tool is not valid.
pub(super) fn listed(plan: &PipelinePlan, more: Option<(&str, Box<RawValue>)>) -> Result<Listed, UpstreamError> {
    let invalid = |why: String| UpstreamError::Protocol(format!("the definition of its tool is not valid: {why}"));
    let mut definition = RawObject::parse(&plan.definition).map_err(|error| invalid(error.to_string()))?;
    more.into_iter().for_each(|(name, value)| definition.set(name, value));
    let item = Item::parse(ItemKind::Tool, &definition.to_raw()).map_err(|fault| invalid(fault.to_string()))?;
    Ok(Listed { items: vec![item], ..Listed::default() })
}
