//! The port to the client of a call, while the call runs; see `ports.rs`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::identity::Identity;
use super::question::Question;
use super::upstream::Answer;

/// The future answer to a request.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// The channel to a client while its call runs: what the server sends it, and what the server asks it.
pub trait ToClient: Send + Sync {
    /// Forwards one `notifications/progress` of the call. `params` are its parameters, without `progressToken`.
    fn progress(&self, params: Box<RawValue>);

    /// Forwards one `notifications/message` that the server sent during the call. `params` are its parameters.
    fn message(&self, params: Box<RawValue>) {
        drop(params);
    }

    /// Says that the server ended its stream of the call before the answer, so that its client comes back for the rest,
    /// after `retry` if the server says so (MCP 2025-11-25, Streamable HTTP).
    fn stream_ended(&self, retry: Option<Duration>) {
        let _ = retry;
    }

    /// Says that an attempt of the call has failed, so that it is sent to its upstream again after a pause.
    fn pauses(&self) {}

    /// Says that the pause is over.
    fn sent_again(&self) {}

    /// Whether the call may still be sent. An upstream asks this once it has the connection, immediately before it sends.
    fn may_be_sent(&self) -> bool {
        true
    }

    /// The identity with which the client has last answered a question of the call; `None` if that is the identity with
    /// which the call began, or if it is not known whole.
    fn latest_identity(&self) -> Option<Arc<Identity>> {
        None
    }

    /// Asks the client a question of the server and waits for the answer. Dropping the future withdraws the question.
    /// By default the client answers no questions.
    fn ask(&self, question: Question) -> Answering<'_> {
        Box::pin(std::future::ready(question.refused("this client offers no such method")))
    }
}
