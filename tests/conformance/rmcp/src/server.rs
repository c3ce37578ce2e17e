//! The server: every feature that the suite looks at, in both eras.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::asking;
use crate::catalogue::{self, part, result, text, typed};
use crate::changes::{Changed, Changes, Watched};
use crate::rounds::{self, Round};
use crate::tasks;

/// More streams than one session of the suite opens.
const STREAMS: u64 = 64;
/// How long a client whose stream was closed waits before it comes back.
const RETRY: Duration = Duration::from_millis(100);
/// How long it is given.
const UNTIL_IT_IS_BACK: Duration = Duration::from_millis(300);

#[derive(Clone)]
struct Fixture {
    changes: Changes,
    /// Of this session.
    watched: Watched,
    /// Where calls are written down that are cancelled.
    log: Option<PathBuf>,
    tasks: TaskManager,
    sessions: Arc<LocalSessionManager>,
}

impl Fixture {
    async fn call(
        &self,
        name: &str,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        match name {
            "test_tool_with_logging" => asking::logs(context).await,
            "test_logging_tool" => asking::logs_if_wanted(context).await,
            "test_tool_with_progress" => asking::progresses(context).await,
            "test_missing_capability" if context.client_capabilities().is_none_or(|can| can.sampling.is_none()) => {
                Err(rounds::lacking("sampling"))
            }
            "test_wait" => asking::waits(arguments, self.log.as_deref(), context).await,
            "test_reconnection" => {
                self.close_streams(context).await;
                Ok(text("The stream was closed before this."))
            }
            "test_trigger_tool_change" => self.change(Changed::Tools),
            "test_trigger_prompt_change" => self.change(Changed::Prompts),
            "test_trigger_resource_change" => self.change(Changed::Resource),
            "greet" => Ok(text(format!("Hello, {}!", arguments["name"].as_str().unwrap_or_default()))),
            name if !part("results")[name].is_null() => Ok(part("results")[name].clone()),
            name if catalogue::tool(name).is_some() => Ok(text("Done.")),
            name => Err(ErrorData::invalid_params(format!("Unknown tool: {name}"), None)),
        }
    }

    /// The next round of a call. A client of the older era is asked during the call, until there is nothing more to ask.
    async fn rounds(
        &self,
        name: &str,
        mut responses: Option<InputResponses>,
        mut state: Option<String>,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<Round, ErrorData>> {
        loop {
            let next = rounds::next(name, responses.as_ref(), state.as_deref(), context.client_capabilities())?;
            match next {
                Ok(Round::Asks(asked)) if !asking::is_modern(context) => {
                    state = asked.request_state;
                    responses = match asking::answers(asked.input_requests.unwrap_or_default(), context).await {
                        Ok(answers) => Some(answers),
                        Err(error) => return Some(Err(error)),
                    };
                }
                next => return Some(next),
            }
        }
    }

    /// Ends the streams of all calls of a session, so that its client comes back for the answers, and gives it the time. A
    /// client without a session has no stream to come back to.
    async fn close_streams(&self, context: &RequestContext<RoleServer>) {
        let request = context.extensions.get::<axum::http::request::Parts>();
        let id = request.and_then(|request| request.headers.get("mcp-session-id")).and_then(|id| id.to_str().ok());
        if let Some(session) = self.sessions.sessions.read().await.get(id.unwrap_or_default()) {
            for stream in 0..STREAMS {
                // Those that do not exist refuse.
                let _ = session.close_sse_stream(stream, Some(RETRY)).await;
            }
        }
        tokio::time::sleep(UNTIL_IT_IS_BACK).await;
    }

    fn change(&self, changed: Changed) -> Result<Value, ErrorData> {
        self.changes.make(changed);
        Ok(text("All who listen were told."))
    }
}

#[allow(deprecated)] // The suite asks for what only the older era has.
impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = typed(part("capabilities").clone()).expect("the capabilities are some");
        ServerConfig::new(capabilities).with_server_info(Implementation::new("conformance", "1.0.0"))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        tokio::spawn(self.changes.clone().tell(context.peer, self.watched.clone()));
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        typed(catalogue::tool(name)?).ok()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let another = self.changes.tool().map(|tool| json!(tool));
        result(json!({"tools": catalogue::tools().into_iter().chain(another).collect::<Vec<_>>()}))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (responses, state) = (request.input_responses.clone(), request.request_state.clone());
        match self.rounds(&request.name, responses, state, &context).await {
            Some(round) => match round? {
                Round::Asks(asked) => Ok(asked.into()),
                Round::Done(said) => match tasks::call(&self.tasks, &request, &context).await {
                    Some(task) => task,
                    None => Ok(result::<CallToolResult>(text(said.to_string()))?.into()),
                },
            },
            None => {
                if let Some(task) = tasks::call(&self.tasks, &request, &context).await {
                    return task;
                }
                let arguments = json!(request.arguments);
                if let Some(question) = asking::question(&request.name, &arguments) {
                    return asking::asks(question, request.input_responses.as_ref(), &context).await;
                }
                let answer = self.call(&request.name, &arguments, &context).await?;
                Ok(result::<CallToolResult>(answer)?.into())
            }
        }
    }

    async fn get_task(&self, task: GetTaskParams, _: RequestContext<RoleServer>) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&task.task_id).map(GetTaskResult::new)
    }

    async fn update_task(&self, task: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.update_task(&task.task_id, task.input_responses)
    }

    async fn cancel_task(&self, task: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&task.task_id)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let another = self.changes.prompt().map(|prompt| json!(prompt));
        let prompts = part("prompts").as_array().into_iter().flatten().cloned();
        result(json!({"prompts": prompts.chain(another).collect::<Vec<_>>()}))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let asks = self.rounds(&request.name, request.input_responses, request.request_state, &context).await;
        if let Some(round) = asks {
            let said = match round? {
                Round::Asks(asked) => return Ok(asked.into()),
                Round::Done(said) => json!({"type": "text", "text": said.to_string()}),
            };
            return Ok(result::<GetPromptResult>(json!({"messages": [{"role": "user", "content": said}]}))?.into());
        }
        let messages = catalogue::prompt(&request.name, &json!(request.arguments));
        let messages = messages.ok_or_else(|| ErrorData::invalid_params("Unknown prompt", None))?;
        Ok(result::<GetPromptResult>(messages)?.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        result(json!({"resources": part("resources")}))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        result(json!({"resourceTemplates": part("templates")}))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let found = catalogue::resource(&request.uri);
        let found = found
            .ok_or_else(|| ErrorData::resource_not_found("Resource not found", Some(json!({"uri": request.uri}))))?;
        Ok(result::<ReadResourceResult>(found)?.into())
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.watched.set(Some(request.uri));
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.watched.set(None);
        Ok(())
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let known = ["paris", "park", "party"];
        let values: Vec<_> = known.iter().filter(|value| value.starts_with(&request.argument.value)).collect();
        result(json!({"completion": {"values": values, "total": values.len(), "hasMore": false}}))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.changes.stream(&context, &catalogue::uri("watched-resource")).await;
        Ok(())
    }
}

/// Serves on a port of its own until the process ends; on loopback alone, unless another address is given too.
pub async fn serve(log: Option<PathBuf>, address: Option<&str>, said: impl FnOnce(&str)) -> std::io::Result<()> {
    let ip = if address.is_some() { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
    let listener = tokio::net::TcpListener::bind((ip, 0)).await?;
    let port = listener.local_addr()?.port();
    let origins = [format!("http://localhost:{port}"), format!("http://127.0.0.1:{port}")];
    let hosts = ["localhost", "127.0.0.1"].into_iter().chain(address);
    let config = StreamableHttpServerConfig::default().with_allowed_origins(origins).with_allowed_hosts(hosts);
    let sessions = Arc::new(LocalSessionManager::default());
    let fixture = Fixture {
        changes: Changes::new(),
        watched: Watched::default(),
        log,
        tasks: TaskManager::new(),
        sessions: Arc::clone(&sessions),
    };
    let service = StreamableHttpService::new(
        move || Ok(Fixture { watched: Watched::default(), ..fixture.clone() }),
        sessions,
        config,
    );
    said(&format!("http://localhost:{port}/mcp"));
    // What is written piece by piece goes out at once.
    let listener = listener.tap_io(|connection| {
        let _ = connection.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await
}
