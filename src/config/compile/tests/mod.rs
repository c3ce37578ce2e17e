//! Tests of the compiler, by topic. This file contains their common helpers.

mod bounds;
mod chains;
mod complete;
mod exports;
mod kept;
mod life;
mod pipelines;
mod plugins;
pub(crate) mod random;
mod required;
mod revoked;
mod sharing;
mod upstreams;
mod withdrawn;
mod wrappers;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::{compile, restrict, restrictions};
use crate::config::config_schema::ConfigSchema;
use crate::config::input::{
    ChainInput, EntryInput, GatewayInput, Inputs, InvalidObject, ManagedInput, Namespaces, PipelineInput, PluginInput,
    ProtocolSetting, SectionInput, SourceInput, UpstreamInput, UpstreamsInput, code_key,
};
use crate::domain::descriptor::Descriptor;
use crate::domain::digest::sha256_hex;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::method::Method;
use crate::domain::plan::{
    AgentKind, AgentPlan, ArgumentValidation, ChainPlan, EraSetting, HealthPlan, LabelSelector, ModelPlan,
    PhasePluginPlan, PipelineBudgets, PipelinePlan, Plan, PluginLimits, RetryPlan, SectionPart, SectionPlan,
    TransportPlan, UpstreamPlan,
};
use crate::domain::plugin::{Encoding, Mode, Phase, PluginKind, Role, View};
use crate::domain::ports::{CodeFacts, SyntaxProblem};

/// Parses `namespace/name`, or a name in `default`.
pub(crate) fn key(text: &str) -> ObjectKey {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    ObjectKey::new(namespace, name)
}

pub(crate) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}

/// Returns the `configSchema` of a plugin.
fn schema(schema: &serde_json::Value) -> Option<Arc<ConfigSchema>> {
    Some(Arc::new(ConfigSchema::of(schema)))
}

/// Returns a selection of the namespaces with these names.
fn only(names: &[&str]) -> Namespaces {
    Namespaces::Names(names.iter().map(|name| (*name).to_owned()).collect())
}

fn labelled(key: &str, value: &str) -> LabelSelector {
    LabelSelector { match_labels: [(key.to_owned(), value.to_owned())].into(), ..LabelSelector::default() }
}

/// Returns inputs with a gateway `default/gw` that takes its own namespace, an upstream `up`, a Guard `guard`, a
/// Transform `shape`, and a request chain `checks` that runs both plugins.
pub(crate) fn folder() -> Inputs {
    let mut inputs = empty();
    declare(&mut inputs);
    inputs.upstreams.push(upstream("up"));
    add_plugin(&mut inputs, "guard", |plugin| plugin.role = Role::Guard);
    add_plugin(&mut inputs, "shape", |_| {});
    inputs.chains.push(chain("checks", &["guard", "shape"]));
    inputs
}

pub(crate) fn empty() -> Inputs {
    Inputs { default_plugin_dir: PathBuf::from("/srv"), ..Inputs::default() }
}

fn declare(inputs: &mut Inputs) -> &mut GatewayInput {
    let mut plan = super::implicit(inputs);
    (plan.key, plan.declared) = (key("gw"), true);
    let (upstreams, chains, pipelines, sections, plugins) = Default::default();
    inputs.gateway.insert(GatewayInput {
        plan,
        upstreams,
        chains,
        pipelines,
        sections,
        plugins,
        discovers: false,
        access_tests: Vec::new(),
        pinned: None,
    })
}

pub(crate) fn gateway(inputs: &mut Inputs) -> &mut GatewayInput {
    inputs.gateway.as_mut().unwrap()
}

pub(crate) fn upstream(name: &str) -> UpstreamInput {
    let health = HealthPlan { period_seconds: 30, timeout_ms: 1, retry_backoff_ms: vec![1], auto_recover: false };
    let plan = UpstreamPlan {
        key: key(name),
        labels: Default::default(),
        enabled: true,
        transport: TransportPlan::at("http://127.0.0.1:1/mcp"),
        era: EraSetting::Auto,
        http_transport: Default::default(),
        connect_timeout_ms: 1,
        call_timeout_ms: None,
        extend_on_progress: true,
        retry: RetryPlan::default(),
        pinning: None,
        idle_timeout_ms: 1,
        health,
        enable: None,
        argument_validation: ArgumentValidation::Enforce,
        concurrent_calls: None,
        max_response_size: None,
        include: Vec::new(),
        exclude: Vec::new(),
        overrides: Vec::new(),
        for_pipelines: false,
        refusing: None,
    };
    UpstreamInput { plan, values: Vec::new(), tls: Vec::new(), server: None, managed: None, share_with: None }
}

/// Returns a plugin whose inline code is its own name. The facts about this code must be added with `know`.
fn plugin(name: &str) -> PluginInput {
    PluginInput {
        wrapper: None,
        labels: Default::default(),
        kind: PluginKind::Middleware,
        descriptor: Descriptor::default(),
        key: key(name),
        enabled: true,
        role: Role::Transform,
        phases: None,
        order: 0,
        protocol: ProtocolSetting::Auto,
        source: SourceInput::Inline(name.to_owned()),
        sha256: None,
        filter_upstreams: Vec::new(),
        filter_tools: Vec::new(),
        timeout_ms: None,
        config: None,
        config_schema: None,
        env: Vec::new(),
        egress: Vec::new(),
        reuse: false,
        encoding: Encoding::Json,
        concurrency: 1,
        pool_size: None,
        max_executions: None,
        max_lifetime_seconds: None,
        limits: PluginLimits::default(),
        share_with: None,
        config_overrides: false,
        refusing: None,
    }
}

/// Returns a pipeline whose agents run these plugins of type phase, one after another. Names are in its namespace by default.
pub(crate) fn pipeline(name: &str, tool: &str, plugins: &[&str]) -> PipelineInput {
    let namespace = key(name).namespace;
    let agents = plugins.iter().enumerate().map(|(index, plugin)| AgentPlan {
        name: format!("a{index}"),
        enabled: true,
        kind: AgentKind::Custom,
        model_role: None,
        plugin: match plugin.contains('/') {
            true => step(plugin, PluginKind::Phase),
            false => step(&format!("{namespace}/{plugin}"), PluginKind::Phase),
        },
        next_on_success: (index + 1 < plugins.len()).then(|| format!("a{}", index + 1)),
        next_on_failure: None,
        repeat: None,
    });
    let definition = serde_json::json!({"name": tool, "description": "d", "inputSchema": {"type": "object"}});
    let pipeline = PipelinePlan {
        definition: definition.to_string(),
        query_argument: "prompt".into(),
        include: Vec::new(),
        exclude: Vec::new(),
        models: Vec::new(),
        budgets: PipelineBudgets { timeout_seconds: 1, max_tool_calls: 1, max_llm_calls: 1, max_input: 1 },
        start_agent: "a0".into(),
        max_iterations: 1,
        agents: agents.collect(),
        phases: Vec::new(),
        customizations: Vec::new(),
        customizers: Vec::new(),
        prompt_providers: Vec::new(),
        helpers: Vec::new(),
        store: Default::default(),
        output_schema: None,
        output_type: None,
        is_report: false,
        synthesizer: Default::default(),
    };
    let plan = UpstreamPlan { transport: TransportPlan::Pipeline(Box::new(pipeline)), ..upstream(name).plan };
    let gateways = if namespace == "default" { Vec::new() } else { vec![key("gw")] };
    PipelineInput { gateways, plan }
}

fn step(plugin: &str, kind: PluginKind) -> PhasePluginPlan {
    PhasePluginPlan { key: key(plugin), config: None, kind, unavailable: None }
}

pub(crate) fn pipeline_plan(plan: &mut UpstreamPlan) -> &mut PipelinePlan {
    match &mut plan.transport {
        TransportPlan::Pipeline(pipeline) => pipeline,
        other => panic!("{other:?}"),
    }
}

/// Returns a language model of this role.
fn model(role: &str) -> ModelPlan {
    ModelPlan {
        role: role.into(),
        base_url: "http://127.0.0.1:1".into(),
        model: "m".into(),
        key: None,
        max_tokens: None,
        temperature: None,
        timeout_ms: 1,
        is_of_gateway: false,
        extra_body: None,
    }
}

/// Adds a plugin of type phase.
pub(crate) fn add_phase(inputs: &mut Inputs, name: &str) {
    add_plugin(inputs, name, |plugin| plugin.kind = PluginKind::Phase);
    know(inputs, name, "index.js", &["execute", "getTools", "getPromptOverrides"]);
}

/// Returns a binding of a block to the upstream of the same name.
fn section(name: &str) -> SectionInput {
    let part = SectionPart::Block { id: key(name).name };
    let plan =
        SectionPlan { key: key(name), glob: "*".into(), part, inherits: true, upstream: key(name), refusing: None };
    SectionInput { labels: Default::default(), gateways: vec![key("gw")], plan }
}

/// Adds a plugin whose inline code is an ES module that exports `default`.
pub(crate) fn add_plugin(inputs: &mut Inputs, name: &str, change: impl FnOnce(&mut PluginInput)) {
    let mut input = plugin(name);
    change(&mut input);
    know(inputs, name, "index.js", &["default"]);
    inputs.plugins.push(input);
}

pub(crate) fn know(inputs: &mut Inputs, code: &str, file_name: &str, exports: &[&str]) {
    let exports = exports.iter().map(|e| (*e).to_owned()).collect();
    let facts = CodeFacts { is_module: true, exports, ..CodeFacts::default() };
    inputs.facts.insert(code_key(&sha256_hex(code.as_bytes()), file_name), facts);
}

/// Replaces a plugin's code by code that does not parse.
pub(crate) fn break_code(inputs: &mut Inputs, name: &str) {
    let code = "export default (";
    let error = Some(SyntaxProblem { line: 1, column: 17, message: "an expression is expected".into() });
    inputs
        .facts
        .insert(code_key(&sha256_hex(code.as_bytes()), "index.js"), CodeFacts { error, ..CodeFacts::default() });
    plugin_of(inputs, name).source = SourceInput::Inline(code.into());
}

pub(crate) fn plugin_of<'a>(inputs: &'a mut Inputs, name: &str) -> &'a mut PluginInput {
    inputs.plugins.iter_mut().find(|p| p.key == key(name)).unwrap()
}

pub(crate) fn remove_plugin(inputs: &mut Inputs, name: &str) {
    inputs.plugins.retain(|p| p.key != key(name));
}

pub(crate) fn entry(plugin: &str) -> EntryInput {
    EntryInput {
        plugin: key(plugin),
        order: None,
        enabled: true,
        timeout_ms: None,
        max_tokens: None,
        config: None,
        view: View::Auto,
        when: None,
        failure_policy: None,
        mode: Mode::Enforce,
    }
}

/// Returns a request chain that covers every upstream within its reach.
pub(crate) fn chain(name: &str, plugins: &[&str]) -> ChainInput {
    ChainInput {
        key: key(name),
        labels: Default::default(),
        phase: Phase::Request,
        order: 100,
        gateways: Vec::new(),
        upstreams: None,
        include: Vec::new(),
        exclude: Vec::new(),
        methods: vec![Method::CallTool],
        default_methods: true,
        notifications_pass: false,
        entries: plugins.iter().map(|plugin| entry(plugin)).collect(),
    }
}

pub(crate) fn chain_of<'a>(inputs: &'a mut Inputs, name: &str) -> &'a mut ChainInput {
    inputs.chains.iter_mut().find(|c| c.key == key(name)).unwrap()
}

fn names(globs: &[&str]) -> Option<UpstreamsInput> {
    Some(UpstreamsInput { names: globs.iter().map(|g| (*g).to_owned()).collect(), selector: None })
}

fn invalid(kind: Kind, name: &str) -> InvalidObject {
    InvalidObject { id: ObjectId::new(kind, key(name)), chain: None, labels: None, off: None }
}

/// Compiles twice, and asserts that the Problems are `expected` and the plans identical. A Problem has the form `Reason
/// Kind namespace/name field`, with `?` before warnings.
fn check(inputs: &Inputs, previous: Option<&Plan>, expected: &[&str]) -> Plan {
    let (plan, problems) = compile(inputs, previous);
    let seen: Vec<String> = problems
        .iter()
        .map(|problem| {
            let mark = if problem.is_error() { "" } else { "?" };
            let object = problem.object.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{mark}{} {object} {}", problem.reason, problem.field).trim_end().to_owned()
        })
        .collect();
    assert_eq!(seen, expected, "{problems:#?}");
    let again = compile(inputs, previous).0;
    assert_eq!(serde_json::to_string(&plan).unwrap(), serde_json::to_string(&again).unwrap());
    plan
}

/// Compiles inputs that must not have Problems.
fn accepted(inputs: &Inputs) -> Plan {
    check(inputs, None, &[])
}

fn the_chain<'a>(plan: &'a Plan, name: &str) -> &'a ChainPlan {
    plan.chain(&key(name)).unwrap_or_else(|| panic!("there is no chain {name}"))
}

/// Returns the entries of a chain as `name policy`, followed by the reason if the entry cannot run.
fn runs(plan: &Plan, name: &str) -> Vec<String> {
    let entries = the_chain(plan, name).entries.iter();
    entries
        .map(|e| match &e.unavailable {
            None => format!("{} {:?}", e.plugin.name, e.failure_policy),
            Some(refusal) => format!("{} {:?} {}", e.plugin.name, e.failure_policy, refusal.reason),
        })
        .collect()
}

/// Returns `plan` with the restrictions that follow from `inputs`.
fn obeying(plan: &Plan, inputs: &Inputs) -> Plan {
    let mut obeying = plan.clone();
    let mut counts = restrictions(inputs, plan);
    (counts.stopped, counts.stop_cancels) = (plan.gateway.stopped, plan.gateway.stop_cancels);
    restrict(&mut obeying, &counts);
    obeying
}

fn code_of<'a>(plan: &'a Plan, name: &str) -> &'a str {
    &plan.code[&plan.plugin(&key(name)).unwrap().digest]
}
