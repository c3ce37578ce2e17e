//! The stop switch of the admin API: stops and resumes the gateway or a session, and cancels calls.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::admin_query::{AdminError, AdminJson, AdminState, NoFields};
use crate::engine::Engine;

/// The body of a request to stop the gateway or a session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stop {
    /// Whether calls in flight are cancelled. Default: they run to their end.
    #[serde(default)]
    cancel: bool,
}

/// Returns the routes of the stop switch.
pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new()
        .route("/stop", post(stop))
        .route("/resume", post(resume))
        .route("/sessions/{id}/stop", post(stop_session))
        .route("/sessions/{id}/resume", post(resume_session))
        .route("/calls/{id}/cancel", post(cancel_call))
}

async fn stop(State(engine): AdminState, AdminJson(Stop { cancel }): AdminJson<Stop>) -> Json<Value> {
    engine.stop(cancel);
    stopped(&engine)
}

async fn resume(State(engine): AdminState, AdminJson(NoFields {}): AdminJson<NoFields>) -> Json<Value> {
    engine.resume();
    stopped(&engine)
}

fn stopped(engine: &Engine) -> Json<Value> {
    let by = engine.stopped_by();
    Json(json!({"stopped": by.is_some(), "stoppedBy": by}))
}

async fn stop_session(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(Stop { cancel }): AdminJson<Stop>,
) -> Result<Json<Value>, AdminError> {
    set_stopped(&engine, &id, true, cancel)
}

async fn resume_session(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(NoFields {}): AdminJson<NoFields>,
) -> Result<Json<Value>, AdminError> {
    set_stopped(&engine, &id, false, false)
}

fn set_stopped(engine: &Engine, id: &str, stops: bool, cancel: bool) -> Result<Json<Value>, AdminError> {
    if engine.stop_session(id, stops, cancel) {
        return Ok(Json(json!({"id": id, "stopped": stops})));
    }
    let message = format!("there is no session {id:.60}: /api/v1/sessions lists them");
    Err(AdminError(StatusCode::NOT_FOUND, "SessionNotFound", message))
}

async fn cancel_call(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(NoFields {}): AdminJson<NoFields>,
) -> Result<Json<Value>, AdminError> {
    if engine.cancel_call(&id) {
        return Ok(Json(json!({"requestId": id, "cancelled": true})));
    }
    let message = format!("no call {id:.60} is in flight: `activeExecutions` in /api/v1/sessions lists those that are");
    Err(AdminError(StatusCode::NOT_FOUND, "CallNotFound", message))
}
