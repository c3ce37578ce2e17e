//! Parks a call whose server asks the client for input, and continues it when the client sends it once more.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::exchange::RunningMessage;
use super::gate::Gate;
use super::parked::{Binding, ParkedCall, ParkedCalls, Parking};
use super::response::RpcResponse;
use crate::domain::limits::RefusalReason;
use crate::domain::question::Question;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{INVALID_PARAMS, REFUSED, RpcError};
use crate::domain::version::Era;
use crate::engine::Reply;
use crate::engine::exchange::Continued;

/// Runs a message to its end or until its server asks the client something. In that case the message goes on beside, and the
/// response is the question.
pub(super) async fn run_or_park(gate: Arc<Gate>, mut running: RunningMessage, parking: Arc<Parking>) -> RpcResponse {
    let asks = tokio::select! {
        biased;
        done = &mut running => return done,
        asks = parking.asked.goes_on() => asks,
    };
    let Some(ticket) = parking.ticket.get() else { return running.await };
    let asked = Arc::clone(&parking.asked);
    let finished = Arc::clone(&asked);
    let task = tokio::spawn(async move { finished.finish(running.await.into_body()) });
    let call = ParkedCall::new(asked, ticket.binding, AbortOnDropHandle::new(task));
    RpcResponse::reply(&ticket.id, &reply(&gate, call, asks), Era::Modern)
}

/// Continues a parked call with the answers of its client. `None` if `state` is not one of the gateway's own.
pub(super) async fn go_on(
    gate: &Arc<Gate>,
    state: &str,
    binding: Binding,
    answers: Option<&RawValue>,
) -> Option<Reply> {
    if !ParkedCalls::is_own(state) {
        return None;
    }
    let Some(call) = gate.parked.take(state, binding) else {
        let message = "`requestState` is not that of a call like this one that waits for input: it may have waited for too \
                       long. Send the call without it";
        return Some(Reply::Error(RpcError::new(INVALID_PARAMS, message)));
    };
    let answers = answers.and_then(|answers| RawObject::parse(answers.get()).ok()).unwrap_or_default();
    call.asked.give(&answers);
    let continued = call.asked.goes_on().await;
    Some(reply(gate, call, continued))
}

/// Returns the reply for the client of a call that asks or has ended.
fn reply(gate: &Arc<Gate>, call: ParkedCall, continued: Continued) -> Reply {
    let questions = match continued {
        Continued::Asks(questions) => questions,
        Continued::Ended(message) => return ended(&message),
    };
    let Some(state) = gate.parked.park(&gate.shutdown, call) else {
        let data = json!({"reason": RefusalReason::ConcurrentCalls.as_str(), "retryAfterMs": 1000});
        let message = "the server asks for input, and as many calls as may wait for the input of their clients";
        return Reply::Error(RpcError::new(REFUSED, message).with_data(data));
    };
    let mut requests = RawObject::default();
    for (key, Question { method, params }) in questions {
        let mut request = RawObject::default();
        request.set("method", to_raw(&method));
        if let Some(params) = params {
            request.set("params", params);
        }
        requests.set(&key, request.to_raw());
    }
    let mut result = RawObject::default();
    result.set("resultType", to_raw(&"input_required"));
    result.set("inputRequests", requests.to_raw());
    result.set("requestState", to_raw(&state));
    Reply::Result(result.to_raw())
}

/// Returns the reply in a JSON-RPC message.
fn ended(message: &str) -> Reply {
    let message = RawObject::parse(message).unwrap_or_default();
    match (message.get("result"), message.get("error")) {
        (Some(result), _) => Reply::Result(result.to_owned()),
        (None, Some(error)) => Reply::UpstreamError(error.to_owned()),
        (None, None) => Reply::Error(RpcError::new(REFUSED, "the call has ended without an answer")),
    }
}
