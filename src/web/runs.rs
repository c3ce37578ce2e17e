//! `/api/v1/pipelines/{id}` and `/api/v1/runs/{id}`: shows a pipeline or a run, cancels runs and answers their questions.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::admin_query::{AdminError, AdminJson, AdminQuery, AdminState, NoFields};
use crate::domain::history::is_named;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::engine::Engine;
use crate::engine::in_flight::MAX_RUNS;
use crate::engine::in_flight::run::{AnswerError, RunEntry};
use crate::engine::in_flight::run_view::Run;
use crate::engine::views::pipelines::PipelineView;

/// How long a request to cancel a run waits for its end, and how often it looks.
const CANCEL_WAIT: Duration = Duration::from_secs(5);
const CANCEL_TICK: Duration = Duration::from_millis(20);

/// The answer to a question (MCP: the result of elicitation).
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UserAnswer {
    action: Action,
    /// The values, as the schema of the question has them. Only with `accept`.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Map<String, Value>>,
}

/// What the user does with a question.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    /// Gives the values.
    Accept,
    /// Refuses to give them.
    Decline,
    /// Gives no answer.
    Cancel,
}

/// For which run a pipeline is shown.
#[derive(Deserialize, JsonSchema)]
pub(super) struct PipelineQuery {
    /// The arguments of a call, a JSON object: the steps and customizations are then those of this call.
    arguments: Option<String>,
}

pub(super) async fn pipeline(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminQuery(PipelineQuery { arguments }): AdminQuery<PipelineQuery>,
) -> Result<Json<PipelineView>, AdminError> {
    let arguments = arguments.map(|text| serde_json::from_str::<Map<String, Value>>(&text)).transpose();
    let arguments = arguments.map_err(|_| {
        let message = "arguments must be a JSON object, such as {\"depth\": \"light\"}";
        AdminError(StatusCode::BAD_REQUEST, "InvalidQuery", message.to_owned())
    })?;
    let mut pipelines = engine.views.pipelines(arguments.map(Value::Object).as_ref()).await.into_iter();
    pipelines.find(|pipeline| is_named(&pipeline.pipeline, &id)).map(Json).ok_or_else(|| {
        let message = format!("the gateway has no pipeline {id:.128}: /api/v1/pipelines lists them");
        AdminError(StatusCode::NOT_FOUND, "PipelineNotFound", message)
    })
}

pub(super) async fn get(State(engine): AdminState, Path(id): Path<String>) -> Result<Json<Run>, AdminError> {
    find(&engine, &id).map(|run| Json(run.view()))
}

pub(super) async fn cancel(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(NoFields {}): AdminJson<NoFields>,
) -> Result<Json<Run>, AdminError> {
    let run = find(&engine, &id)?;
    engine.gate.cancel_call(&id);
    // The call ends a moment later.
    let has_ended = async {
        while run.view().ended_at.is_none() {
            tokio::time::sleep(CANCEL_TICK).await;
        }
    };
    let _ = tokio::time::timeout(CANCEL_WAIT, has_ended).await;
    Ok(Json(run.view()))
}

pub(super) async fn answer(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(answer): AdminJson<UserAnswer>,
) -> Result<Json<Run>, AdminError> {
    let run = find(&engine, &id)?;
    run.answer(to_raw(&answer)).map_err(|why| match why {
        AnswerError::NoQuestion => {
            AdminError(StatusCode::CONFLICT, "NoQuestion", format!("run {id:.60} waits for no answer"))
        }
        AnswerError::Invalid(why) => {
            let message = format!("the answer does not fit the question of run {id:.60}: {why}");
            AdminError(StatusCode::BAD_REQUEST, Reason::InvalidAnswer.as_str(), message)
        }
    })?;
    Ok(Json(run.view()))
}

fn find(engine: &Engine, id: &str) -> Result<Arc<RunEntry>, AdminError> {
    engine.gate.in_flight.runs.find(id).ok_or_else(|| {
        let message = format!("there is no run {id:.60}: the gateway keeps the last {MAX_RUNS} of this process");
        AdminError(StatusCode::NOT_FOUND, "RunNotFound", message)
    })
}
