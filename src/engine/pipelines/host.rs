//! The requests that a step of a run can make: calls of the tools that the pipeline includes, and reports of sources.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::context::RunContext;
use crate::domain::budget::Account;
use crate::domain::pipeline::NewSource;
use crate::domain::ports::{Answering, Host, PluginProgress};
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::upstream::Answer;
use crate::engine::calls::host::CallHost;

/// Answers the requests of one step.
pub(super) struct StepHost<'a> {
    pub(super) run: &'a RunContext<'a>,
    pub(super) step: &'a str,
    /// Calls tools as the caller of the pipeline.
    pub(super) calls: CallHost<'a>,
}

/// The arguments of the request `sources`: a source to add, or nothing, to list all.
#[derive(Deserialize)]
struct SourcesRequest {
    add: Option<NewSource>,
}

impl RunContext<'_> {
    /// Reports progress to the client. The numbers rise over all steps.
    pub(super) fn report(&self, message: &str) {
        let progress = {
            let mut used = self.used.lock();
            used.progress += 1;
            used.progress
        };
        self.client.progress(to_raw(&json!({"progress": progress, "message": message})));
    }

    /// Counts a tool call.
    ///
    /// # Errors
    /// If steps cannot call this tool, or the run has made as many calls as it may.
    fn admit(&self, tool: &str) -> Result<(), RpcError> {
        let name = &self.name;
        if !self.pipeline.allows(tool) {
            let message = format!("{tool:.128} is not in spec.tools.include of ToolPipeline {name}");
            return Err(RpcError::refused(Reason::ToolNotAllowed, message));
        }
        let mut used = self.used.lock();
        let most = self.pipeline.plan.budgets.max_tool_calls;
        if used.tool_calls >= most {
            let message =
                format!("the run has made {most} tool calls (spec.budgets.maxToolCalls of ToolPipeline {name})");
            return Err(RpcError::refused(Reason::BudgetExhausted, message));
        }
        used.tool_calls += 1;
        Ok(())
    }
}

impl StepHost<'_> {
    async fn call(&self, tool: &str, arguments: Option<&RawValue>) -> Answer {
        if let Err(error) = self.run.admit(tool) {
            return Answer::Error(to_raw(&error));
        }
        self.run.report(&format!("{}: {tool}", self.step));
        let answer = self.calls.call_tool(tool, arguments).await;
        if let Answer::Result(result) = &answer {
            self.take_links(result);
        }
        answer
    }

    /// Takes the resources that a result links to as sources of the run. What cannot be one is left out.
    fn take_links(&self, result: &RawValue) {
        if memchr::memmem::find(result.get().as_bytes(), b"resource_link").is_none() {
            return;
        }
        let Ok(result) = serde_json::from_str::<Value>(result.get()) else { return };
        let blocks = result["content"].as_array().into_iter().flatten();
        let links = blocks.filter(|block| block["type"] == "resource_link");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut used = self.run.used.lock();
        for link in links {
            let title = text(&link["title"]).or_else(|| text(&link["name"]));
            let _ = used.sources.add(NewSource { url: text(&link["uri"]), title, ..NewSource::default() });
        }
    }

    fn answer_sources(&self, arguments: Option<&RawValue>) -> Result<Value, String> {
        let arguments = arguments.map_or("{}", RawValue::get);
        let request: SourcesRequest =
            serde_json::from_str(arguments).map_err(|_| "the source is not valid: give {url, title}".to_owned())?;
        let mut used = self.run.used.lock();
        match request.add {
            Some(source) => Ok(json!({"id": used.sources.add(source).map_err(|error| error.to_string())?})),
            None => Ok(json!({"sources": used.sources.all()})),
        }
    }
}

impl Host for StepHost<'_> {
    fn progress(&self, progress: PluginProgress) {
        self.run.report(progress.message.as_deref().unwrap_or(self.step));
    }

    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(self.call(tool, arguments))
    }

    fn callback<'a>(&'a self, op: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        let answered = match op {
            "sources" => self.answer_sources(arguments),
            _ => Err(format!("{op:.64} is no request that a step can make")),
        };
        let answer = answered.map_or_else(
            |why| Answer::Error(to_raw(&RpcError::new(INVALID_PARAMS, why))),
            |value| Answer::Result(to_raw(&value)),
        );
        Box::pin(std::future::ready(answer))
    }

    fn account(&self) -> Option<Arc<Account>> {
        self.calls.account()
    }
}
