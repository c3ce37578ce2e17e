//! Tools whose calls go on as tasks (SEP-2663), for clients that declare the extension.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CreateTaskResult, InputRequest,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::asking::is_modern;
use crate::catalogue::{part, result, text, typed};

/// What a tool of this name does; nothing if it is none of these.
pub async fn call(
    tasks: &TaskManager,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let name = part("tasks").get(&*request.name)?.as_str()?.to_owned();
    let job = Job { name, arguments: json!(request.arguments), answers: json!(request.input_responses) };
    Some(job.answer(tasks, context).await)
}

struct Job {
    /// What the tool does.
    name: String,
    arguments: Value,
    /// What the client answered before the task began.
    answers: Value,
}

impl Job {
    async fn answer(
        self,
        tasks: &TaskManager,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let knows = is_modern(context) && context.client_capabilities().is_some_and(|can| can.supports_tasks());
        if knows {
            let options = TaskOptions::new().with_poll_interval_ms(100).with_status_message("it has begun");
            let task = tasks.spawn(options, |task| Box::pin(self.run(Some(task))));
            return Ok(CreateTaskResult::new(task).into());
        }
        if self.name != "compute" {
            let needs = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(needs));
        }
        match self.run(None).await {
            Ok(result) => Ok(result.into()),
            Err(TaskExit::Error(error)) => Err(error),
            Err(TaskExit::Cancelled) => Err(ErrorData::internal_error("cancelled", None)),
        }
    }

    async fn run(self, task: Option<TaskContext>) -> Result<CallToolResult, TaskExit> {
        match (&*self.name, task) {
            ("fail", _) => Ok(result(json!({"content": text("It has failed.")["content"], "isError": true}))?),
            ("break", _) => Err(ErrorData::internal_error("It is broken.", None).into()),
            ("confirm", Some(task)) => asked(&task, &["confirm"]).await,
            ("ask twice", Some(task)) => asked(&task, &["first", "second"]).await,
            ("greet", _) => Ok(result(text(format!("Hello, {}!", self.answers["user_name"]["content"]["name"])))?),
            (_, task) => {
                let seconds = Duration::from_secs_f64(self.arguments["seconds"].as_f64().unwrap_or_default());
                let cancelled = async {
                    match &task {
                        Some(task) => task.cancelled().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = tokio::time::sleep(seconds) => Ok(result(text(format!("{} is done", self.arguments["label"])))?),
                    () = cancelled => Err(TaskExit::Cancelled),
                }
            }
        }
    }
}

/// Asks for all of these at once.
async fn asked(task: &TaskContext, keys: &[&str]) -> Result<CallToolResult, TaskExit> {
    let schema = json!({"type": "object", "properties": {"confirm": {"type": "boolean"}}});
    let question = json!({"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": schema}});
    let question: InputRequest = typed(question)?;
    let (first, last) = (keys[0], keys[keys.len() - 1]);
    let one = task.request_input(first, question.clone());
    let answers = if first == last {
        json!([one.await?])
    } else {
        let (one, other) = tokio::try_join!(one, task.request_input(last, question))?;
        json!([one, other])
    };
    Ok(result(text(answers.to_string()))?)
}
