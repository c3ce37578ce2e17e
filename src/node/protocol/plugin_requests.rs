//! The requests that a plugin has made to the gateway during its call and that are not answered yet. The host that
//! answers them limits their number.

use std::future::pending;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;

use super::headers::{AskHeader, RefusalHeader, ReplyHeader};
use crate::domain::plugin::Failure;
use crate::domain::ports::Host;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::upstream::Answer;

/// A reply to send to the plugin.
pub(super) struct AskReply {
    ask: u64,
    answer: Answer,
}

pub(super) struct PluginRequests<'a> {
    host: &'a dyn Host,
    /// The maximum number of bytes of arguments.
    max_size: usize,
    /// Why the last arguments that were too large were refused.
    too_large: Option<String>,
    /// `None` until the first request, because most calls make none.
    open: Option<FuturesUnordered<Pin<Box<dyn Future<Output = AskReply> + Send + 'a>>>>,
}

impl<'a> PluginRequests<'a> {
    pub(super) fn of(host: &'a dyn Host, max_size: usize) -> Self {
        Self { host, max_size, too_large: None, open: None }
    }

    /// Returns the refusal that the worker repeats, if a request of the plugin got it.
    pub(super) fn refusal(&self, RefusalHeader { reason, message }: &RefusalHeader) -> Option<Failure> {
        if reason == Reason::TooLarge.as_str() && self.too_large.as_ref() == Some(message) {
            return Some(Failure::new(Reason::TooLarge, message));
        }
        self.host.refusal(reason, message)
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
        let (host, AskHeader { ask, tool, op, bytes, .. }) = (self.host, header);
        if let Some(bytes) = bytes {
            return self.refuse(ask, bytes);
        }
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

    /// Refuses a request with arguments of this size.
    fn refuse(&mut self, ask: u64, bytes: u64) {
        let most = self.max_size;
        let message =
            format!("the arguments have {bytes} bytes, {most} are allowed (limits.maxOutputSize of the Plugin)");
        let answer = Answer::Error(to_raw(&RpcError::refused(Reason::TooLarge, &*message)));
        self.too_large = Some(message);
        self.open.get_or_insert_default().push(Box::pin(std::future::ready(AskReply { ask, answer })));
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
