//! Language models at endpoints that speak the chat completions of OpenAI.

mod answer;
mod client;
mod settings;

use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use serde_json::Value;

use self::client::{Clients, NoAnswer};
use self::settings::Refused;
use crate::domain::model::{ModelAnswer, ModelFailure, ModelRequest};
use crate::domain::ports::CompleteModel;
use crate::domain::reason::Reason;

/// How often a request that failed is sent again, and how long to wait before the first time.
const REPEATS: u32 = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that an endpoint can ask for.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Calls language models.
#[derive(Default)]
pub struct Models {
    clients: Clients,
    refused: Refused,
}

#[async_trait]
impl CompleteModel for Models {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelAnswer, ModelFailure> {
        let mut body = request.body.clone();
        self.refused.adapt(request, &mut body);
        let mut repeats = 0;
        loop {
            let answer = tokio::time::timeout(request.timeout, self.clients.post(request, &body)).await;
            let Ok(answer) = answer else {
                let took = request.timeout.as_millis();
                return Err(unavailable(format!(
                    "the endpoint did not answer within {took} ms (timeoutMs of the model)"
                )));
            };
            let (why, pause) = match answer {
                Ok(answer) => {
                    let read = serde_json::from_slice(&answer.body);
                    let read = read.unwrap_or_else(|_| String::from_utf8_lossy(&answer.body).into());
                    let Some(status) = answer::error_status(answer.status, &read) else { return answer::read(&read) };
                    let is_refusal = matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY);
                    if is_refusal && self.refused.learn(request, &read, &mut body) {
                        continue;
                    }
                    let why = said(status, &read);
                    if !is_passing(status) {
                        return Err(unavailable(why));
                    }
                    (why, answer.retry_after)
                }
                Err(NoAnswer::NoRoom(no_room)) => return Err(no_room.into()),
                Err(NoAnswer::Failed(why)) => (why, None),
            };
            if repeats == REPEATS {
                return Err(unavailable(format!("{why}, {} times", repeats + 1)));
            }
            let pause = pause.unwrap_or_else(|| jittered(FIRST_PAUSE * 2_u32.pow(repeats)));
            tokio::time::sleep(pause.min(MAX_PAUSE)).await;
            repeats += 1;
        }
    }
}

fn unavailable(message: String) -> ModelFailure {
    ModelFailure::new(Reason::ModelUnavailable, message)
}

/// Whether a request with this answer may succeed later.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504 | 529)
}

/// Describes an answer that is an error: its status, and the code that the endpoint gives. Its message is left out, because
/// endpoints quote what they were sent.
fn said(status: StatusCode, body: &Value) -> String {
    if matches!(status.as_u16(), 401 | 403) {
        return format!("the endpoint refused the key ({}): correct apiKeySecretRef of the model", status.as_u16());
    }
    let code = answer::error_code(body).map(|code| format!(", {code}")).unwrap_or_default();
    format!("the endpoint answered {}{code}", status.as_u16())
}

/// Returns up to a quarter more, so that the requests of many runs are not repeated at the same moment.
fn jittered(pause: Duration) -> Duration {
    let quarter = pause.as_millis().max(4) / 4;
    let more = uuid::Uuid::new_v4().as_u128() % quarter;
    pause + Duration::from_millis(u64::try_from(more).unwrap_or_default())
}
