//! Streams of notifications over HTTP (MCP 2026-07-28, `subscriptions/listen`): each is the response to one request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::http_reply::HttpReply;
use super::media::{encoding, is_event_stream};
use super::response;
use super::response_body::Messages;
use crate::domain::invalid_message;
use crate::domain::method::Method;
use crate::domain::upstream::{Answer, UpstreamError};
use crate::upstream::call_questions::CallQuestions;
use crate::upstream::request_failure::refused;
use crate::upstream::server_message::{self, NotificationKind, ServerMessage};
use crate::upstream::wire::McpRequest;

/// Opens streams of notifications of one server.
pub(in crate::upstream) struct HttpListener(pub(super) Arc<Connection>);

/// One stream. Dropping it closes the response.
pub(in crate::upstream) struct HttpListenStream {
    connection: Arc<Connection>,
    messages: Messages,
}

impl HttpListener {
    pub(in crate::upstream) fn ended(&self) -> CancellationToken {
        self.0.stop.clone()
    }

    /// Opens a stream.
    pub(in crate::upstream) async fn open(&self, filter: &str) -> Result<HttpListenStream, UpstreamError> {
        let connection = Arc::clone(&self.0);
        let id = connection.endpoint.next_id.fetch_add(1, Ordering::Relaxed);
        let response = connection.post(&McpRequest::Listen(filter), id).await?;
        let headers = response.headers();
        if response.status() == StatusCode::OK && is_event_stream(headers) && encoding(headers).is_none() {
            let messages = connection.endpoint.unasked_events(response.into_body());
            return Ok(HttpListenStream { connection, messages });
        }
        match response::read(&connection, response, id, None, &mut CallQuestions::none()).await? {
            HttpReply::Answer(Answer::Error(error)) | HttpReply::Refused(error) => Err(refused(Method::Listen, &error)),
            HttpReply::TooMany(too_many) => Err(too_many.into()),
            HttpReply::Answer(Answer::Result(_)) | HttpReply::SessionEnded => {
                Err(UpstreamError::Protocol("it answered subscriptions/listen without a stream".to_owned()))
            }
        }
    }
}

impl HttpListenStream {
    pub(in crate::upstream) async fn next(&mut self) -> Option<Vec<String>> {
        loop {
            let (text, mut reported) = (self.messages.next().await.ok()??, None);
            for message in invalid_message::messages(text.as_bytes()) {
                let Ok(message) = server_message::read(message) else { continue };
                match message {
                    ServerMessage::Notification { notice: NotificationKind::Acknowledged, params } => {
                        reported = Some(server_message::acknowledged(params.as_deref())?.1);
                    }
                    ServerMessage::Answer { .. } => return None,
                    other => self.connection.take_notice(other),
                }
            }
            if reported.is_some() {
                return reported;
            }
        }
    }
}
