//! The outcome of a request over HTTP, and the messages of a response that lead to it.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::connection::Connection;
use super::too_many::TooMany;
use crate::domain::invalid_message;
use crate::domain::members::number;
use crate::domain::ports::ToClient;
use crate::domain::upstream::{Answer, UpstreamError};
use crate::upstream::call_questions::CallQuestions;
use crate::upstream::server_message::{self, NotificationKind, ServerMessage};

/// The outcome of a request over HTTP.
#[derive(Debug)]
pub(super) enum HttpReply {
    Answer(Answer),
    /// A JSON-RPC error with a client error status (4xx), which shows that nothing was executed (MCP, Streamable HTTP).
    Refused(Box<RawValue>),
    /// The server no longer knows the session. Nothing was executed.
    SessionEnded,
    /// The server takes no more requests at the moment. Nothing was executed.
    TooMany(TooMany),
}

/// Handles text that a server sends in response to the request `id`. Returns `None` if it does not contain the answer.
pub(super) fn take<'a>(
    connection: &'a Arc<Connection>,
    text: &[u8],
    id: u64,
    to: Option<&dyn ToClient>,
    asked: &mut CallQuestions<'a>,
) -> Result<Option<HttpReply>, UpstreamError> {
    let mut reply = None;
    for message in invalid_message::messages(text) {
        match server_message::read(message)? {
            ServerMessage::Answer { .. } if reply.is_some() => {
                return Err(UpstreamError::Protocol("a batch answers the request twice".into()));
            }
            ServerMessage::Answer { id: answered, answer } => reply = Some(own(answered, id, answer)?),
            ServerMessage::Notification { notice: NotificationKind::Progress, params } => {
                if let (Some(to), Some((token, params))) = (to, server_message::progress(params.as_deref()))
                    && token == id
                {
                    to.progress(params);
                }
            }
            // The stream of a request carries only messages about that request (MCP, Streamable HTTP), so log messages
            // are for its caller.
            ServerMessage::Notification { notice: NotificationKind::Message, params } => {
                if let (Some(to), Some(params)) = (to, params) {
                    to.message(params.into_owned());
                }
            }
            ServerMessage::Request { id, method, params } => asked.ask(connection, id, &method, params.as_deref()),
            ServerMessage::Notification { notice: NotificationKind::Cancelled, params } => {
                server_message::cancelled(params.as_deref()).into_iter().for_each(|id| asked.withdraw(&id));
            }
            other => connection.take_notice(other),
        }
    }
    Ok(reply)
}

/// Checks that an answer is for the request `id`. `answered` is the id in the answer; an error may have none.
fn own(answered: Option<&RawValue>, id: u64, answer: Answer) -> Result<HttpReply, UpstreamError> {
    let is_own = match answered {
        Some(answered) => number(answered.get()) == Some(id),
        None => matches!(answer, Answer::Error(_)),
    };
    if is_own {
        Ok(HttpReply::Answer(answer))
    } else {
        Err(UpstreamError::Protocol("its answer is to another request".into()))
    }
}
