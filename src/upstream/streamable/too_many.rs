//! Responses of servers that take no more requests at the moment (HTTP 429, RFC 6585). Nothing was executed.

use std::time::Duration;

use http::Response;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::connection::HttpEndpoint;
use super::paced_body::PacedBody;
use super::said::{beginning, quoted};
use crate::domain::rpc::RETRY_AFTER_MS;
use crate::domain::skim::Skim;
use crate::domain::upstream::{Answer, UpstreamError};
use crate::transport::retry_after::retry_after;
use crate::upstream::server_message::{self, ServerMessage};

#[derive(Debug)]
pub(super) struct TooMany {
    /// The body, if it is a JSON-RPC error.
    error: Option<Box<RawValue>>,
    said: String,
    pub(super) retry_after: Option<Duration>,
}

impl TooMany {
    /// Reads a response with this status.
    pub(super) async fn read(endpoint: &HttpEndpoint, response: Response<PacedBody>) -> Self {
        #[derive(Deserialize)]
        struct ErrorMessage {
            message: String,
        }
        let retry_after = retry_after(response.headers());
        let text = beginning(endpoint, response.into_body()).await;
        let error = match server_message::read(&text) {
            Ok(ServerMessage::Answer { answer: Answer::Error(error), .. }) => Some(error),
            _ => None,
        };
        let message = error.as_ref().and_then(|error| serde_json::from_str::<ErrorMessage>(error.get()).ok());
        let said = message.map_or_else(|| String::from_utf8_lossy(&text).into_owned(), |error| error.message);
        Self { error, said: quoted(&said), retry_after }
    }

    /// Returns what the client of a call gets: the server's own error, with the time to wait.
    pub(super) fn into_answer(self) -> Result<Answer, UpstreamError> {
        let Some(error) = &self.error else { return Err(self.into()) };
        let data = Skim::from(&**error).member("data");
        let ms = self.retry_after.map_or(RETRY_AFTER_MS, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let data = match data {
            None => Some(format!(r#"{{"retryAfterMs":{ms}}}"#)),
            Some(data) if data.member("retryAfterMs").is_some() => None,
            Some(data) => data.with_members(&[("retryAfterMs", Some(&ms.to_string()))]),
        };
        let changed = data.and_then(|data| Skim::from(&**error).with_members(&[("data", Some(&data))]));
        let changed = changed.and_then(|text| RawValue::from_string(text).ok());
        Ok(Answer::Error(changed.unwrap_or_else(|| error.clone())))
    }
}

impl From<TooMany> for UpstreamError {
    fn from(TooMany { said, retry_after, .. }: TooMany) -> Self {
        Self::RateLimited { said, retry_after }
    }
}
