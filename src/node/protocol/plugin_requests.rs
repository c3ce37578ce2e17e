//! The requests that a plugin has made to the gateway during its call and that are not answered yet. The host that
//! answers them limits their number.

use std::future::pending;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;

use super::headers::{AskHeader, ReplyHeader};
use crate::domain::ports::Host;
use crate::domain::raw::to_raw;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::upstream::Answer;

/// A reply to send to the plugin.
pub(super) struct AskReply {
    ask: u64,
    answer: Answer,
}

pub(super) struct PluginRequests<'a> {
    host: &'a dyn Host,
    /// `None` until the first request, because most calls make none.
    open: Option<FuturesUnordered<Pin<Box<dyn Future<Output = AskReply> + Send + 'a>>>>,
}

impl<'a> PluginRequests<'a> {
    pub(super) fn of(host: &'a dyn Host) -> Self {
        Self { host, open: None }
    }

    pub(super) fn host(&self) -> &'a dyn Host {
        self.host
    }

    /// Whether no request waits for an answer.
    pub(super) fn is_empty(&self) -> bool {
        self.open.as_ref().is_none_or(FuturesUnordered::is_empty)
    }

    /// Starts to answer a plugin's request.
    pub(super) fn begin(&mut self, header: AskHeader, arguments: Option<&[u8]>) {
        let (host, AskHeader { ask, tool, op, .. }) = (self.host, header);
        let arguments = arguments.map(|text| {
            let text = String::from_utf8(text.to_vec()).ok();
            text.and_then(|text| RawValue::from_string(text).ok()).ok_or(())
        });
        let open = self.open.get_or_insert_default();
        open.push(Box::pin(async move {
            let answer = match arguments.transpose() {
                Ok(arguments) => match op {
                    None => host.call_tool(&tool, arguments.as_deref()).await,
                    Some(op) => host.callback(&op, arguments.as_deref()).await,
                },
                Err(()) => Answer::Error(to_raw(&RpcError::new(INVALID_PARAMS, "the arguments are not JSON"))),
            };
            AskReply { ask, answer }
        }));
    }

    /// Returns the next answer. Never completes if no request is open.
    pub(super) async fn next(&mut self) -> AskReply {
        let next = match &mut self.open {
            Some(open) => open.next().await,
            None => None,
        };
        match next {
            Some(reply) => reply,
            None => pending().await,
        }
    }
}

impl AskReply {
    /// Returns the header and the body of the reply frame.
    pub(super) fn parts(&self) -> (ReplyHeader, &str) {
        let (error, body) = match &self.answer {
            Answer::Result(result) => (false, result.get()),
            Answer::Error(error) => (true, error.get()),
        };
        (ReplyHeader { ask: self.ask, error }, body)
    }
}
