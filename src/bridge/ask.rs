//! Questions of which the answer holds for all clients of a process: `initialize` of a shared one, and `server/discover`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use serde_json::value::RawValue;

use super::context::Context;
use super::exchange::PostExchange;
use super::message::BridgedRequest;
use super::outbox::Outgoing;
use super::process::ServerProcess;
use super::usage::Usage;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{INTERNAL_ERROR, RpcError};

/// What clients are told if the task that asks panics.
pub(super) const FAILED: &str = "the bridge failed on this message";

/// The result or the error of an answer.
pub(super) type Outcome = Result<Box<RawValue>, Box<RawValue>>;

/// One question to a process. A task of its own asks it, so that it does not matter whether a client waits.
#[derive(Default)]
pub(super) struct AskedOnce(Mutex<Option<Shared<BoxFuture<'static, Outcome>>>>);

impl std::fmt::Debug for AskedOnce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AskedOnce")
    }
}

impl AskedOnce {
    /// Waits for the outcome. `ask` is used if nobody has asked yet, or if the last one who asked got an error and
    /// nobody has asked since.
    pub(super) async fn outcome<F>(&self, ask: impl FnOnce() -> F) -> Outcome
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let asked = {
            let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            asked
                .get_or_insert_with(|| {
                    let failed = |_| Err(to_raw(&RpcError::new(INTERNAL_ERROR, FAILED)));
                    tokio::spawn(ask()).map(move |done| done.unwrap_or_else(failed)).boxed().shared()
                })
                .clone()
        };
        let outcome = asked.clone().await;
        if outcome.is_err() {
            let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            current.take_if(|current| current.ptr_eq(&asked));
        }
        outcome
    }
}

/// Asks the server, and waits for its answer. What it sends before the answer goes to the streams of sessions.
pub(super) async fn ask(
    context: &Context,
    process: &Arc<ServerProcess>,
    request: &BridgedRequest,
) -> Result<Outgoing, RpcError> {
    let mut exchange = PostExchange::new(context, process, Usage::new().begin());
    exchange.send(request, None, false).await;
    exchange.answer().await.ok_or_else(|| RpcError::new(INTERNAL_ERROR, "the server's process has ended"))
}

/// Does the same, for at most `time`: then the process is ended, because it may never answer.
pub(super) async fn ask_within(
    time: Duration,
    context: &Context,
    process: &Arc<ServerProcess>,
    request: &BridgedRequest,
) -> Outcome {
    let answer = tokio::time::timeout(time, ask(context, process, request)).await.unwrap_or_else(|_| {
        process.stop();
        let message = format!("the server has not answered `{}` within {time:?} and is ended", request.method);
        Err(RpcError::new(INTERNAL_ERROR, message))
    });
    let object = answer.map_err(|error| to_raw(&error))?;
    let object = RawObject::parse(&object.text).unwrap_or_default();
    match (object.get("result"), object.get("error")) {
        (Some(result), _) => Ok(result.to_owned()),
        (None, Some(error)) => Err(error.to_owned()),
        (None, None) => Err(to_raw(&RpcError::new(INTERNAL_ERROR, "the server's answer cannot be read"))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_question_goes_on_without_the_client_that_caused_it_and_its_answer_is_for_all() {
        let (asked, times, go) = (AskedOnce::default(), AtomicUsize::new(0), Arc::new(Semaphore::new(0)));
        let ask = |outcome: Outcome| {
            let go = Arc::clone(&go);
            times.fetch_add(1, Ordering::Relaxed);
            async move {
                go.acquire().await.unwrap().forget();
                outcome
            }
        };
        let error = || Err(to_raw(&json!({"code": 1})));
        assert!(asked.outcome(|| ask(error())).now_or_never().is_none(), "the client is gone");
        let mut waiting = std::pin::pin!(asked.outcome(|| ask(Ok(to_raw(&1)))));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        go.add_permits(1);
        assert!(waiting.await.is_err());
        assert_eq!(times.load(Ordering::Relaxed), 1);
        go.add_permits(1);
        for _ in 0..2 {
            assert_eq!(asked.outcome(|| ask(Ok(to_raw(&2)))).await.unwrap().get(), "2");
        }
        assert_eq!(times.load(Ordering::Relaxed), 2);
    }
}
