//! The admin API: the current state and the history as JSON, invocations of tools, metrics, liveness and readiness.
//!
//! The admin API has its own port; `guard.rs` decides who may use it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::admin_access::{AdminAccess, CheckToken, guard, other_method};
use super::admin_history::{calls, executions};
use super::admin_query::{AdminError, AdminQuery, AdminState, limit, page_size};
use super::{invocations, status, stopping};
use crate::domain::digest::sha256_hex;
use crate::domain::history::is_named;
use crate::domain::method::Method;
use crate::domain::section::Place;
use crate::engine::Engine;

/// The query parameters of lists. A parameter that a list does not support is ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListQuery {
    /// The number of items on the page.
    #[serde(deserialize_with = "limit")]
    limit: Option<usize>,
    /// `next` of the previous page; absent for the first page.
    cursor: Option<String>,
    /// Only items of this plugin, given as `namespace/name` or by name alone (workers).
    plugin: Option<String>,
    /// Only items of this upstream, by name (tools).
    upstream: Option<String>,
    /// The place in a document for which tools are returned, as a model can use them there (tools).
    section: Option<String>,
}

#[derive(Serialize)]
struct ListPage<T> {
    items: Vec<T>,
    /// The cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

type PageResult<T> = Result<Json<ListPage<T>>, AdminError>;

/// Returns the router of the admin API. `check` checks the tokens of requests that do not come from a trusted address.
/// Without it, such requests are refused, except those for health and metrics.
pub fn admin_router(engine: Arc<Engine>, check: Option<CheckToken>) -> Router {
    let api = Router::new()
        .route("/executions", get(executions))
        .route("/calls", get(calls))
        .route("/plugins", get(plugins))
        .route("/workers", get(workers))
        .route("/chains", get(chains))
        .route("/upstreams", get(upstreams))
        .route("/tools", get(tools))
        .route("/pins", get(pins))
        .route("/sessions", get(sessions))
        .route("/status", get(status::status))
        .route("/plan", get(plan))
        .route("/report", get(report))
        .route("/explain", get(explain))
        .route("/invocations", get(recent_invocations).post(invocations::create))
        .merge(invocations::routes())
        .merge(stopping::routes());
    Router::new()
        .nest("/api/v1", api)
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(Arc::new(AdminAccess { engine: Arc::clone(&engine), check }), guard))
        .with_state(engine)
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

/// Returns the requested page of `items`. `key` returns the id of an item; the id of the last item on a page is the
/// cursor of the next page.
fn page<T>(items: Vec<T>, wanted: &ListQuery, key: impl Fn(&T) -> &str) -> PageResult<T> {
    let limit = page_size(wanted.limit)?;
    let from = match &wanted.cursor {
        None => 0,
        Some(cursor) => {
            1 + items.iter().position(|item| key(item) == cursor).ok_or_else(|| {
                let message = "the item that the cursor names is gone: list from the start".to_owned();
                AdminError(StatusCode::BAD_REQUEST, "InvalidCursor", message)
            })?
        }
    };
    let more = items.len() > from + limit;
    let items: Vec<_> = items.into_iter().skip(from).take(limit).collect();
    let next = items.last().filter(|_| more).map(|item| key(item).to_owned());
    Ok(Json(ListPage { items, next }))
}

async fn plugins(State(engine): AdminState, AdminQuery(wanted): AdminQuery<ListQuery>) -> PageResult<impl Serialize> {
    page(engine.plugins(), &wanted, |plugin| &plugin.plugin)
}

async fn workers(State(engine): AdminState, AdminQuery(wanted): AdminQuery<ListQuery>) -> PageResult<impl Serialize> {
    #[derive(Serialize)]
    struct WorkerRow {
        #[serde(skip)]
        key: String,
        #[serde(flatten)]
        worker: crate::domain::ports::WorkerInfo,
    }
    let mut workers = engine.workers();
    workers.retain(|worker| wanted.plugin.as_deref().is_none_or(|name| is_named(&worker.plugin, name)));
    let workers = workers.into_iter().map(|worker| WorkerRow { key: worker.pid.to_string(), worker });
    page(workers.collect(), &wanted, |worker| &worker.key)
}

async fn chains(State(engine): AdminState, AdminQuery(wanted): AdminQuery<ListQuery>) -> PageResult<impl Serialize> {
    page(engine.chains(), &wanted, |chain| &chain.chain)
}

async fn upstreams(State(engine): AdminState, AdminQuery(wanted): AdminQuery<ListQuery>) -> PageResult<impl Serialize> {
    page(engine.upstreams(), &wanted, |upstream| &upstream.name)
}

async fn tools(State(engine): AdminState, AdminQuery(wanted): AdminQuery<ListQuery>) -> Result<Response, AdminError> {
    #[derive(Serialize)]
    struct ToolRow {
        #[serde(skip)]
        key: String,
        #[serde(flatten)]
        tool: crate::engine::views::objects::ToolView,
    }
    if let Some(section) = &wanted.section {
        return Ok(Json(engine.tool_context(&place(section)?).await).into_response());
    }
    let mut tools = engine.tools().await;
    tools.retain(|tool| wanted.upstream.as_ref().is_none_or(|upstream| *upstream == tool.upstream));
    let tools =
        tools.into_iter().map(|tool| ToolRow { key: format!("{}/{}", tool.upstream, tool.upstream_name), tool });
    page(tools.collect(), &wanted, |tool| &tool.key).map(IntoResponse::into_response)
}

/// Reads the place in a document that a query names.
fn place(section: &str) -> Result<Place, AdminError> {
    Place::of_argument(section).map_err(|why| AdminError(StatusCode::BAD_REQUEST, "InvalidSection", why))
}

async fn pins(State(engine): AdminState, AdminQuery(wanted): AdminQuery<ListQuery>) -> PageResult<impl Serialize> {
    #[derive(Serialize)]
    struct PinRow {
        #[serde(skip)]
        key: String,
        #[serde(flatten)]
        pin: crate::engine::views::objects::PinView,
    }
    let mut pins = engine.pins().await;
    pins.retain(|pin| wanted.upstream.as_ref().is_none_or(|upstream| *upstream == pin.upstream));
    let pins = pins.into_iter().map(|pin| PinRow { key: format!("{}/{}", pin.upstream, pin.name), pin });
    page(pins.collect(), &wanted, |pin| &pin.key)
}

async fn sessions(State(engine): AdminState, AdminQuery(wanted): AdminQuery<ListQuery>) -> PageResult<impl Serialize> {
    page(engine.tracked_sessions(), &wanted, |session| &session.id)
}

async fn recent_invocations(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<ListQuery>,
) -> PageResult<impl Serialize> {
    page(engine.invocations().views(), &wanted, |invocation| &invocation.id)
}

async fn plan(State(engine): AdminState) -> impl IntoResponse {
    Json(engine.plan())
}

/// The report that the operator reads. The ETag is a digest of the body, so that frequent requests get short answers
/// while nothing changes.
async fn report(State(engine): AdminState, headers: HeaderMap) -> Response {
    let body = serde_json::to_vec(&engine.report()).unwrap_or_default();
    let tag = format!("\"{:.32}\"", sha256_hex(&body));
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok()).unwrap_or_default();
    if known.split(',').any(|known| known.trim() == tag) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response();
    }
    ([(header::ETAG, tag), (header::CONTENT_TYPE, "application/json".to_owned())], body).into_response()
}

#[derive(Deserialize)]
struct Explained {
    /// The public name of the tool or the other item, or `upstream/name`; absent if only the section is explained.
    tool: Option<String>,
    /// The place in a document that is explained.
    section: Option<String>,
    /// The method of the content that is explained.
    #[serde(default = "of_calls")]
    method: Method,
}

fn of_calls() -> Method {
    Method::CallTool
}

async fn explain(
    State(engine): AdminState,
    AdminQuery(Explained { tool, section, method }): AdminQuery<Explained>,
) -> Result<Response, AdminError> {
    let place = section.as_deref().map(place).transpose()?;
    let Some(tool) = tool else {
        let nothing = || "the query of the URL names neither a tool nor a section".to_owned();
        let place = place.ok_or_else(|| AdminError(StatusCode::BAD_REQUEST, "InvalidQuery", nothing()))?;
        return Ok(Json(engine.explain_section(&place)).into_response());
    };
    let explained = engine.explain(&tool, method).await;
    let mut explained = explained.map_err(|why| AdminError(StatusCode::NOT_FOUND, "ToolNotFound", why))?;
    if let Some(place) = place {
        engine.note_section(&place, &mut explained);
    }
    Ok(Json(explained).into_response())
}

async fn readyz(State(engine): AdminState) -> (StatusCode, String) {
    match engine.readiness() {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

async fn metrics(State(engine): AdminState) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], engine.render_metrics())
}
