//! The replicas at which one session is used. Each request of a session may reach another replica, which takes the session
//! over then. It tells the replica that began the session, which makes all of them known to one another, so that what ends
//! a call or the session reaches them all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::envelope::Params;
use super::forward::{Forwarding, is_forwarded};
use super::gate::{Gate, PathEndpoint};
use crate::domain::raw::to_raw;
use crate::domain::rpc::request;
use crate::engine::access::session::Session;

/// The notification between replicas that another one has taken a session over.
pub(super) const TAKEN_OVER: &str = "hawsepipe/taken-over";
/// How long the replica that began a session has to answer one that takes it over. The client waits meanwhile.
const HOME: Duration = Duration::from_secs(1);
/// The client of requests that replicas make on their own.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The parameters of [`TAKEN_OVER`].
#[derive(Debug, Serialize, Deserialize)]
struct TakenOver {
    replica: SocketAddr,
}

/// A session, and the request of its client with which it is used here.
#[derive(Clone, Copy)]
pub(super) struct UsedSession<'a> {
    pub(super) gate: &'a Gate,
    pub(super) endpoint: &'a PathEndpoint,
    /// The headers of the request.
    pub(super) headers: &'a HeaderMap,
    pub(super) session: &'a Session,
}

impl UsedSession<'_> {
    /// Tells the replica that began the session that this one uses it too, the first time. Returns false if the client has
    /// ended the session there.
    pub(super) async fn tell_home(&self) -> bool {
        let (home, own) = (self.gate.elsewhere(self.session.replica), self.gate.listener.advertised);
        let (Some(home), Some(own)) = (home, own) else { return true };
        if is_forwarded(self.headers) || !self.session.is_first_use() {
            return true;
        }
        let told = self.gate.forward(home, self.telling(own), HOME).await;
        !told.is_ok_and(|response| response.status() == StatusCode::GONE)
    }

    /// Takes the notification that another replica uses the session. The replica that began the session makes it and the
    /// others known to one another.
    pub(super) async fn taken_over(&self, params: &Params<'_>) {
        let taken_over = params.raw.and_then(|params| serde_json::from_str::<TakenOver>(params.get()).ok());
        let Some(TakenOver { replica }) = taken_over.filter(|_| is_forwarded(self.headers)) else { return };
        let others = self.session.add_replica(replica);
        if self.gate.elsewhere(self.session.replica).is_some() {
            return;
        }
        let pairs = others.into_iter().flat_map(|other| [(other, replica), (replica, other)]);
        join_all(pairs.map(|(to, about)| self.gate.pass_on(to, self.telling(about)))).await;
    }

    /// Passes a request of the client on to all other replicas at which the session is used. Does nothing if the request was
    /// forwarded itself.
    pub(super) async fn pass_to_others<'f>(&self, forwarding: impl Fn() -> Forwarding<'f>) {
        if is_forwarded(self.headers) {
            return;
        }
        let others = self.session.replicas().into_iter().filter_map(|replica| self.gate.elsewhere(Some(replica)));
        join_all(others.map(|to| self.gate.pass_on(to, forwarding()))).await;
    }

    /// Returns the notification that `replica` has taken the session over.
    fn telling(&self, replica: SocketAddr) -> Forwarding<'_> {
        let body = request(None, TAKEN_OVER, Some(&to_raw(&TakenOver { replica })));
        Forwarding::message(self.endpoint, self.headers, body.into(), NOBODY)
    }
}
