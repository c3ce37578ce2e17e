//! Tools that a plugin of type tool-provider makes (document 002, `ToolProvider` and `ResearchTool`).

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Pipelines;
use super::arguments::read_arguments;
use super::plugin_call::{PluginCall, Unfit};
use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::method::Method;
use crate::domain::pipeline::{NewSource, SOURCES, Sources};
use crate::domain::plan::PhasePluginPlan;
use crate::domain::plugin::{ContentType, Failure, Mode};
use crate::domain::ports::{Answering, Host, PluginProgress, ToClient};
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::RpcError;
use crate::domain::upstream::{Answer, Target, UpstreamError};
use crate::engine::chains::chain::CallContext;
use crate::engine::chains::host::CallHost;
use crate::engine::chains::plugin_run::PluginRun;
use crate::engine::chains::routed_call::{CallFacts, Routed};

/// The functions of such a plugin.
pub(super) const GET_TOOLS: &str = "getTools";
pub(super) const VALIDATE: &str = "validateArguments";
pub(super) const EXECUTE: &str = "execute";
/// The maximum number of tools of a provider.
const MAX_TOOLS: usize = 1000;

/// The result of a tool (document 002, `ToolResult`).
#[derive(Deserialize)]
struct ToolResult {
    content: Option<String>,
    #[serde(default = "succeeds")]
    success: bool,
    error: Option<String>,
    sources: Option<Vec<NewSource>>,
    data: Option<Map<String, Value>>,
}

fn succeeds() -> bool {
    true
}

/// A tool, as a provider defines it (document 002, `ToolDefinition`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProvidedTool {
    name: String,
    description: Option<String>,
    title: Option<String>,
    parameters: Option<Map<String, Value>>,
    annotations: Option<Map<String, Value>>,
    output_schema: Option<Map<String, Value>>,
}

/// The gateway during functions that make no requests: `getTools` and `getOutputSchema`, because there is no client, and those of
/// wrappers.
pub(super) struct NoCaller;

impl Host for NoCaller {
    fn progress(&self, _: PluginProgress) {}

    fn call_tool<'a>(&'a self, _: &'a str, _: Option<&'a RawValue>) -> Answering<'a> {
        let error = RpcError::refused(Reason::NoCaller, "the function calls no tool, since no client has called one");
        Box::pin(std::future::ready(Answer::Error(to_raw(&error))))
    }
}

impl Pipelines {
    /// Asks a provider for its tools.
    ///
    /// # Errors
    /// If the plugin cannot run, fails, or returns something else.
    pub(in crate::engine) async fn provided_tools(
        &self,
        target: &Target,
        provider: &PhasePluginPlan,
        timeout: Duration,
    ) -> Result<Listed, UpstreamError> {
        let returned = self.ask_plugin(target, provider, GET_TOOLS, timeout).await.map_err(UpstreamError::Plugin)?;
        listed(&returned).map_err(UpstreamError::Protocol)
    }

    /// Calls a function of a plugin for a list of tools, which no client has asked for, and returns its result.
    ///
    /// # Errors
    /// If the plugin cannot run, or fails.
    pub(super) async fn ask_plugin(
        &self,
        target: &Target,
        plugin: &PhasePluginPlan,
        function: &'static str,
        timeout: Duration,
    ) -> Result<String, Failure> {
        let plugin = self.in_force.snapshot().linked.plugin_of_step(plugin)?;
        let facts = CallFacts::of_list(&target.plan, self.clock.unix_millis());
        let context = context(&facts.request_id, &Value::Null, (0, timeout));
        // It is not recorded: no call has asked for it.
        let run = PluginRun {
            chains: &self.chains,
            facts: &facts,
            plugin: Some(&plugin),
            name: "",
            chain: ("", ""),
            method: Method::ListTools,
            phase: None,
            mode: Mode::Enforce,
            config: plugin.plan.config.as_deref(),
            max_tokens: None,
            timeout,
            typed: Some((function, &context)),
        };
        let ran = run.run(&plugin, ("[]", ContentType::Json), &NoCaller).await;
        // Nothing that a client has sent is in the text.
        ran.output.map(|output| output.text).map_err(|failure| Failure::quoting(failure.reason, failure.full()))
    }

    /// Calls a tool of a provider. A failure is a result too, which says why.
    pub(super) async fn call_provider(
        self: &Arc<Self>,
        call: &Routed<'_>,
        provider: &PhasePluginPlan,
        client: &dyn ToClient,
        arguments: Option<&RawValue>,
    ) -> Box<RawValue> {
        let answered = self.run_tool(call, provider, client, arguments).await;
        answered.unwrap_or_else(|why| failure(&format!("{}: {}", why.reason, why.full())))
    }

    async fn run_tool(
        self: &Arc<Self>,
        call: &Routed<'_>,
        provider: &PhasePluginPlan,
        client: &dyn ToClient,
        arguments: Option<&RawValue>,
    ) -> Result<Box<RawValue>, Failure> {
        let plugin = self.in_force.snapshot().linked.plugin_of_step(provider)?;
        let facts = &call.facts;
        let own = plugin.plan.timeout_ms.map(|timeout| Duration::from_millis(timeout.into()));
        let timeout = own.unwrap_or(Duration::MAX).min(call.timeout);
        let caller = json!({
            "userId": facts.caller.identity.subject,
            "chatId": facts.caller.session_name(),
            "researchSessionId": facts.request_id,
        });
        let called = PluginCall {
            chains: &self.chains,
            facts,
            step: provider,
            plugin: &plugin,
            chain: &format!("upstream:{}", call.plan().key),
            context: &context(&facts.request_id, &caller, (MAX_CALLS, timeout)),
            timeout,
        };
        let host =
            CallHost::new(&self.chains, CallContext::of(facts, Method::CallTool, client), &plugin, Mode::Enforce);
        let given = vec![json!(facts.tool), read_arguments(arguments)?];
        let faults = called.run(VALIDATE, given.clone(), &host, faults).await?;
        if !faults.is_empty() {
            return Ok(failure(&faults.join("\n")));
        }
        called.run(EXECUTE, given, &host, result).await
    }
}

/// The number of tools that one execution can call, as its budget says.
const MAX_CALLS: u32 = 1000;

/// Returns the members of the plugin's `ctx`.
fn context(id: &str, caller: &Value, (tool_calls, timeout): (u32, Duration)) -> Box<RawValue> {
    to_raw(&json!({
        "requestId": id,
        "context": caller,
        "budgets": {
            "toolCallsUsed": 0,
            "maxToolCalls": tool_calls,
            "llmCallsUsed": 0,
            "maxLLMCalls": 0,
            "remainingTimeMs": u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        },
    }))
}

/// Reads the result of `getTools`.
pub(super) fn listed(json: &str) -> Result<Listed, String> {
    let shape = "getTools returns no array of {name, description, parameters}";
    let tools: Vec<ProvidedTool> = serde_json::from_str(json).map_err(|_| shape.to_owned())?;
    if tools.len() > MAX_TOOLS {
        return Err(format!("getTools returns {} tools, {MAX_TOOLS} are allowed", tools.len()));
    }
    let mut items: Vec<Item> = Vec::new();
    for tool in tools {
        let mut definition = json!({
            "name": tool.name,
            "inputSchema": tool.parameters.map_or_else(|| json!({"type": "object"}), Value::Object),
        });
        let more = [
            ("title", tool.title.map(Value::String)),
            ("description", tool.description.map(Value::String)),
            ("annotations", tool.annotations.map(Value::Object)),
            ("outputSchema", tool.output_schema.map(Value::Object)),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                definition[name] = value;
            }
        }
        let item =
            Item::parse(ItemKind::Tool, &to_raw(&definition)).map_err(|why| format!("a tool of getTools: {why}"))?;
        if items.iter().any(|other| other.name == item.name) {
            return Err(format!("getTools returns two tools of the name {}", item.name));
        }
        items.push(item);
    }
    Ok(Listed { items, ..Listed::default() })
}

/// Reads the result of `validateArguments`.
pub(super) fn faults(json: &str) -> Result<Vec<String>, String> {
    let faults: Option<Vec<String>> =
        serde_json::from_str(json).map_err(|_| "its result is no array of texts".to_owned())?;
    Ok(faults.unwrap_or_default())
}

/// Reads the result of `execute`, and returns that of the tool.
pub(super) fn result(json: &str) -> Result<Box<RawValue>, Unfit> {
    let shape = "its result is no object {content, success, error, sources, data}";
    let ToolResult { content, success, error, sources: found, data } =
        serde_json::from_str(json).map_err(|_| shape.to_owned())?;
    let mut sources = Sources::default();
    for (index, source) in found.into_iter().flatten().enumerate() {
        let invalid =
            |why| Failure::quoting(Reason::InvalidSource, format!("its `sources[{index}]` is not valid: {why}"));
        sources.add(source).map_err(|why| Unfit(invalid(why)))?;
    }
    let text = content.filter(|content| !content.is_empty()).or(error).unwrap_or_default();
    let mut blocks = vec![json!({"type": "text", "text": text})];
    blocks.extend(sources.all().iter().filter_map(|source| {
        let url = source.url.as_ref()?;
        Some(json!({"type": "resource_link", "uri": url, "name": source.title, "title": source.title}))
    }));
    let mut result = json!({"content": blocks, "isError": !success});
    if let Some(data) = data {
        result["structuredContent"] = Value::Object(data);
    }
    if !sources.all().is_empty() {
        result["_meta"] = json!({SOURCES: sources.all()});
    }
    Ok(to_raw(&result))
}

/// Returns the result of a tool that failed.
fn failure(text: &str) -> Box<RawValue> {
    to_raw(&json!({"content": [{"type": "text", "text": text}], "isError": true}))
}
