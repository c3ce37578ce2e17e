//! Turns a ToolPipeline into the compiler's input.

use serde_json::{Number, Value, json};

use super::findings::Findings;
use super::model::models;
use super::shared::{key, labels, object_ref, size};
use crate::api::canonical::{canonical, canonical_text};
use crate::api::pipeline::declared::{
    Agent, AgentOverride, AgentType, Customization, Declared, InsertedPhase, Synthesizer,
};
use crate::api::pipeline::{self as api, Budgets, ToolPipeline, ToolPipelineSpec};
use crate::api::shared::ObjectRef;
use crate::api::values::FreeObject;
use crate::config::input::PipelineInput;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::partition::StoreScope;
use crate::domain::plan::{
    AgentKind, AgentOverridePlan, AgentPlan, ArgumentValidation, CustomizationPlan, EraSetting, HealthPlan,
    HttpTransport, InsertedPhasePlan, OutputFormat, OutputTypePlan, PhasePluginPlan, PipelineBudgets, PipelinePlan,
    PipelineStorePlan, Refusal, RetryPlan, RetryWhen, SynthesizerConfig, SynthesizerPlan, TransportPlan, UpstreamPlan,
};
use crate::domain::plugin::PluginKind;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

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
    // A plugin can give another schema of the output when its code changes.
    let period_seconds = if pipeline.output_type.is_some() { 30 } else { 3600 };
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
        health: HealthPlan { period_seconds, timeout_ms: 1000, retry_backoff_ms: Vec::new(), auto_recover: true },
        enable: None,
        argument_validation: ArgumentValidation::Coerce,
        concurrent_calls: None,
        max_response_size: None,
        include: Vec::new(),
        exclude: Vec::new(),
        overrides: Vec::new(),
        for_pipelines: false,
        pinning: None,
        refusing,
    };
    (PipelineInput { gateways, plan }, findings.finish())
}

/// Reports the parts that are not implemented. Returns the one that the pipeline cannot run without.
fn refusing(spec: &ToolPipelineSpec, findings: &mut Findings) -> Option<Refusal> {
    findings.later(spec.conversation.is_some(), "spec.conversation");
    check_synthesizer(spec, findings);
    findings.refuse(spec.planned.is_some(), "spec.planned", ITS_CALLS)
}

/// Reports words of `synthesizer` that are of nothing else.
fn check_synthesizer(spec: &ToolPipelineSpec, findings: &mut Findings) {
    let Some(written) = spec.declared.as_ref().and_then(|declared| declared.synthesizer.as_ref()) else { return };
    let output = spec.output.as_ref().and_then(|output| output.name.as_deref()).unwrap_or("report");
    if let Some(wrong) = written.output_type.as_deref().filter(|name| *name != output) {
        let message = format!("{wrong:?} is not the name of the output, which is {output:?} (spec.output.name)");
        findings.wrong(Reason::InvalidConfig, "spec.declared.synthesizer.outputType", &message);
    }
    if let Some(wrong) = written.output_format.as_deref().filter(|format| !["json", "markdown"].contains(format)) {
        let message = format!("{wrong:?} is none of json, markdown");
        findings.wrong(Reason::InvalidConfig, "spec.declared.synthesizer.outputFormat", &message);
    }
}

fn plan(spec: &ToolPipelineSpec, namespace: &str, name: &str) -> PipelinePlan {
    let none = Declared::default();
    let declared = spec.declared.as_ref().unwrap_or(&none);
    let tools = spec.tools.as_ref();
    let written = synthesizer(declared.synthesizer.as_ref());
    let synthesizer = written.clone().plan();
    let output_plugin = spec.output.as_ref().and_then(|output| output.plugin.as_ref());
    let output = output_schema(spec, declared, &synthesizer).filter(|_| output_plugin.is_none());
    let of_type = |kind| move |written: &ObjectRef| PhasePluginPlan { kind, ..plugin(Some(written), None, namespace) };
    let (customizer, provider) = (of_type(PluginKind::PipelineCustomizer), of_type(PluginKind::PromptProvider));
    let output_type = output_plugin.map(of_type(PluginKind::OutputType));
    PipelinePlan {
        definition: definition(spec, name, output.as_ref()).to_string(),
        query_argument: query_argument(spec).to_owned(),
        include: tools.map(|tools| tools.include.clone().unwrap_or_else(|| vec!["**".into()])).unwrap_or_default(),
        exclude: tools.and_then(|tools| tools.exclude.clone()).unwrap_or_default(),
        models: models(spec.models.as_ref(), namespace),
        budgets: budgets(spec.budgets.as_ref()),
        start_agent: declared.start_agent.clone().unwrap_or_else(|| START_AGENT.to_owned()),
        max_iterations: declared.max_iterations.unwrap_or(MAX_ITERATIONS),
        agents: declared.agents.iter().map(|it| agent(it, &written, output_plugin, namespace)).collect(),
        phases: declared.insert_phases.iter().flatten().map(|written| phase(written, namespace)).collect(),
        customizations: declared.customizations.iter().flatten().map(|it| customization(it, namespace)).collect(),
        customizers: declared.customizers.iter().flatten().map(customizer).collect(),
        prompt_providers: declared.prompt_providers.iter().flatten().map(provider).collect(),
        helpers: Vec::new(),
        store: store(spec),
        output_schema: output.map(|schema| canonical(&schema).to_string()),
        output_type: output_type.map(|plugin| OutputTypePlan { plugin, written: written.clone() }),
        is_report: spec.output.as_ref().is_none_or(|output| output.schema.is_none() && output.plugin.is_none())
            && writes(declared)
            && !synthesizer.is_markdown,
        synthesizer,
    }
}

/// Returns the name of the argument that is the query.
fn query_argument(spec: &ToolPipelineSpec) -> &str {
    spec.tool.query_argument.as_deref().unwrap_or(QUERY)
}

/// Returns whose values the steps store.
fn store(spec: &ToolPipelineSpec) -> PipelineStorePlan {
    let Some(written) = &spec.store else { return PipelineStorePlan::default() };
    let scope = match written.scope {
        None | Some(api::StoreScope::Conversation) => StoreScope::Conversation,
        Some(api::StoreScope::Principal) => StoreScope::Principal,
        Some(api::StoreScope::Shared) => StoreScope::Shared,
    };
    PipelineStorePlan { scope, writers: written.writers.clone() }
}

/// Returns the schema of the output: the written one, or that of a report or of Markdown if an agent writes one.
fn output_schema(spec: &ToolPipelineSpec, declared: &Declared, synthesizer: &SynthesizerPlan) -> Option<Value> {
    let written = spec.output.as_ref().and_then(|output| output.schema.as_ref());
    let default =
        || writes(declared).then(|| if synthesizer.is_markdown { markdown_schema() } else { report_schema() });
    written.map(|schema| Value::Object(schema.0.clone())).or_else(default)
}

/// Whether an agent writes the output.
fn writes(declared: &Declared) -> bool {
    declared.agents.iter().any(|agent| agent.r#type == AgentType::Synthesizer && agent.enabled != Some(false))
}

fn markdown_schema() -> Value {
    json!({
        "type": "object",
        "required": ["content", "sources"],
        "properties": {"content": {"type": "string"}, "sources": {"type": "array", "items": {"type": "object"}}},
    })
}

/// The schema of a report (document 002, `SynthesisReport`).
fn report_schema() -> Value {
    let objects = json!({"type": "array", "items": {"type": "object"}});
    json!({
        "type": "object",
        "required": ["title", "executive_summary", "sections", "key_findings", "sources"],
        "properties": {
            "title": {"type": "string"},
            "executive_summary": {"type": "string"},
            "sections": objects,
            "key_findings": {"type": "array", "items": {"type": "string"}},
            "sources": objects,
            "metadata": {"type": "object"},
        },
    })
}

fn synthesizer(written: Option<&Synthesizer>) -> SynthesizerConfig {
    let Synthesizer {
        model_tier,
        max_tokens,
        temperature,
        system_prompt_addition,
        output_format,
        validation_strict,
        ..
    } = written.cloned().unwrap_or_default();
    let is_markdown = output_format.as_deref() == Some("markdown");
    SynthesizerConfig {
        model_tier,
        max_tokens,
        temperature: temperature.and_then(Number::from_f64),
        system_prompt_addition,
        output_format: output_format.map(|_| if is_markdown { OutputFormat::Markdown } else { OutputFormat::Json }),
        validation_strict,
    }
}

/// Returns the definition of the tool that clients see.
fn definition(spec: &ToolPipelineSpec, name: &str, output: Option<&Value>) -> Value {
    let tool = &spec.tool;
    let schema = tool.input_schema.as_ref();
    let schema = schema.map_or_else(|| default_schema(query_argument(spec)), |schema| Value::Object(schema.0.clone()));
    let mut definition = json!({
        "name": tool.name.as_deref().unwrap_or(name),
        "description": tool.description,
        "inputSchema": canonical(&schema),
        "execution": {"taskSupport": "optional"},
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
        definition["outputSchema"] = canonical(output);
    }
    definition
}

fn default_schema(query: &str) -> Value {
    json!({"type": "object", "properties": {query: {"type": "string"}}, "required": [query]})
}

fn budgets(written: Option<&Budgets>) -> PipelineBudgets {
    let written = written.cloned().unwrap_or_default();
    PipelineBudgets {
        timeout_seconds: written.timeout_seconds.unwrap_or(300),
        max_tool_calls: written.max_tool_calls.unwrap_or(20),
        max_llm_calls: written.max_llm_calls.unwrap_or(40),
        max_input: size(written.max_input_size.as_ref()).unwrap_or(1 << 20),
    }
}

fn kind(agent: &Agent) -> AgentKind {
    match agent.r#type {
        AgentType::Coordinator => AgentKind::Coordinator,
        AgentType::Background => AgentKind::Background,
        AgentType::Planner => AgentKind::Planner,
        AgentType::Researcher => AgentKind::Researcher,
        AgentType::Reflector => AgentKind::Reflector,
        AgentType::Synthesizer => AgentKind::Synthesizer,
        AgentType::Custom => AgentKind::Custom,
    }
}

/// Returns an agent. The default role of the model of a synthesizer is left to the plugin of the output, if there is one.
fn agent(agent: &Agent, written: &SynthesizerConfig, output: Option<&ObjectRef>, namespace: &str) -> AgentPlan {
    let kind = kind(agent);
    let default = kind.default_role().map(str::to_owned);
    let role = match kind {
        AgentKind::Synthesizer => written.model_tier.clone().or(default.filter(|_| output.is_none())),
        _ => default,
    };
    AgentPlan {
        name: agent.name.clone(),
        enabled: agent.enabled.unwrap_or(true),
        kind,
        model_role: agent.model_tier.clone().or(role),
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

fn customization(written: &Customization, namespace: &str) -> CustomizationPlan {
    let change = |it: &AgentOverride| AgentOverridePlan {
        agent: it.agent.clone(),
        model_role: it.model_tier.clone(),
        enabled: it.enabled,
        config: it.config.as_ref().map(|config| canonical_text(config).get().to_owned()),
    };
    CustomizationPlan {
        name: written.name.clone(),
        when: written.when.clone(),
        disabled_agents: written.disabled_agents.clone().unwrap_or_default(),
        overrides: written.agent_overrides.iter().flatten().map(change).collect(),
        phases: written.insert_phases.iter().flatten().map(|written| phase(written, namespace)).collect(),
    }
}

fn plugin(written: Option<&ObjectRef>, config: Option<&FreeObject>, namespace: &str) -> PhasePluginPlan {
    // An agent without a plugin is of another type, so that the pipeline is refused.
    let nothing = ObjectRef { name: String::new(), namespace: None };
    PhasePluginPlan {
        key: object_ref(written.unwrap_or(&nothing), namespace),
        config: config.map(|config| canonical_text(config).get().to_owned()),
        kind: PluginKind::Phase,
        unavailable: None,
    }
}
