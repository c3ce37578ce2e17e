//! Calls of language models that steps make.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tracing::Instrument;

use super::context::RunContext;
use super::json_answer;
use super::memory::AnswerMemory;
use crate::domain::model::{ModelAnswer, ModelFailure, ModelRequest};
use crate::domain::plan::ModelPlan;
use crate::domain::reason::Reason;
use crate::domain::schema::{BoundedSchema, PreparedSchema, without_value};
use crate::engine::chains::spans;

/// The longest name of a tool that models take.
const MAX_NAME: usize = 64;
/// How many faults of an answer the model is told.
const MAX_FAULTS: usize = 5;

/// What a step asks of a model.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wanted {
    pub(super) role: String,
    pub(super) messages: Vec<Value>,
    pub(super) tools: Vec<WantedTool>,
    pub(super) tool_choice: Option<Value>,
    /// The JSON Schema of the answer; `None` for any text.
    pub(super) schema: Option<Value>,
    pub(super) max_tokens: Option<u32>,
    pub(super) temperature: Option<serde_json::Number>,
    pub(super) stop: Option<Value>,
    /// Whether JSON that does not fit the schema, even when asked for again, is an answer too.
    #[serde(skip)]
    pub(super) is_lenient: bool,
}

/// A tool that a model can ask for.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct WantedTool {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) parameters: Value,
}

/// What a model answered.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) answer: ModelAnswer,
    /// The text as JSON, if a schema was asked for.
    pub(super) json: Option<Value>,
    /// The number of bytes that are reserved for it until the end of the step.
    pub(super) reserved: u64,
}

impl RunContext<'_> {
    /// Calls the model of a role. An answer that does not fit the schema is asked for once more.
    ///
    /// # Errors
    /// If there is no such model, a budget is used up, or there is no valid answer.
    pub(super) async fn complete(
        &self,
        step: &str,
        plugin: Option<&str>,
        wanted: Wanted,
    ) -> Result<Completed, ModelFailure> {
        let Some(model) = self.pipeline.plan.model(plugin, &wanted.role) else {
            let (role, name) = (&wanted.role, &self.name);
            let message =
                format!("no model of role {role:.64} in spec.models of ToolPipeline {name} or of the gateway");
            return Err(ModelFailure::new(Reason::ModelRoleNotFound, message));
        };
        let schema = wanted.schema.as_ref().map(prepared).transpose()?;
        let mut body = body(model, &wanted);
        let (mut answer, mut memory) = self.ask_model(step, model, &body, &wanted.tools).await?;
        if schema.is_some() && wanted.tools.is_empty() && !answer.tool_calls.is_empty() {
            let message = "the model asked for tools that it was not given";
            return Err(ModelFailure::new(Reason::ModelOutputInvalid, message));
        }
        let Some(schema) = schema.filter(|_| answer.tool_calls.is_empty()) else {
            return Ok(Completed { answer, json: None, reserved: memory.keep() });
        };
        let mut read = read_json(&schema, &answer.text);
        if let Err(Unfit { faults, .. }) = &read {
            let messages = body.get_mut("messages").and_then(Value::as_array_mut);
            messages.into_iter().for_each(|messages| {
                messages.push(json!({"role": "assistant", "content": answer.text}));
                messages
                    .push(json!({"role": "user", "content": format!("{faults}\nAnswer again, with the JSON alone.")}));
            });
            (answer, memory) = self.ask_model(step, model, &body, &wanted.tools).await?;
            read = read_json(&schema, &answer.text);
        }
        match read {
            Ok(json) => Ok(Completed { answer, json: Some(json), reserved: memory.keep() }),
            Err(Unfit { value: Some(json), .. }) if wanted.is_lenient => {
                Ok(Completed { answer, json: Some(json), reserved: memory.keep() })
            }
            Err(Unfit { shown, .. }) => Err(ModelFailure::new(Reason::ModelOutputInvalid, shown)),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// If the run has made as many as it may.
    fn count_call(&self) -> Result<(), ModelFailure> {
        let (mut used, most, name) = (self.used.lock(), self.pipeline.plan.budgets.max_llm_calls, &self.name);
        if used.llm_calls >= most {
            let message =
                format!("the run has made {most} calls of models (spec.budgets.maxLLMCalls of ToolPipeline {name})");
            return Err(ModelFailure::new(Reason::BudgetExhausted, message));
        }
        used.llm_calls += 1;
        Ok(())
    }

    /// Sends one request, counts it and measures it. Returns the answer, and the memory that is reserved for it.
    async fn ask_model(
        &self,
        step: &str,
        model: &ModelPlan,
        body: &Map<String, Value>,
        tools: &[WantedTool],
    ) -> Result<(ModelAnswer, AnswerMemory<'_>), ModelFailure> {
        self.check_in_force(None).map_err(|(reason, message)| ModelFailure::new(reason, message))?;
        self.count_call()?;
        let keys = &self.call.upstream.target.values;
        let key = model.key.as_ref().and_then(|key| keys.iter().find(|(name, _)| *name == key.name));
        let memory = self.memory.answer();
        let reserve = |bytes: u64| memory.set(bytes);
        let request = ModelRequest {
            pipeline: &self.name,
            base_url: &model.base_url,
            key: key.map(|(_, key)| key),
            step: [&self.call.facts.request_id, step],
            body,
            timeout: Duration::from_millis(model.timeout_ms.into()).min(self.remaining()),
            reserve: &reserve,
        };
        let (started, span) = (Instant::now(), spans::chat(&model.model));
        let answered = self.pipelines.models.complete(&request).instrument(span.clone()).await;
        spans::completed(&span, &answered);
        let outcome = answered.as_ref().map(|answer| answer.usage).map_err(|failure| failure.reason);
        self.pipelines.metrics.models.called(&model.model, started.elapsed(), outcome);
        let mut answer = answered.map_err(|failure| {
            ModelFailure::new(failure.reason, format!("model {} of role {}: {failure}", model.model, model.role))
        })?;
        let mut used = self.used.lock();
        used.tokens.prompt_tokens += answer.usage.prompt_tokens;
        used.tokens.completion_tokens += answer.usage.completion_tokens;
        for call in &mut answer.tool_calls {
            let meant = tools.iter().enumerate().find(|(index, tool)| alias(*index, &tool.name) == call.name);
            call.name = meant.map_or_else(|| call.name.clone(), |(_, tool)| tool.name.clone());
        }
        Ok((answer, memory))
    }
}

/// Returns the body of a request.
fn body(model: &ModelPlan, wanted: &Wanted) -> Map<String, Value> {
    let extra = model.extra_body.as_ref().and_then(|extra| serde_json::from_str(extra).ok());
    let mut body: Map<String, Value> = extra.unwrap_or_default();
    let mut set = |name: &str, value: Option<Value>| {
        value.and_then(|value| body.insert(name.to_owned(), value));
    };
    let tool = |(index, tool): (usize, &WantedTool)| {
        let WantedTool { name, description, parameters } = tool;
        let parameters = if parameters.is_null() { &json!({"type": "object"}) } else { parameters };
        let function = json!({"name": alias(index, name), "description": description, "parameters": parameters});
        json!({"type": "function", "function": function})
    };
    set("model", Some(json!(model.model)));
    set("messages", Some(json!(wanted.messages)));
    set("stream", Some(json!(false)));
    set("max_tokens", wanted.max_tokens.or(model.max_tokens).map(Value::from));
    set("temperature", wanted.temperature.clone().or_else(|| model.temperature.clone()).map(Value::Number));
    set("stop", wanted.stop.clone());
    if !wanted.tools.is_empty() {
        set("tools", Some(wanted.tools.iter().enumerate().map(tool).collect()));
        set("tool_choice", Some(wanted.tool_choice.clone().unwrap_or_else(|| json!("auto"))));
    }
    let schema = wanted.schema.as_ref();
    let format = schema.map(|schema| json!({"name": "answer", "schema": schema, "strict": false}));
    set("response_format", format.map(|format| json!({"type": "json_schema", "json_schema": format})));
    body
}

/// Returns the name of a tool that models take: its own, or one made of its place and what they take of its own.
fn alias(index: usize, name: &str) -> String {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_taken) {
        return name.to_owned();
    }
    let kept = name.bytes().filter(|byte| is_taken(*byte)).map(char::from).take(MAX_NAME - 8);
    kept.chain(format!("_{index}").chars()).collect()
}

fn prepared(schema: &Value) -> Result<BoundedSchema, ModelFailure> {
    let compiled = PreparedSchema::parse(&schema.to_string()).and_then(|schema| schema.compile());
    compiled.map_err(|why| ModelFailure::new(Reason::InvalidSchema, format!("the schema of the answer: {why}")))
}

/// An answer that does not fit its schema.
struct Unfit {
    /// Why, as the model gets it.
    faults: String,
    /// Why, without content.
    shown: String,
    /// The answer, if it is JSON.
    value: Option<Value>,
}

/// Reads an answer that is JSON. If the text has several values, the schema decides which one is the answer.
fn read_json(schema: &BoundedSchema, text: &str) -> Result<Value, Unfit> {
    let not_json = || "the answer of the model is not JSON".to_owned();
    let mut values: Vec<_> = json_answer::values(text).collect();
    if values.is_empty() {
        return Err(Unfit { faults: not_json(), shown: not_json(), value: None });
    }
    let value = values.swap_remove(values.iter().position(|value| schema.is_valid(value)).unwrap_or_default());
    let mut faults = String::new();
    let mut shown = None;
    for error in schema.mismatches(&value).take(MAX_FAULTS) {
        let place = error.schema_path();
        shown.get_or_insert_with(|| format!("the answer of the model does not fit {place} of the schema"));
        faults.push_str(&format!("{}: {}\n", error.instance_path(), without_value(&error)));
    }
    match shown {
        None => Ok(value),
        Some(shown) => Err(Unfit { faults, shown, value: Some(value) }),
    }
}
