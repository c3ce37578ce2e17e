//! The stop switch of the admin API: stops and resumes the gateway or a session, and cancels calls.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::admin_query::{AdminError, AdminJson, AdminState, NoFields};
use crate::engine::Engine;

/// The body of a request to stop the gateway or a session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Stop {
    /// Whether calls in flight are cancelled. Default: they run to their end.
    #[serde(default)]
    cancel: bool,
}

/// Whether a gateway is stopped.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GatewayStopped {
    stopped: bool,
    /// What has stopped it, `spec.stopped` or `admin API`; null if it is not stopped.
    stopped_by: Option<&'static str>,
}

/// Whether a session is stopped.
#[derive(Serialize, JsonSchema)]
pub(super) struct SessionStopped {
    id: String,
    stopped: bool,
}

/// A call that is cancelled.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallCancelled {
    request_id: String,
    cancelled: bool,
}

pub(super) async fn stop(
    State(engine): AdminState,
    AdminJson(Stop { cancel }): AdminJson<Stop>,
) -> Json<GatewayStopped> {
    engine.gate.stop(cancel);
    stopped(&engine)
}

pub(super) async fn resume(
    State(engine): AdminState,
    AdminJson(NoFields {}): AdminJson<NoFields>,
) -> Json<GatewayStopped> {
    engine.gate.resume();
    stopped(&engine)
}

fn stopped(engine: &Engine) -> Json<GatewayStopped> {
    let stopped_by = engine.views.stopped_by();
    Json(GatewayStopped { stopped: stopped_by.is_some(), stopped_by })
}

pub(super) async fn stop_session(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(Stop { cancel }): AdminJson<Stop>,
) -> Result<Json<SessionStopped>, AdminError> {
    set_stopped(&engine, &id, true, cancel)
}

pub(super) async fn resume_session(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(NoFields {}): AdminJson<NoFields>,
) -> Result<Json<SessionStopped>, AdminError> {
    set_stopped(&engine, &id, false, false)
}

fn set_stopped(engine: &Engine, id: &str, stops: bool, cancel: bool) -> Result<Json<SessionStopped>, AdminError> {
    if engine.gate.stop_session(id, stops, cancel) {
        return Ok(Json(SessionStopped { id: id.to_owned(), stopped: stops }));
    }
    let message = format!("there is no session {id:.60}: /api/v1/sessions lists them");
    Err(AdminError(StatusCode::NOT_FOUND, "SessionNotFound", message))
}

pub(super) async fn cancel_call(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(NoFields {}): AdminJson<NoFields>,
) -> Result<Json<CallCancelled>, AdminError> {
    if engine.gate.cancel_call(&id) {
        return Ok(Json(CallCancelled { request_id: id, cancelled: true }));
    }
    let message = format!("no call {id:.60} is in flight: `activeExecutions` in /api/v1/sessions lists those that are");
    Err(AdminError(StatusCode::NOT_FOUND, "CallNotFound", message))
}
