//! The client of a session that sends an answer or a notification. What these are about may be at another replica, which gets
//! them then.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;

use super::envelope::{Params, is_id, text};
use super::forward::OfSession;
use super::session_replicas::{Deleted, TAKEN_OVER, UsedSession};
use crate::domain::identity::Identity;
use crate::domain::raw::to_raw;
use crate::domain::rpc::{failure, request, success};
use crate::domain::upstream::Answer;
use crate::engine::access::sealed_id::IdPurpose;
use crate::engine::exchange::ClientAnswer;

/// The notification that cancels a request.
const CANCELLED: &str = "notifications/cancelled";

/// The sender of a message.
pub(super) struct MessageSender<'a> {
    /// The session, and the request that the message came in.
    pub(super) used: UsedSession<'a>,
}

impl MessageSender<'_> {
    /// Takes the answer to the question with this id, which is raw JSON. `identity` is that of the client that sends the
    /// answer. One that comes too late is dropped, and the client is
    /// not told: there are clients that end their session when an answer of theirs is refused.
    pub(super) async fn answered(&self, id: &str, answer: Answer, identity: &Arc<Identity>) {
        let UsedSession { gate, session, is_forwarded, .. } = self.used;
        let known = Some(identity).filter(|identity| identity.is_whole()).cloned();
        let unasked = session.questions.answer(id, ClientAnswer { answer, identity: known });
        let Some(ClientAnswer { answer, .. }) = unasked else { return };
        let Some(replica) = gate.elsewhere(self.asked_by(id)).filter(|_| !is_forwarded) else {
            tracing::debug!("an answer to no question that waits was dropped");
            return;
        };
        let body = match &answer {
            Answer::Result(result) => success(id, result),
            Answer::Error(error) => failure(id, error),
        };
        self.used.pass_to(replica, OfSession::Answer(body.into(), Arc::clone(identity))).await;
    }

    /// Returns the replica that asked the question with this id.
    fn asked_by(&self, id: &str) -> Option<SocketAddr> {
        let raw: &RawValue = serde_json::from_str(id).ok()?;
        let id = text(raw)?;
        self.used.gate.open_id(IdPurpose::Question, &self.used.session.id, &id).ok()?.replica
    }

    /// Takes a notification.
    ///
    /// # Errors
    /// If the client ended the session before another replica said that it uses it.
    pub(super) async fn notified(&self, method: &str, params: &Params<'_>) -> Result<(), Deleted> {
        match method {
            "notifications/initialized" => self.used.session.set_ready(),
            CANCELLED => self.cancelled(params).await,
            TAKEN_OVER => self.used.taken_over(params).await?,
            _ => {}
        }
        Ok(())
    }

    /// Cancels a request of the session. If it is not in flight here, it may be at another replica that uses the session,
    /// which needs to know the id of the request alone.
    async fn cancelled(&self, params: &Params<'_>) {
        let Some(id) = params.request_id.filter(|id| is_id(id.get())) else { return };
        if !self.used.session.cancel(id.get()) {
            let body = request(None, CANCELLED, Some(&to_raw(&json!({"requestId": id}))));
            self.used.pass_to_others(&OfSession::Cancellation(body.into())).await;
        }
    }
}
