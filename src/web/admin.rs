//! The admin API: the current state and the history as JSON, invocations of tools, metrics, liveness and readiness.
//!
//! The admin API has its own port; `guard.rs` decides who may use it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::routing::get;
use axum::{Json, Router, middleware};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::admin_access::{AdminAccess, CheckToken, guard, other_method};
use super::admin_history::{calls, executions};
use super::admin_plugins::{plugin, plugins};
use super::admin_query::{AdminError, AdminQuery, AdminState, ListPage, PageResult, limit, list_query, page};
use super::openapi::{Api, Tagged};
use super::{admin_values, invocations, runs, status, stopping};
use crate::domain::history::is_named;
use crate::domain::identity::Identity;
use crate::domain::method::Method;
use crate::domain::report::Report;
use crate::domain::section::Place;
use crate::engine::Engine;
use crate::engine::in_flight::run_view::Run;
use crate::engine::views::asked_access::AskedCall;
use crate::engine::views::dependencies::read_issuers;
use crate::engine::views::explain::Explanation;
use crate::engine::views::objects::PlanView;
use crate::engine::views::scrape::render_metrics;
use crate::engine::views::sections::{SectionExplanation, ToolContext};

list_query!(ListQuery {});
list_query!(WorkersQuery {
    /// Only workers of this plugin, given as `namespace/name` or by name alone.
    plugin
});
list_query!(ToolsQuery {
    /// Only tools of this upstream, by name.
    upstream,
    /// The place in a document for which tools are returned, as a model can use them there.
    section
});
list_query!(PinsQuery {
    /// Only tools of this upstream, by name.
    upstream
});
list_query!(RunsQuery {
    /// Only runs of this pipeline, given as `namespace/name` or by name alone.
    pipeline,
    /// Only runs of this status.
    status,
    /// Only runs of this client.
    principal
});

/// Returns the router of the admin API. `check` checks the tokens of requests that do not come from a trusted address.
/// Without it, such requests are refused, except those for health and metrics.
pub fn admin_router(engine: Arc<Engine>, check: Option<CheckToken>) -> Router {
    api()
        .into_router()
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(Arc::new(AdminAccess { engine: Arc::clone(&engine), check }), guard))
        .with_state(engine)
}

/// Returns all routes of the admin API.
fn api() -> Api {
    Api::new()
        .get("/api/v1/executions", "Recorded executions of plugins, newest first", executions)
        .get("/api/v1/calls", "Recorded calls, newest first", calls)
        .get("/api/v1/plugins", "The plugins of the plan", plugins)
        .get("/api/v1/plugins/{type}/{id}", "A plugin, by its type and its name", plugin)
        .get("/api/v1/store", "The partitions of the values that a plugin stores", admin_values::list)
        .post("/api/v1/store/erase", "erase", "Erase partitions of a plugin with their values", admin_values::erase)
        .get("/api/v1/workers", "The worker processes", workers)
        .get("/api/v1/chains", "The chains of the plan, in the order in which they run", chains)
        .get("/api/v1/upstreams", "The upstreams of the plan", upstreams)
        .get("/api/v1/tools", "The tools, or those that a model can use at a place in a document", tools)
        .get("/api/v1/pins", "The tools that upstreams list, with the digests to approve", pins)
        .get("/api/v1/sessions", "Sessions and other callers, with their calls", sessions)
        .get("/api/v1/refusals", "The credentials that were refused, by kinds, the last ones first", refusals)
        .get("/api/v1/status", "What the gateway runs, and what is wrong with it", status::status)
        .get("/api/v1/plan", "The plan in force; its form can change with each version", plan)
        .get("/api/v1/report", "What the operator reads of a pod", report)
        .get("/api/v1/explain", "Which chains run on a tool, or which binding counts at a place in a document", explain)
        .get("/api/v1/invocations", "The most recent invocations, newest first", recent_invocations)
        .post("/api/v1/invocations", "invoke", "Create an invocation", invocations::create)
        .get("/api/v1/invocations/{id}", "An invocation", invocations::get)
        .post("/api/v1/invocations/{id}/cancel", "cancel", "Cancel an invocation", invocations::cancel)
        .get("/api/v1/pipelines", "The pipelines of the plan", pipelines)
        .get("/api/v1/pipelines/{id}", "A pipeline, by its name or as namespace/name", runs::pipeline)
        .get("/api/v1/runs", "Runs of pipelines in progress, and those that ended last, newest first", recent_runs)
        .get("/api/v1/runs/{id}", "A run", runs::get)
        .post("/api/v1/runs/{id}/cancel", "cancel", "Cancel a run", runs::cancel)
        .post("/api/v1/runs/{id}/answer", "answer", "Answer the question for which a run waits", runs::answer)
        .post("/api/v1/stop", "stop", "Refuse all new calls", stopping::stop)
        .post("/api/v1/resume", "resume", "Let the gateway make calls again", stopping::resume)
        .post("/api/v1/sessions/{id}/stop", "stop", "Refuse new calls of a session", stopping::stop_session)
        .post("/api/v1/sessions/{id}/resume", "resume", "Let a session make calls again", stopping::resume_session)
        .post("/api/v1/calls/{id}/cancel", "cancel", "Cancel a call in flight", stopping::cancel_call)
        .get("/api/v1/openapi.json", "This document", openapi)
        .get("/healthz", "Whether the process serves requests", healthz)
        .get("/readyz", "Whether the gateway is ready; 503 if it is not", readyz)
        .get("/metrics", "Metrics, in the text format of Prometheus", metrics)
}

/// Returns the OpenAPI document of the admin API.
pub fn openapi_document() -> Value {
    api().document()
}

async fn openapi() -> Json<Value> {
    Json(openapi_document())
}

async fn healthz() -> &'static str {
    "ok\n"
}

/// Returns the router of a port that serves the metrics alone, to anyone except web pages.
pub fn metrics_router(engine: Arc<Engine>) -> Router {
    let access = Arc::new(AdminAccess { engine: Arc::clone(&engine), check: None });
    // For another path, this layer would require a token.
    let metrics = get(metrics).layer(middleware::from_fn_with_state(access, guard));
    Router::new()
        .route("/metrics", metrics)
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .with_state(engine)
}

async fn nothing() -> AdminError {
    AdminError(StatusCode::NOT_FOUND, "NotFound", "there is nothing here".to_owned())
}

async fn workers(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<WorkersQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    #[derive(Serialize, JsonSchema)]
    struct WorkerRow {
        #[serde(skip)]
        key: String,
        #[serde(flatten)]
        worker: crate::domain::ports::WorkerInfo,
    }
    let mut workers = engine.views.workers();
    workers.retain(|worker| wanted.plugin.as_deref().is_none_or(|name| is_named(&worker.plugin, name)));
    let workers = workers.into_iter().map(|worker| WorkerRow { key: worker.pid.to_string(), worker });
    page(workers.collect(), (wanted.limit, wanted.cursor), |worker| &worker.key)
}

async fn chains(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<ListQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    page(engine.views.chains(), (wanted.limit, wanted.cursor), |chain| &chain.chain)
}

async fn upstreams(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<ListQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    page(engine.views.upstreams(), (wanted.limit, wanted.cursor), |upstream| &upstream.name)
}

async fn tools(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<ToolsQuery>,
) -> Result<Json<Tools>, AdminError> {
    if let Some(section) = &wanted.section {
        return Ok(Json(Tools::AtPlace(engine.views.tool_context(&place(section)?).await)));
    }
    let mut tools = engine.views.tools().await;
    tools.retain(|tool| wanted.upstream.as_ref().is_none_or(|upstream| *upstream == tool.upstream));
    let tools =
        tools.into_iter().map(|tool| ToolRow { key: format!("{}/{}", tool.upstream, tool.upstream_name), tool });
    page(tools.collect(), (wanted.limit, wanted.cursor), |tool| &tool.key).map(|Json(page)| Json(Tools::All(page)))
}

/// All tools, or those that a model can use at a place in a document.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Tools {
    All(ListPage<ToolRow>),
    AtPlace(ToolContext),
}

#[derive(Serialize, JsonSchema)]
struct ToolRow {
    #[serde(skip)]
    key: String,
    #[serde(flatten)]
    tool: crate::engine::views::objects::ToolView,
}

/// Reads the place in a document that a query names.
fn place(section: &str) -> Result<Place, AdminError> {
    Place::of_argument(section).map_err(|why| AdminError(StatusCode::BAD_REQUEST, "InvalidSection", why))
}

async fn pins(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<PinsQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    #[derive(Serialize, JsonSchema)]
    struct PinRow {
        #[serde(skip)]
        key: String,
        #[serde(flatten)]
        pin: crate::engine::views::objects::PinView,
    }
    let mut pins = engine.views.pins().await;
    pins.retain(|pin| wanted.upstream.as_ref().is_none_or(|upstream| *upstream == pin.upstream));
    let pins = pins.into_iter().map(|pin| PinRow { key: format!("{}/{}", pin.upstream, pin.name), pin });
    page(pins.collect(), (wanted.limit, wanted.cursor), |pin| &pin.key)
}

async fn sessions(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<ListQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    page(engine.views.tracked_sessions(), (wanted.limit, wanted.cursor), |session| &session.id)
}

async fn refusals(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<ListQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    page(engine.gate.refusals().list(), (wanted.limit, wanted.cursor), |refusal| &refusal.id)
}

async fn recent_invocations(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<ListQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    let invocations = engine.gate.in_flight.invocations.newest_first();
    let shown: Vec<_> = invocations.iter().map(|invocation| invocation.view()).collect();
    page(shown, (wanted.limit, wanted.cursor), |invocation| &invocation.id)
}

async fn pipelines(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<ListQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    page(engine.views.pipelines(None).await, (wanted.limit, wanted.cursor), |pipeline| &pipeline.pipeline)
}

async fn recent_runs(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<RunsQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    let runs = engine.gate.in_flight.runs.newest_first();
    let mut runs: Vec<_> = runs.iter().map(|run| Run { question: None, ..run.view() }).collect();
    let is_wanted = |wanted: &Option<String>, word: &str| wanted.as_ref().is_none_or(|wanted| wanted == word);
    runs.retain(|run| {
        wanted.pipeline.as_deref().is_none_or(|name| is_named(&run.pipeline, name))
            && is_wanted(&wanted.status, run.status.as_str())
            && is_wanted(&wanted.principal, &run.principal)
    });
    page(runs, (wanted.limit, wanted.cursor), |run| &run.id)
}

async fn plan(State(engine): AdminState) -> Json<PlanView> {
    Json(engine.views.plan())
}

async fn report(State(engine): AdminState, headers: HeaderMap) -> Tagged<Report> {
    // An issuer that was not read before is in a later report.
    let reading = Arc::clone(&engine);
    tokio::spawn(async move { read_issuers(&reading.views).await });
    Tagged::new(&engine.views.report(), &headers)
}

#[derive(Deserialize, JsonSchema)]
struct ExplainQuery {
    /// The public name of the tool or the other item, or `upstream/name`; absent if only the section is explained.
    tool: Option<String>,
    /// The place in a document that is explained.
    section: Option<String>,
    /// The method of the content that is explained.
    #[serde(default = "of_calls")]
    #[schemars(with = "String")]
    method: Method,
    /// The client whose access is explained, such as `subject=ann,groups=staff`.
    client: Option<String>,
    /// The arguments of the client's call, a JSON object: the rules then decide about this call.
    arguments: Option<String>,
    /// The annotations of the tool for which the access is explained, a JSON object. Default: those that its server lists.
    annotations: Option<String>,
}

fn of_calls() -> Method {
    Method::CallTool
}

/// How calls of a tool run, or what is visible at a place.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Explained {
    Item(Explanation),
    Place(SectionExplanation),
}

async fn explain(
    State(engine): AdminState,
    AdminQuery(ExplainQuery { tool, section, method, client, arguments, annotations }): AdminQuery<ExplainQuery>,
) -> Result<Json<Explained>, AdminError> {
    let place = section.as_deref().map(place).transpose()?;
    let Some(tool) = tool else {
        let nothing = || "the query of the URL names neither a tool nor a section".to_owned();
        let place = place.ok_or_else(|| AdminError(StatusCode::BAD_REQUEST, "InvalidQuery", nothing()))?;
        return Ok(Json(Explained::Place(engine.views.explain_section(&place))));
    };
    let invalid = |why| AdminError(StatusCode::BAD_REQUEST, "InvalidQuery", why);
    let client = client.as_deref().map(Identity::described).transpose().map_err(invalid)?;
    let call = AskedCall::read(arguments, annotations.as_deref()).map_err(invalid)?;
    let explained = engine.views.explain(&tool, method, client.as_ref().map(|client| call.by(client))).await;
    let mut explained = explained.map_err(|why| AdminError(StatusCode::NOT_FOUND, "ToolNotFound", why))?;
    if let Some(place) = place {
        engine.views.note_section(&place, &mut explained);
    }
    Ok(Json(Explained::Item(explained)))
}

async fn readyz(State(engine): AdminState) -> (StatusCode, String) {
    match engine.views.readiness() {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

async fn metrics(State(engine): AdminState) -> ([(HeaderName, &'static str); 1], String) {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], render_metrics(&engine.views))
}
