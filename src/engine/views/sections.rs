//! What is visible at a place in a document: the bindings that cover it, and the tools for a model (document 003,
//! AIToolContext).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Views;
use super::explain::Explanation;
use crate::config::sections::Sections;
use crate::domain::item::ItemKind;
use crate::domain::plan::{Plan, SectionPlan};
use crate::domain::raw::RawObject;
use crate::domain::reason::Reason;
use crate::domain::section::Place;
use crate::engine::plan::bound_section::BoundSection;
use crate::engine::request::Endpoint;

/// Which binding counts at a place, and what is visible there.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SectionExplanation {
    /// The place, as a command names it.
    pub place: String,
    /// The binding that counts, as `namespace/name`; absent if none covers the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// The names of the upstreams that are visible, of those that are enabled.
    pub upstreams: Vec<String>,
    /// Why nothing is visible; absent if something can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusing: Option<String>,
    /// The bindings that cover the place, the most specific one, which counts, first.
    pub covering: Vec<CoveringBinding>,
}

/// A binding that covers a place.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoveringBinding {
    /// The binding, as `namespace/name`.
    pub binding: String,
    /// The glob over documents.
    pub document: String,
    /// The short form of the part that it covers.
    pub section: String,
    /// The upstream, as `namespace/name`.
    pub upstream: String,
    /// Whether this binding counts.
    pub counts: bool,
}

/// A binding of the plan.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SectionView {
    /// The binding, as `namespace/name`.
    pub binding: String,
    /// The glob over documents.
    pub document: String,
    /// The short form of the part that it covers.
    pub section: String,
    /// The upstream, as `namespace/name`.
    pub upstream: String,
    /// `Ready`, `Conflicted` if an older binding counts before it, or the reason why nothing is visible in the part.
    pub state: String,
    /// Details of a state other than `Ready`; absent if it is `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SectionView {
    /// Returns a view of each binding, in the order of the plan.
    pub(super) fn all(plans: &[SectionPlan]) -> Vec<Self> {
        let view = |(place, plan): (usize, &SectionPlan)| {
            let conflict = || Some((Reason::Conflicted, plan.conflict(&plans[..place])?));
            let refusing = plan.refusing.clone().map(|refusal| (refusal.reason, refusal.message));
            let (state, error) = match refusing.or_else(conflict) {
                Some((reason, message)) => (reason.to_string(), Some(message)),
                None => ("Ready".to_owned(), None),
            };
            Self {
                binding: plan.key.to_string(),
                document: plan.glob.clone(),
                section: plan.part.to_string(),
                upstream: plan.upstream.to_string(),
                state,
                error,
            }
        };
        plans.iter().enumerate().map(view).collect()
    }
}

impl CoveringBinding {
    fn of((place, plan): (usize, &Arc<SectionPlan>)) -> Self {
        Self {
            counts: place == 0,
            binding: plan.key.to_string(),
            document: plan.glob.clone(),
            section: plan.part.to_string(),
            upstream: plan.upstream.to_string(),
        }
    }
}

impl SectionExplanation {
    /// Explains a place by a plan, whether it is in force or not.
    pub fn of(plan: &Plan, place: &Place) -> Self {
        let sections = Sections::new(&plan.sections);
        let section = BoundSection::of(&sections, plan, place);
        let is_visible = |index: usize| section.as_ref().is_none_or(|section| section.sees(index));
        let upstreams = plan.upstreams.iter().enumerate().filter(|(index, it)| it.enabled && is_visible(*index));
        let refusing = section.as_ref().and_then(|section| section.upstream.as_ref().err());
        Self {
            place: place.to_string(),
            binding: section.as_ref().map(|section| section.binding.key.to_string()),
            upstreams: upstreams.map(|(_, upstream)| upstream.key.name.clone()).collect(),
            refusing: refusing.map(|refusal| refusal.message.clone()),
            covering: sections.covering(place).into_iter().enumerate().map(CoveringBinding::of).collect(),
        }
    }

    /// Says in the explanation of an item that it is not visible at a place, if that is so.
    pub fn note(plan: &Plan, place: &Place, explanation: &mut Explanation) {
        let Some(section) = BoundSection::of(&Sections::new(&plan.sections), plan, place) else { return };
        let index = plan.upstreams.iter().position(|upstream| upstream.key.name == explanation.upstream);
        if let Some(refusal) = index.and_then(|index| section.refusal(index)) {
            explanation.withheld.get_or_insert(refusal.message);
        }
    }
}

/// The tools that a model can use at a place (document 003, AIToolContext). Programs call them by MCP.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolContext {
    /// The tools of the enabled servers that are visible.
    pub tools: Vec<ContextTool>,
    /// The ids of these servers.
    pub enabled_servers: Vec<String>,
    /// The id of the server that the section is bound to; absent if it is bound to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_binding: Option<String>,
}

/// A tool of a [`ToolContext`].
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextTool {
    /// The upstream, as `namespace/name`.
    pub server_id: String,
    /// The name of the upstream. Its own endpoint is `/{serverName}/mcp`.
    pub server_name: String,
    /// The name of the tool at that endpoint.
    pub tool_name: String,
    /// The description that clients see.
    pub description: String,
    /// The schema of the arguments that clients see.
    #[schemars(with = "serde_json::Value")]
    pub input_schema: Box<RawValue>,
    /// The name of the tool at the endpoint for all upstreams; absent if it has none there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Views {
    /// Explains a place by the plan in force.
    pub fn explain_section(&self, place: &Place) -> SectionExplanation {
        SectionExplanation::of(self.in_force.snapshot().plan(), place)
    }

    /// Like [`SectionExplanation::note`], by the plan in force.
    pub fn note_section(&self, place: &Place, explanation: &mut Explanation) {
        SectionExplanation::note(self.in_force.snapshot().plan(), place, explanation);
    }

    /// Returns the tools that a model can use at a place. First waits, for at most the list timeout, until each upstream has
    /// been tried once.
    pub async fn tool_context(&self, place: &Place) -> ToolContext {
        self.lists.wait_for_lists(&self.in_force.snapshot(), &Endpoint::All, ItemKind::Tool).await;
        let snapshot = self.in_force.snapshot();
        let section = snapshot.bound_section(Some(place));
        let upstreams = &snapshot.linked.upstreams;
        let is_visible = |index: usize| {
            let plan = &upstreams[index].target.plan;
            let is_enabled = plan.enabled && self.catalogues.in_routing(&plan.key);
            is_enabled && section.as_ref().is_none_or(|section| section.sees(index))
        };
        let routes = snapshot.routes.tools().filter(|route| snapshot.lists(route));
        let tools = routes.filter(|route| is_visible(route.upstream)).map(|route| {
            let key = &upstreams[route.upstream].target.plan.key;
            let definition = RawObject::parse(route.own_definition.get()).unwrap_or_default();
            ContextTool {
                server_id: key.to_string(),
                server_name: key.name.clone(),
                tool_name: route.own.clone(),
                description: definition.get_str("description").unwrap_or_default(),
                input_schema: definition.get("inputSchema").map(ToOwned::to_owned).unwrap_or_default(),
                name: route.public.clone(),
            }
        });
        let enabled = (0..upstreams.len()).filter(|index| is_visible(*index));
        ToolContext {
            tools: tools.collect(),
            enabled_servers: enabled.map(|index| upstreams[index].target.plan.key.to_string()).collect(),
            section_binding: section.map(|section| section.binding.upstream.to_string()),
        }
    }
}
