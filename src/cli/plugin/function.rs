//! Runs one function of a plugin that is not middleware.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::mock::{MockHost, read_answers};
use super::subject::{ReadSubject, Subject};
use super::test_input::json_text;
use crate::cli::wiring::workers;
use crate::domain::method::Method;
use crate::domain::pipeline::{RunState, Sources, kind_of_stage_function};
use crate::domain::plan::{Plan, PluginPlan, Runtime};
use crate::domain::plugin::{ContentType, Failure, Input, Metadata, PluginKind, Ran, TypedCall};
use crate::domain::ports::{Host, LinkedPlugin, Loading, RunPlugin};
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::engine::pipelines::{check_result, research_type};
use crate::engine::plan::link::link;
use crate::source::{Folders, Located};

/// The limits of a run that a pipeline has by default.
const TIMEOUT: Duration = Duration::from_secs(300);
const MAX_TOOL_CALLS: u32 = 20;
const MAX_LLM_CALLS: u32 = 40;

/// A function, its arguments, and the answers to its requests.
pub struct FunctionCase {
    method: String,
    /// The state of a step, the input of a function of a stage, or an array of arguments.
    input: Value,
    answers: Map<String, Value>,
}

impl FunctionCase {
    /// Reads `--input` and `--mock`.
    pub fn read(method: &str, input: Option<&str>, mock: Option<&str>) -> anyhow::Result<Self> {
        let input = serde_json::from_str(&input.map_or_else(|| Ok("{}".to_owned()), json_text)?);
        let input: Value = input.context("--input: it is not JSON")?;
        if !input.is_object() && !input.is_array() {
            bail!("--input: give the state of a step, a JSON object, or an array of the function's arguments");
        }
        if input.get("arguments").is_some_and(|arguments| !arguments.is_object()) {
            bail!("--input: `arguments` is not an object");
        }
        let answers = mock.map(read_answers).transpose()?.unwrap_or_default();
        Ok(Self { method: method.to_owned(), input, answers })
    }

    /// Returns the type that a file of code has, if this is one of its functions: `execute` of a step gets a state, that
    /// of a tool provider an array.
    pub fn kind(&self) -> PluginKind {
        match &*self.method {
            "getTools" | "validateArguments" => PluginKind::ToolProvider,
            "execute" if self.input.is_array() => PluginKind::ToolProvider,
            "getPromptOverrides" => PluginKind::PromptProvider,
            "getPipelineConfig" | "getPipelineCustomizations" | "getPhases" => PluginKind::PipelineCustomizer,
            "getOutputSchema" | "getSynthesizerConfig" | "getSynthesizerPrompt" => PluginKind::OutputType,
            function => kind_of_stage_function(function).unwrap_or(PluginKind::Phase),
        }
    }

    /// Runs the function once, in a new worker, and returns the report. Returns Problems if the plugin is not accepted.
    /// Also returns the folders in which changes can affect the plugin.
    ///
    /// # Errors
    /// If the plugin cannot be read or chosen, or is middleware.
    pub async fn run(&self, subject: &mut Subject) -> anyhow::Result<(Result<Value, Vec<Located>>, Folders)> {
        let reading = subject.read().await?;
        let ReadSubject { plan, secrets, plugin, warnings } = match reading.read {
            Ok(read) => *read,
            Err(problems) => return Ok((Err(problems), reading.folders)),
        };
        if plugin.kind.is_middleware() {
            bail!("{} is of type middleware, which runs on the content of calls: leave out --method", plugin.key);
        }
        let runtime = plan.gateway.runtime.clone();
        let alone = Plan { upstreams: Vec::new(), chains: Vec::new(), ..plan };
        let (mut linked, _) = link(alone, &[], &secrets, &Arc::default());
        let config = subject.config(&plugin);
        let timeout = subject.timeout(&plugin).unwrap_or(TIMEOUT);
        let (workers, _, metrics) = workers()?;
        let host = MockHost::new(self.answers.clone());
        let ran = match linked.plugins.remove(&plugin.key) {
            Some(Ok(linked)) => self.execute(&workers, (&linked, &runtime), config.as_deref(), timeout, &host).await,
            Some(Err(failure)) => failed(failure),
            None => failed(Failure::new(Reason::PluginNotFound, "the plan has lost it")),
        };
        // The worker ends first, so that the log includes its last output.
        workers.shutdown().await;
        let mut report = self.report(&plugin, ran, host);
        report["startMs"] = json!(metrics.mean_start(&plugin.key.to_string()).map(|start| start.as_secs_f64() * 1e3));
        report["problems"] = json!(warnings.iter().map(ToString::to_string).collect::<Vec<_>>());
        Ok((Ok(report), reading.folders))
    }

    async fn execute(
        &self,
        workers: &impl RunPlugin,
        (plugin, runtime): (&Arc<LinkedPlugin>, &Runtime),
        config: Option<&RawValue>,
        timeout: Duration,
        host: &dyn Host,
    ) -> Ran {
        workers.prepare(std::slice::from_ref(plugin), runtime).await;
        let mut seen = 0;
        while workers.loading(plugin) == Loading::Underway {
            seen = workers.loads(seen).await;
        }
        if let Loading::Failed { failure, .. } = workers.loading(plugin) {
            return failed(failure);
        }
        let kind = plugin.plan.kind;
        let id = uuid::Uuid::now_v7().to_string();
        let input = Input {
            tool_name: "",
            raw_content: Some(&self.arguments(kind).to_string()),
            max_tokens: None,
            metadata: Metadata {
                request_id: &id,
                timestamp: "",
                server_name: "",
                phase: "",
                method: Method::CallTool.as_str(),
                user_query: None,
                content_type: ContentType::Json,
                config,
                chain: "",
                attempt: 1,
            },
            typed: Some(TypedCall { method: &self.method, context: &self.context(kind, &id, timeout) }),
        };
        workers.run(plugin, &input, timeout, host).await
    }

    /// Returns the arguments of the function, without `ctx`. A state has the members of a run that begins, unless
    /// `--input` has them.
    fn arguments(&self, kind: PluginKind) -> Value {
        match &self.input {
            Value::Object(given) if kind == PluginKind::Phase => {
                let mut state = RunState::new(self.call_arguments(), "prompt").shown(1, &Sources::default());
                given.iter().for_each(|(member, value)| state[member] = value.clone());
                json!([state])
            }
            Value::Object(given) if kind.is_stage() => {
                let mut input = json!({"prompt": "", "context": []});
                given.iter().for_each(|(member, value)| input[member] = value.clone());
                json!([input])
            }
            Value::Array(_) => self.input.clone(),
            _ => json!([]),
        }
    }

    /// Returns the arguments of the call of the pipeline.
    fn call_arguments(&self) -> Value {
        self.input.get("arguments").cloned().unwrap_or_else(|| json!({}))
    }

    /// Returns the members of `ctx` that depend on the call.
    fn context(&self, kind: PluginKind, id: &str, timeout: Duration) -> Box<RawValue> {
        let is_provider = kind == PluginKind::ToolProvider;
        let mut caller = json!({"userId": "anonymous", "chatId": "", "researchSessionId": id});
        let mut context = json!({
            "requestId": id,
            "budgets": {
                "toolCallsUsed": 0,
                "maxToolCalls": MAX_TOOL_CALLS,
                "llmCallsUsed": 0,
                "maxLLMCalls": if is_provider { 0 } else { MAX_LLM_CALLS },
                "remainingTimeMs": u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            },
        });
        if !is_provider {
            caller["researchType"] = json!(research_type(&self.call_arguments()));
            context["run"] = json!({"id": id, "pipeline": "test/pipeline", "step": "step"});
        }
        if kind == PluginKind::Phase {
            caller["chatId"] = json!(id);
            context["conversation"] = json!({"id": id});
            context["store"] = json!({"durable": false});
        }
        let has_caller = !["getTools", "getOutputSchema"].contains(&&*self.method);
        context["context"] = if has_caller { caller } else { Value::Null };
        to_raw(&context)
    }

    fn report(&self, plugin: &PluginPlan, ran: Ran, host: MockHost) -> Value {
        let result = ran.output.and_then(|output| {
            check_result(plugin.kind, &self.method, &output.text)?;
            Ok(output.text)
        });
        let failure = result.as_ref().err();
        let state = host.into_state();
        json!({
            "plugin": plugin.key.to_string(),
            "type": plugin.kind.as_str(),
            "method": self.method,
            "outcome": failure.map_or_else(|| "ran".to_owned(), |failure| format!("failed({})", failure.reason)),
            "reason": failure.map(|failure| failure.reason),
            "message": failure.map(Failure::full),
            "result": result.as_ref().ok().and_then(|text| serde_json::from_str::<Value>(text).ok()),
            "requests": state.requests,
            "progress": state.progress,
            "queueMs": ran.queued.as_secs_f64() * 1e3,
            "runMs": ran.ran.as_secs_f64() * 1e3,
        })
    }
}

fn failed(failure: Failure) -> Ran {
    Ran { output: Err(failure), queued: Duration::ZERO, ran: Duration::ZERO, worker_pid: None }
}
