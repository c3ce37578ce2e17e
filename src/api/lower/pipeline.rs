//! Turns a ToolPipeline into the compiler's input.

use serde_json::{Value, json};

use super::findings::Findings;
use super::shared::{key, labels, object_ref, size};
use crate::api::canonical::{canonical, canonical_text};
use crate::api::pipeline::declared::{Agent, AgentType, Declared, InsertedPhase};
use crate::api::pipeline::{Budgets, ToolPipeline, ToolPipelineSpec};
use crate::api::shared::ObjectRef;
use crate::api::values::FreeObject;
use crate::config::input::PipelineInput;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{
    AgentPlan, ArgumentValidation, EraSetting, HealthPlan, HttpTransport, InsertedPhasePlan, PhasePluginPlan,
    PipelineBudgets, PipelinePlan, Refusal, RetryPlan, RetryWhen, TransportPlan, UpstreamPlan,
};
use crate::domain::problem::Problem;

/// The effect of a setting that is not implemented.
const ITS_CALLS: &str = "calls of the pipeline are refused";
/// The agent that a run begins with by default (document 002, `PipelineConfig`).
const START_AGENT: &str = "coordinator";
/// The default of `declared.maxIterations`.
const MAX_ITERATIONS: u32 = 15;
/// The name of the argument that is the query.
const QUERY: &str = "prompt";

pub fn pipeline(object: &ToolPipeline) -> (PipelineInput, Vec<Problem>) {
    let spec = &object.spec;
    let key = key(&object.metadata);
    let mut findings = Findings::new(ObjectId::new(Kind::ToolPipeline, key.clone()));
    let refusing = refusing(spec, &mut findings);
    let gateways = spec.gateways.iter().flatten().map(|gateway| object_ref(gateway, &key.namespace)).collect();
    let pipeline = plan(spec, &key.namespace, &key.name);
    let timeout_ms = pipeline.budgets.timeout_seconds.saturating_mul(1000);
    let plan = UpstreamPlan {
        key,
        labels: labels(&object.metadata),
        enabled: spec.enabled.unwrap_or(true),
        transport: TransportPlan::Pipeline(Box::new(pipeline)),
        era: EraSetting::Modern,
        http_transport: HttpTransport::Auto,
        connect_timeout_ms: 0,
        call_timeout_ms: Some(timeout_ms),
        extend_on_progress: false,
        // A run is not repeated: it may have called tools.
        retry: RetryPlan { when: RetryWhen::Never, ..RetryPlan::default() },
        idle_timeout_ms: 0,
        health: HealthPlan { period_seconds: 3600, timeout_ms: 1000, retry_backoff_ms: Vec::new(), auto_recover: true },
        enable: None,
        argument_validation: ArgumentValidation::Coerce,
        concurrent_calls: None,
        max_response_size: None,
        include: Vec::new(),
        exclude: Vec::new(),
        overrides: Vec::new(),
        pinning: None,
        refusing,
    };
    (PipelineInput { gateways, plan }, findings.finish())
}

/// Reports the parts that are not implemented. Returns the first one that the pipeline cannot run without.
fn refusing(spec: &ToolPipelineSpec, findings: &mut Findings) -> Option<Refusal> {
    let budgets = spec.budgets.as_ref();
    findings.later(budgets.is_some_and(|budgets| budgets.max_llm_calls.is_some()), "spec.budgets.maxLLMCalls");
    findings.later(spec.models.is_some(), "spec.models");
    findings.later(spec.conversation.is_some(), "spec.conversation");
    let mut refusals = vec![
        findings.refuse(spec.planned.is_some(), "spec.planned", ITS_CALLS),
        findings.refuse(spec.output.as_ref().is_some_and(|it| it.plugin.is_some()), "spec.output.plugin", ITS_CALLS),
    ];
    if let Some(declared) = &spec.declared {
        let parts = [
            (declared.customizations.is_some(), "spec.declared.customizations"),
            (declared.customizers.is_some(), "spec.declared.customizers"),
            (declared.prompt_providers.is_some(), "spec.declared.promptProviders"),
            (declared.synthesizer.is_some(), "spec.declared.synthesizer"),
        ];
        refusals.extend(parts.map(|(set, field)| findings.refuse(set, field, ITS_CALLS)));
        let types = declared.agents.iter().enumerate().filter(|(_, agent)| agent.r#type != AgentType::Custom);
        refusals.extend(
            types.map(|(index, _)| findings.refuse(true, format!("spec.declared.agents[{index}].type"), ITS_CALLS)),
        );
    }
    refusals.into_iter().flatten().next()
}

fn plan(spec: &ToolPipelineSpec, namespace: &str, name: &str) -> PipelinePlan {
    let none = Declared {
        start_agent: None,
        max_iterations: None,
        agents: Vec::new(),
        insert_phases: None,
        customizations: None,
        customizers: None,
        prompt_providers: None,
        synthesizer: None,
    };
    let declared = spec.declared.as_ref().unwrap_or(&none);
    let tools = spec.tools.as_ref();
    let output = spec.output.as_ref().and_then(|output| output.schema.as_ref());
    PipelinePlan {
        definition: definition(spec, name, output).to_string(),
        query_argument: QUERY.to_owned(),
        include: tools.map(|tools| tools.include.clone().unwrap_or_else(|| vec!["**".into()])).unwrap_or_default(),
        exclude: tools.and_then(|tools| tools.exclude.clone()).unwrap_or_default(),
        budgets: budgets(spec.budgets.as_ref()),
        start_agent: declared.start_agent.clone().unwrap_or_else(|| START_AGENT.to_owned()),
        max_iterations: declared.max_iterations.unwrap_or(MAX_ITERATIONS),
        agents: declared.agents.iter().map(|written| agent(written, namespace)).collect(),
        phases: declared.insert_phases.iter().flatten().map(|written| phase(written, namespace)).collect(),
        output_schema: output.map(|schema| canonical_text(schema).get().to_owned()),
    }
}

/// Returns the definition of the tool that clients see.
fn definition(spec: &ToolPipelineSpec, name: &str, output: Option<&FreeObject>) -> Value {
    let tool = &spec.tool;
    let schema = tool.input_schema.as_ref().map_or_else(default_schema, |schema| Value::Object(schema.0.clone()));
    let mut definition = json!({
        "name": tool.name.as_deref().unwrap_or(name),
        "description": tool.description,
        "inputSchema": canonical(&schema),
    });
    if let Some(title) = &tool.title {
        definition["title"] = json!(title);
    }
    if let Some(annotations) = &tool.annotations {
        let written = json!(annotations);
        let members = written.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        definition["annotations"] = members.map(|(key, value)| (key.clone(), value.clone())).collect();
    }
    if let Some(output) = output {
        definition["outputSchema"] = canonical(&Value::Object(output.0.clone()));
    }
    definition
}

fn default_schema() -> Value {
    json!({"type": "object", "properties": {QUERY: {"type": "string"}}, "required": [QUERY]})
}

fn budgets(written: Option<&Budgets>) -> PipelineBudgets {
    let written = written.cloned().unwrap_or_default();
    PipelineBudgets {
        timeout_seconds: written.timeout_seconds.unwrap_or(300),
        max_tool_calls: written.max_tool_calls.unwrap_or(20),
        max_input: size(written.max_input_size.as_ref()).unwrap_or(1 << 20),
    }
}

fn agent(agent: &Agent, namespace: &str) -> AgentPlan {
    AgentPlan {
        name: agent.name.clone(),
        enabled: agent.enabled.unwrap_or(true),
        plugin: plugin(agent.plugin.as_ref(), agent.config.as_ref(), namespace),
        next_on_success: agent.next_on_success.clone(),
        next_on_failure: agent.next_on_failure.clone(),
        repeat: agent.loop_condition.clone().zip(agent.loop_back_to.clone()),
    }
}

fn phase(phase: &InsertedPhase, namespace: &str) -> InsertedPhasePlan {
    InsertedPhasePlan {
        name: phase.name.clone(),
        plugin: plugin(Some(&phase.plugin), phase.config.as_ref(), namespace),
        agent: phase.before.clone().or_else(|| phase.after.clone()).unwrap_or_default(),
        is_before: phase.before.is_some(),
    }
}

fn plugin(written: Option<&ObjectRef>, config: Option<&FreeObject>, namespace: &str) -> PhasePluginPlan {
    // An agent without a plugin is of another type, so that the pipeline is refused.
    let nothing = ObjectRef { name: String::new(), namespace: None };
    PhasePluginPlan {
        key: object_ref(written.unwrap_or(&nothing), namespace),
        config: config.map(|config| canonical_text(config).get().to_owned()),
        unavailable: None,
    }
}
