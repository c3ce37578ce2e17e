//! The client of a session that sends an answer or a notification. What these are about may be at another replica, which gets
//! them then.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::envelope::{Params, text};
use super::forward::{Forwarding, is_forwarded};
use super::session_replicas::{TAKEN_OVER, UsedSession};
use crate::domain::rpc::{failure, request, success};
use crate::domain::upstream::Answer;
use crate::engine::access::sealed_id::IdPurpose;

/// The sender of a message.
pub(super) struct MessageSender<'a> {
    /// The session, and the request that the message came in.
    pub(super) used: UsedSession<'a>,
    /// The address of the client.
    pub(super) client: IpAddr,
}

impl MessageSender<'_> {
    /// Takes the answer to the question with this id, which is raw JSON. One that comes too late is dropped, and the client is
    /// not told: there are clients that end their session when an answer of theirs is refused.
    pub(super) async fn answered(&self, id: &str, answer: Answer) {
        let UsedSession { gate, endpoint, headers, session } = self.used;
        let Some(answer) = session.questions.answer(id, answer) else { return };
        let Some(replica) = gate.elsewhere(self.asked_by(id)).filter(|_| !is_forwarded(headers)) else {
            tracing::debug!("an answer to no question that waits was dropped");
            return;
        };
        let body = match &answer {
            Answer::Result(result) => success(id, result),
            Answer::Error(error) => failure(id, error),
        };
        let forwarding = Forwarding::message(endpoint, headers, body.into(), self.client);
        gate.pass_on(replica, forwarding).await;
    }

    /// Returns the replica that asked the question with this id.
    fn asked_by(&self, id: &str) -> Option<SocketAddr> {
        let raw: &RawValue = serde_json::from_str(id).ok()?;
        let id = text(raw)?;
        self.used.gate.open_id(IdPurpose::Question, &self.used.session.id, &id).ok()?.replica
    }

    /// Takes a notification.
    pub(super) async fn notified(&self, method: &str, params: &Params<'_>) {
        match method {
            "notifications/initialized" => self.used.session.set_ready(),
            "notifications/cancelled" => self.cancelled(method, params).await,
            TAKEN_OVER => self.used.taken_over(params).await,
            _ => {}
        }
    }

    /// Cancels a request of the session. If it is not in flight here, it may be at another replica that uses the session.
    async fn cancelled(&self, method: &str, params: &Params<'_>) {
        let Some(id) = params.request_id else { return };
        if !self.used.session.cancel(id.get()) {
            let UsedSession { endpoint, headers, .. } = self.used;
            let body = request(None, method, params.raw).into();
            self.used.pass_to_others(|| Forwarding::message(endpoint, headers, Bytes::clone(&body), self.client)).await;
        }
    }
}
