//! Questions of a step to the user of the client (MCP: elicitation), as a server can ask them during its call.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::host::{Refusal, StepHost};
use crate::domain::method::Method;
use crate::domain::pipeline::Form;
use crate::domain::question::Question;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::upstream::Answer;

/// The arguments of the request `ask`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AskRequest {
    message: String,
    schema: Value,
    timeout_ms: Option<u64>,
}

impl StepHost<'_> {
    /// Asks the user. Returns the answer, which fits the schema of the question.
    pub(super) async fn ask(&self, arguments: Option<&RawValue>) -> Result<Answer, Refusal> {
        let request: Option<AskRequest> = serde_json::from_str(arguments.map_or("{}", RawValue::get)).ok();
        let Some(AskRequest { message, schema, timeout_ms }) = request else {
            let message = "the question is not valid: give {message, schema, timeoutMs}";
            return Err(Refusal::new(Reason::InvalidQuestion, message));
        };
        let form = Form::parse(&schema).map_err(|why| Refusal::quoting(Reason::InvalidQuestion, why))?;
        if !self.run.call.client_answers(Method::Elicit) {
            let message = "the user was not asked: the client of the call does not declare the capability elicitation";
            return Err(Refusal::new(Reason::CannotAsk, message));
        }
        let params = to_raw(&json!({"message": message, "requestedSchema": schema}));
        let asked = self.run.client.ask(Question { method: Method::Elicit, params: Some(params) });
        let limit = timeout_ms.map_or_else(|| self.run.remaining(), Duration::from_millis);
        let answer = match tokio::time::timeout(limit, asked).await {
            Err(_) => return Ok(Answer::Result(to_raw(&json!({"action": "cancel"})))),
            Ok(Answer::Error(error)) => {
                let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
                let why = error["message"].as_str().unwrap_or("the client gave no answer");
                // A client, or a plugin, can have said so.
                return Err(Refusal::quoting(Reason::CannotAsk, format!("the user was not asked: {why:.512}")));
            }
            Ok(Answer::Result(answer)) => answer,
        };
        let answer = form.read(&answer).map_err(|why| {
            Refusal::quoting(Reason::InvalidAnswer, format!("the answer of the user does not fit the question: {why}"))
        })?;
        Ok(self.calls.fitting(Answer::Result(to_raw(&answer)))?)
    }
}
