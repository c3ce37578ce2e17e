//! Compiles pipelines: which ones the gateway takes, and whether their steps can run.

use serde_json::Value;

use super::plugins::{Plugins, permitted};
use super::takes::{by_both, includes, takes};
use super::{FieldFault, bounds, id, is_invalid, switched_off, values};
use crate::config::expr::Expression;
use crate::config::input::{Inputs, PipelineInput, PluginInput};
use crate::config::nearest::nearest;
use crate::config::variables::{OF_CUSTOMIZATIONS, OF_LOOPS};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::pipeline::{check_output_schema, rules};
use crate::domain::plan::{
    AgentKind, GatewayTakes, ModelPlan, PhasePluginPlan, PipelinePlan, Plan, Refusal, TransportPlan, UpstreamPlan,
};
use crate::domain::plugin::PluginKind;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::schema::schema_fault;

/// What pipelines are compiled for.
pub(super) struct PipelineContext<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) previous: Option<&'a Plan>,
    pub(super) gateway: &'a ObjectKey,
    /// The models of the gateway, for roles of which a pipeline has none.
    pub(super) models: &'a [ModelPlan],
    /// What the gateway takes; `None` means everything.
    pub(super) takes: Option<&'a GatewayTakes>,
    pub(super) plugins: &'a Plugins<'a>,
}

/// Returns the pipelines that the gateway takes, as upstreams that the gateway runs itself. `served` are the others.
pub(super) fn compile(
    context: &PipelineContext<'_>,
    served: &[UpstreamPlan],
    problems: &mut Vec<Problem>,
) -> Vec<UpstreamPlan> {
    let mut plans: Vec<UpstreamPlan> = Vec::new();
    for pipeline in &context.inputs.pipelines {
        if !context.takes_pipeline(pipeline, problems) {
            continue;
        }
        match conflict(&pipeline.plan, served, &plans) {
            Some((field, message)) => {
                let object = id(Kind::ToolPipeline, &pipeline.plan.key);
                problems.push(Problem::error(Reason::NameConflict, object, field, message));
            }
            None => plans.push(context.compile_pipeline(pipeline, problems)),
        }
    }
    // A pipeline that is not valid any more keeps its form.
    let before = context.previous.iter().flat_map(|plan| &plan.upstreams).filter(|plan| plan.pipeline().is_some());
    for kept in before.filter(|kept| is_invalid(context.inputs, Kind::ToolPipeline, &kept.key)) {
        let enabled = switched_off(context.inputs, Kind::ToolPipeline, &kept.key).map_or(kept.enabled, |off| !off);
        if !served.iter().chain(&plans).any(|other| other.key.name == kept.key.name) {
            plans.push(UpstreamPlan { enabled, ..kept.clone() });
        }
    }
    for plan in &mut plans {
        context.resolve_models(plan, problems);
        context.resolve_plugins(plan, problems);
    }
    plans
}

/// Returns the field and the message if another upstream has the name of a pipeline, or another pipeline that of its tool.
fn conflict(plan: &UpstreamPlan, served: &[UpstreamPlan], plans: &[UpstreamPlan]) -> Option<(&'static str, String)> {
    let same_name = |other: &&UpstreamPlan| other.key.name == plan.key.name;
    if let Some(other) = served.iter().chain(plans).find(same_name) {
        let message =
            format!("{} {} has this name already on this gateway: rename one of them", other.kind(), other.key);
        return Some(("metadata.name", message));
    }
    let tool = tool_of(plan)?;
    let other = plans.iter().find(|other| tool_of(other).as_ref() == Some(&tool))?;
    let message = format!("{} {} has the tool {tool} already: give it another name", other.kind(), other.key);
    Some(("spec.tool.name", message))
}

/// Returns the name of the tool of a pipeline.
fn tool_of(plan: &UpstreamPlan) -> Option<String> {
    let definition: Value = serde_json::from_str(&plan.pipeline()?.definition).ok()?;
    definition["name"].as_str().map(str::to_owned)
}

/// Checks the schema of the tool's arguments as those of servers are checked.
fn check_input_schema(pipeline: &PipelinePlan) -> Result<(), FieldFault> {
    let definition: Value = serde_json::from_str(&pipeline.definition).unwrap_or_default();
    let schema = &definition["inputSchema"];
    let fault = match schema["type"].as_str() {
        Some("object") => schema_fault(&schema.to_string()).map(|fault| format!("inputSchema{fault}")),
        _ => Some(format!("its type is {}, not \"object\": clients send an object", schema["type"])),
    };
    match fault {
        Some(fault) => Err((Reason::InvalidSchema, "spec.tool.inputSchema".to_owned(), fault)),
        None => Ok(()),
    }
}

impl PipelineContext<'_> {
    fn takes_pipeline(&self, pipeline: &PipelineInput, problems: &mut Vec<Problem>) -> bool {
        let (Some(wanted), plan) = (self.takes, &pipeline.plan) else { return true };
        let gateway = self.gateway;
        let taken = takes(&wanted.pipelines, &gateway.namespace, &plan.key.namespace, &plan.labels, self.inputs);
        let object = id(Kind::ToolPipeline, &plan.key);
        by_both((gateway, taken, "spec.pipelines"), object, &pipeline.gateways, problems)
    }

    /// Returns the pipeline as written; if that is not accepted, its last accepted form; if there is none, a form that
    /// refuses calls.
    fn compile_pipeline(&self, pipeline: &PipelineInput, problems: &mut Vec<Problem>) -> UpstreamPlan {
        let written = &pipeline.plan;
        let (reason, field, mut message) = match self.accept_pipeline(written) {
            Ok(()) => return written.clone(),
            Err(fault) => fault,
        };
        let before = self.previous.and_then(|plan| plan.upstream(&written.key.name));
        let before = before.filter(|before| before.key == written.key && before.pipeline().is_some());
        let plan = match before.filter(|before| before.refusing.is_none()) {
            Some(before) => {
                message.push_str(". The last accepted form runs on");
                UpstreamPlan { enabled: written.enabled, ..before.clone() }
            }
            None => {
                let refusing = Some(Refusal { reason, message: message.clone() });
                message.push_str(". Its calls are refused");
                UpstreamPlan { refusing, ..written.clone() }
            }
        };
        problems.push(Problem::error(reason, id(Kind::ToolPipeline, &written.key), field, message));
        plan
    }

    fn accept_pipeline(&self, plan: &UpstreamPlan) -> Result<(), FieldFault> {
        let Some(pipeline) = plan.pipeline() else { return Ok(()) };
        let lists = [("spec.tools.include", &pipeline.include), ("spec.tools.exclude", &pipeline.exclude)];
        if let Some((field, message)) = lists.into_iter().find_map(|(field, globs)| values::bad_glob(field, globs)) {
            return Err((Reason::InvalidPattern, field, message));
        }
        if plan.refusing.is_none() {
            if pipeline.agents.iter().all(|agent| !agent.enabled) {
                let message = "none of its agents is enabled".to_owned();
                return Err((Reason::NothingEnabled, "spec.declared.agents".into(), message));
            }
            rules::check(pipeline).map_err(|rule| (Reason::InvalidObject, "spec.declared".into(), rule))?;
        }
        for (index, agent) in pipeline.agents.iter().enumerate() {
            let Some((condition, _)) = &agent.repeat else { continue };
            Expression::compile(condition, OF_LOOPS).map_err(|why| {
                (Reason::InvalidExpression, format!("spec.declared.agents[{index}].loopCondition"), why)
            })?;
        }
        for (index, change) in pipeline.customizations.iter().enumerate() {
            let Some(when) = &change.when else { continue };
            Expression::compile(when, OF_CUSTOMIZATIONS).map_err(|why| {
                (Reason::InvalidExpression, format!("spec.declared.customizations[{index}].when"), why)
            })?;
        }
        check_input_schema(pipeline)?;
        if let Some(schema) = &pipeline.output_schema {
            check_output_schema(schema).map_err(|(reason, why)| (reason, "spec.output.schema".to_owned(), why))?;
        }
        bounds::check(self.inputs, &id(Kind::ToolPipeline, &plan.key), plan)
    }

    /// Adds the models of the gateway. A pipeline refuses its calls while no model serves the role of one of its agents.
    fn resolve_models(&self, plan: &mut UpstreamPlan, problems: &mut Vec<Problem>) {
        let key = plan.key.clone();
        let TransportPlan::Pipeline(pipeline) = &mut plan.transport else { return };
        // Those that a kept form has of the gateway are replaced.
        pipeline.models.retain(|model| !model.is_of_gateway);
        for model in self.models {
            if pipeline.models.iter().all(|own| own.role != model.role) {
                pipeline.models.push(ModelPlan { is_of_gateway: true, ..model.clone() });
            }
        }
        let mut first = None;
        for (index, agent) in pipeline.agents.iter().enumerate().filter(|(_, agent)| agent.enabled) {
            let plugin = (agent.kind == AgentKind::Custom).then_some(agent.plugin.key.name.as_str());
            let Some(role) = agent.model_role.as_ref().filter(|role| pipeline.model(plugin, role).is_none()) else {
                continue;
            };
            let field = format!("spec.declared.agents[{index}].modelTier");
            let message = format!("no model of role {role} in spec.models of the pipeline or of the gateway");
            let reason = Reason::ModelRoleNotFound;
            first.get_or_insert_with(|| Refusal { reason, message: format!("{field}: {message}") });
            problems.push(Problem::error(reason, id(Kind::ToolPipeline, &key), field, message));
        }
        plan.refusing = plan.refusing.take().or(first);
    }

    /// Finds the plugins of a pipeline's steps. A pipeline refuses its calls while one of them cannot run.
    fn resolve_plugins(&self, plan: &mut UpstreamPlan, problems: &mut Vec<Problem>) {
        let key = plan.key.clone();
        let TransportPlan::Pipeline(pipeline) = &mut plan.transport else { return };
        if plan.refusing.as_ref().is_some_and(|refusal| refusal.reason == Reason::NotImplemented) {
            return;
        }
        let overridden: Vec<_> = pipeline.configured_by_customizations().cloned().collect();
        let mut first = None;
        for (field, plugin) in pipeline.plugins_mut() {
            let is_configured = plugin.config.is_some() || overridden.contains(&plugin.key);
            plugin.unavailable = self.unavailable(&key, plugin, is_configured);
            if let Some(Refusal { reason, message }) = &plugin.unavailable {
                first.get_or_insert_with(|| Refusal { reason: *reason, message: format!("{field}: {message}") });
                problems.push(Problem::error(*reason, id(Kind::ToolPipeline, &key), field, message.clone()));
            }
        }
        plan.refusing = plan.refusing.take().or(first);
    }

    /// Finds the plugins that make the tools of upstreams. An upstream refuses its calls while its plugin cannot run.
    pub(super) fn resolve_providers(&self, upstreams: &mut [UpstreamPlan], problems: &mut Vec<Problem>) {
        for plan in upstreams {
            let TransportPlan::Plugin(provider) = &mut plan.transport else { continue };
            provider.unavailable = self.unavailable(&plan.key, provider, false);
            if let Some(refusal) = &provider.unavailable {
                let object = id(Kind::MCPUpstream, &plan.key);
                problems.push(Problem::error(refusal.reason, object, "spec.plugin", refusal.message.clone()));
                plan.refusing.get_or_insert_with(|| refusal.clone());
            }
        }
    }

    /// Returns why a step cannot run its plugin; `None` if it can. `is_configured` tells whether the pipeline changes the
    /// configuration of the plugin.
    fn unavailable(&self, pipeline: &ObjectKey, step: &PhasePluginPlan, is_configured: bool) -> Option<Refusal> {
        let (plugin, input) = (&step.key, self.plugins.inputs.get(&step.key));
        let refusal = |reason, message| Some(Refusal { reason, message });
        let is_foreign = plugin.namespace != pipeline.namespace;
        if is_foreign && input.is_some_and(|input| !permitted(self.inputs, input, &pipeline.namespace)) {
            let why = format!("{plugin} is not shared with {} (its spec.shareWith)", pipeline.namespace);
            return refusal(Reason::RefNotPermitted, why);
        }
        if is_foreign && is_configured && input.is_some_and(|input| !input.config_overrides) {
            let why = format!(
                "{plugin} does not let other namespaces change its config (its spec.shareWith.configOverrides)"
            );
            return refusal(Reason::RefNotPermitted, why);
        }
        match self.plugins.accepted.get(plugin) {
            Some(accepted) if accepted.kind == step.kind && accepted.enabled => self.untaken(plugin, input.copied()),
            Some(accepted) if accepted.kind == step.kind => {
                refusal(Reason::EntryUnavailable, format!("Plugin {plugin} is switched off (its spec.enabled)"))
            }
            Some(accepted) => {
                let (is, wanted) = (accepted.kind.as_str(), step.kind.as_str());
                let user = if step.kind == PluginKind::Phase { "a step" } else { "the field" };
                refusal(
                    Reason::WrongType,
                    format!("Plugin {plugin} is of type {is}: {user} needs one of type {wanted}"),
                )
            }
            None if self.plugins.parsing.contains(plugin) => {
                refusal(Reason::Pending, format!("the code of Plugin {plugin} is being parsed"))
            }
            None if input.is_some() || is_invalid(self.inputs, Kind::Plugin, plugin) => refusal(
                Reason::PluginNotAccepted,
                format!("Plugin {plugin} is not accepted (its own finding says why)"),
            ),
            None => {
                let own = self.plugins.inputs.keys().filter(|key| key.namespace == plugin.namespace && !is_foreign);
                let near = nearest(&plugin.name, own.map(|key| key.name.as_str()));
                let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                refusal(Reason::PluginNotFound, format!("there is no Plugin {plugin}{meant}"))
            }
        }
    }

    /// Returns why the gateway does not take a plugin; `None` if it does. Labels of a plugin that is not valid are not
    /// known, and count as those that the gateway wants.
    fn untaken(&self, plugin: &ObjectKey, input: Option<&PluginInput>) -> Option<Refusal> {
        let (wanted, gateway) = (&self.takes?.plugins, self.gateway);
        let why = if !includes(&wanted.namespaces, &gateway.namespace, &plugin.namespace, self.inputs) {
            format!("namespace {}: add it to spec.plugins.namespaces of the gateway", plugin.namespace)
        } else if input.is_some_and(|input| !wanted.selector.matches(&input.labels)) {
            "its labels: give it those of spec.plugins.selector of the gateway".to_owned()
        } else {
            return None;
        };
        let message = format!("gateway {gateway} does not take Plugin {plugin}, because of {why}");
        Some(Refusal { reason: Reason::RefNotPermitted, message })
    }
}
