//! Lowers the changes to the tools of an upstream.

use crate::api::canonical::canonical;
use crate::api::upstream::tools::{
    ArgumentOverride, OfferedTo, Pinning, PinningMode, ToolAnnotations, ToolOverride, UpstreamTools,
};
use crate::domain::plan;

pub(super) fn overrides(tools: &UpstreamTools) -> Vec<plan::ToolOverride> {
    tools.overrides.iter().flatten().map(tool_override).collect()
}

/// Returns `None` if no definition needs to be approved.
pub(super) fn pinning(written: &Pinning) -> Option<plan::PinningPlan> {
    let enforce = match written.mode? {
        PinningMode::Off => return None,
        PinningMode::Alert => false,
        PinningMode::Enforce => true,
    };
    let approved = written.approved.as_ref();
    let approved = approved.map(|list| list.iter().map(|tool| (tool.name.clone(), tool.sha256.clone())).collect());
    Some(plan::PinningPlan { enforce, approved })
}

fn tool_override(tool: &ToolOverride) -> plan::ToolOverride {
    plan::ToolOverride {
        name: tool.name.clone(),
        rename: tool.rename.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        deprecated: tool.deprecated.clone(),
        annotations: tool.annotations.as_ref().map(annotations).unwrap_or_default(),
        hidden: tool.hidden.unwrap_or(false),
        for_pipelines: tool.offered_to.map(|to| to == OfferedTo::Pipelines),
        timeout_ms: tool.timeout_ms,
        answer: tool.answer.clone(),
        arguments: tool.arguments.iter().flatten().map(argument).collect(),
        refusing: None,
    }
}

fn annotations(written: &ToolAnnotations) -> plan::AnnotationsOverride {
    plan::AnnotationsOverride {
        title: written.title.clone(),
        read_only_hint: written.read_only_hint,
        destructive_hint: written.destructive_hint,
        idempotent_hint: written.idempotent_hint,
        open_world_hint: written.open_world_hint,
    }
}

fn argument(written: &ArgumentOverride) -> plan::ArgumentOverride {
    plan::ArgumentOverride {
        name: written.name.clone(),
        value: written.value.as_ref().map(|value| canonical(&value.0)),
        hidden: written.hidden.unwrap_or(false),
        description: written.description.clone(),
    }
}
