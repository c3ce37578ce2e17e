//! Turns a PluginChain into the compiler's input. For an invalid chain, the input states only which gateways and calls
//! the chain is for.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::findings::Findings;
use super::plugin::phase;
use super::shared::{key, labels, object_ref, selector};
use crate::api::canonical::canonical_text;
use crate::api::chain::{
    ChainTools, ChainUpstreams, Entry, FailurePolicy, Method, Mode, Notifications, PluginChain, PluginChainSpec, View,
};
use crate::api::shared::ObjectRef;
use crate::config::input::{ChainInput, EntryInput, Labels, UpstreamsInput};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::method::Method as PlanMethod;
use crate::domain::plugin as domain;
use crate::domain::problem::Problem;

/// The order of a chain that does not set one.
const DEFAULT_ORDER: i32 = 100;

pub fn chain(object: &PluginChain) -> (ChainInput, Vec<Problem>) {
    let spec = &object.spec;
    let key = key(&object.metadata);
    let mut findings = Findings::new(ObjectId::new(Kind::PluginChain, key.clone()));
    note_later(spec, &mut findings);
    let scope = WrittenScope {
        order: spec.order,
        gateways: spec.gateways.clone(),
        upstreams: spec.upstreams.clone(),
        tools: spec.tools.clone(),
        methods: spec.methods.clone(),
    };
    let entries = spec.entries.iter().map(|e| entry(e, &key.namespace)).collect();
    let notifications_pass = spec.notifications == Some(Notifications::Pass);
    let input = scope.into_input(key, labels(&object.metadata), phase(spec.phase));
    (ChainInput { notifications_pass, entries, ..input }, findings.finish())
}

/// Returns the scope of a chain that did not pass its check; `problems` are the findings of that check. If the
/// upstreams, tools or methods are invalid, the scope contains all of them, so that no call passes unguarded. Returns
/// `None` if the labels or `spec.gateways` are invalid, because it is then unknown which gateways the chain is for.
pub fn invalid_chain(key: &ObjectKey, document: &Value, problems: &[Problem]) -> Option<ChainInput> {
    let part = Part { document, problems };
    let labels = document.pointer("/metadata/labels").map_or(Some(Labels::default()), read)?;
    if part.is_bad("gateways") {
        return None;
    }
    let scope = WrittenScope {
        order: part.read("order"),
        gateways: part.read("gateways"),
        upstreams: part.read("upstreams"),
        tools: part.read("tools"),
        methods: part.read("methods").or((!part.lacks("methods")).then(|| ALL_METHODS.to_vec())),
    };
    let phase = part.read("phase").map_or(domain::Phase::Request, phase);
    Some(scope.into_input(key.clone(), labels, phase))
}

/// The scope of a chain, as written in the object: the calls and gateways that the chain applies to.
struct WrittenScope {
    order: Option<u32>,
    gateways: Option<Vec<ObjectRef>>,
    upstreams: Option<ChainUpstreams>,
    tools: Option<ChainTools>,
    methods: Option<Vec<Method>>,
}

impl WrittenScope {
    fn into_input(self, key: ObjectKey, labels: Labels, phase: domain::Phase) -> ChainInput {
        let tools = self.tools.unwrap_or_default();
        let gateways = self.gateways.unwrap_or_default();
        let upstreams = self.upstreams.map(|written| UpstreamsInput {
            names: written.names.unwrap_or_default(),
            selector: written.selector.as_ref().map(selector),
        });
        let default_methods = self.methods.is_none();
        let methods = self.methods.unwrap_or_else(|| vec![Method::ToolsCall]);
        ChainInput {
            labels,
            phase,
            order: self.order.and_then(|order| i32::try_from(order).ok()).unwrap_or(DEFAULT_ORDER),
            gateways: gateways.iter().map(|g| object_ref(g, &key.namespace)).collect(),
            upstreams,
            include: tools.include.unwrap_or_default(),
            exclude: tools.exclude.unwrap_or_default(),
            methods: methods.into_iter().map(method).collect(),
            default_methods,
            notifications_pass: false,
            entries: Vec::new(),
            key,
        }
    }
}

const ALL_METHODS: [Method; 9] = [
    Method::ToolsCall,
    Method::PromptsGet,
    Method::ResourcesRead,
    Method::SamplingCreateMessage,
    Method::ElicitationCreate,
    Method::ToolsList,
    Method::PromptsList,
    Method::ResourcesList,
    Method::ResourcesTemplatesList,
];

/// Access to the parts of an invalid document.
struct Part<'a> {
    document: &'a Value,
    problems: &'a [Problem],
}

impl Part<'_> {
    /// Returns `spec.{name}` if it is present and no Problem is about it.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        if self.is_bad(name) { None } else { read(self.document.get("spec")?.get(name)?) }
    }

    /// Whether `spec` is an object without this field.
    fn lacks(&self, name: &str) -> bool {
        self.document.get("spec").and_then(Value::as_object).is_some_and(|spec| !spec.contains_key(name))
    }

    fn is_bad(&self, name: &str) -> bool {
        let field = format!("spec.{name}");
        let inside = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        self.problems.iter().any(|p| p.is_error() && p.field.strip_prefix(&field).is_some_and(inside))
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

fn note_later(spec: &PluginChainSpec, findings: &mut Findings) {
    for (i, entry) in spec.entries.iter().enumerate() {
        findings.later(entry.canary.is_some(), format!("spec.entries[{i}].canary"));
    }
}

fn method(method: Method) -> PlanMethod {
    match method {
        Method::ToolsCall => PlanMethod::CallTool,
        Method::PromptsGet => PlanMethod::GetPrompt,
        Method::ResourcesRead => PlanMethod::ReadResource,
        Method::SamplingCreateMessage => PlanMethod::CreateMessage,
        Method::ElicitationCreate => PlanMethod::Elicit,
        Method::ToolsList => PlanMethod::ListTools,
        Method::PromptsList => PlanMethod::ListPrompts,
        Method::ResourcesList => PlanMethod::ListResources,
        Method::ResourcesTemplatesList => PlanMethod::ListTemplates,
    }
}

fn entry(entry: &Entry, own_namespace: &str) -> EntryInput {
    EntryInput {
        plugin: ObjectKey::new(entry.namespace.as_deref().unwrap_or(own_namespace), &entry.name),
        order: entry.order.map(i64::from),
        enabled: entry.enabled.unwrap_or(true),
        timeout_ms: entry.timeout_ms,
        max_tokens: entry.max_tokens,
        config: entry.config.as_ref().map(canonical_text),
        view: match entry.view {
            None | Some(View::Auto) => domain::View::Auto,
            Some(View::Text) => domain::View::Text,
            Some(View::Json) => domain::View::Json,
        },
        when: entry.when.clone(),
        failure_policy: entry.failure_policy.map(|policy| match policy {
            FailurePolicy::Fail => domain::FailurePolicy::Fail,
            FailurePolicy::LastGood => domain::FailurePolicy::LastGood,
            FailurePolicy::Ignore => domain::FailurePolicy::Ignore,
        }),
        mode: match entry.mode {
            None | Some(Mode::Enforce) => domain::Mode::Enforce,
            Some(Mode::Shadow) => domain::Mode::Shadow,
        },
    }
}
