//! The replicas at which one session is used. Each request of a session may reach another replica, which takes the session
//! over then. It tells the replica that began the session, the home of the session, which makes all of them known to one
//! another. What ends a call or the session goes from the replica that gets it to all that it knows, and from the home to all
//! that the home knows.
//!
//! The home may forget: its own use of the session can end, and it can be restarted. So whoever uses the session says so again
//! from time to time, as long as a request of the session runs or a stream of it is open.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use super::envelope::Params;
use super::forward::{Forwarding, OfSession};
use super::forward_token;
use super::listener_context::{ListenerContext, PathEndpoint};
use crate::domain::raw::to_raw;
use crate::domain::rpc::request;
use crate::engine::access::session::Session;

/// The notification between replicas that another one has taken a session over.
pub(super) const TAKEN_OVER: &str = "hawsepipe/taken-over";
/// How long the home of a session has to answer a replica that uses it. The client waits meanwhile.
const HOME: Duration = Duration::from_secs(1);
/// How often the home is told, at least.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// How long after a failure it is told again.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// The client has ended the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deleted;

/// The parameters of [`TAKEN_OVER`].
#[derive(Debug, Serialize, Deserialize)]
struct TakenOver {
    replica: SocketAddr,
}

/// A session, and the request of its client with which it is used here.
#[derive(Clone, Copy)]
pub(super) struct UsedSession<'a> {
    pub(super) gate: &'a Arc<ListenerContext>,
    pub(super) endpoint: &'a PathEndpoint,
    pub(super) session: &'a Arc<Session>,
    /// The address of the client.
    client: IpAddr,
    /// Whether another replica forwarded the request.
    pub(super) is_forwarded: bool,
}

impl<'a> UsedSession<'a> {
    /// The session of a request of a client, which has these headers.
    pub(super) fn new(
        gate: &'a Arc<ListenerContext>,
        endpoint: &'a PathEndpoint,
        headers: &HeaderMap,
        session: &'a Arc<Session>,
        client: IpAddr,
    ) -> Self {
        Self { gate, endpoint, session, client, is_forwarded: forward_token::is_forwarded(headers) }
    }

    /// Tells the home of the session that this replica uses it too, if that is due.
    ///
    /// # Errors
    /// If the client has ended the session at its home. It is ended here too then.
    pub(super) async fn tell_home(&self) -> Result<(), Deleted> {
        let Some((home, own)) = self.home().filter(|_| !self.is_forwarded) else { return Ok(()) };
        let (now, every) = (self.gate.engine.now(), self.tell_every());
        let again = every.min(TRY_AGAIN);
        if !self.session.others.is_home_to_be_told(now, again) {
            return Ok(());
        }
        let silent = &self.gate.replicas.silent;
        if !silent.may_be_asked(home, now, again) {
            // The next request tells it, if it answers again by then.
            self.session.others.home_is_told(now, Duration::ZERO);
            return Ok(());
        }
        // In a box, because the future of every call has room for this one, and few calls come here.
        let told = Box::pin(self.gate.forward(home, self.forwarding(telling(own)), HOME)).await;
        match &told {
            Ok(_) => silent.remove(home),
            Err(why) if why.is_silent() => silent.add(home, self.gate.engine.now(), again),
            Err(_) => {}
        }
        match told {
            Ok(response) if response.status() == StatusCode::GONE => {
                self.gate.engine.end_session(&self.session.id);
                return Err(Deleted);
            }
            Ok(response) if response.status().is_success() => self.session.others.home_is_told(now, every),
            Ok(response) => {
                tracing::debug!(replica = %home, status = response.status().as_u16(), "a session's use was not noted");
            }
            Err(why) => tracing::debug!(replica = %home, "a session's use could not be told: {why}"),
        }
        Ok(())
    }

    /// Tells the home of the session again and again that this replica uses it.
    pub(super) async fn keep_home_told(&self) -> Infallible {
        if self.home().is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(self.tell_every().min(TRY_AGAIN)).await;
            // What the client has ended ends here by that.
            let _ = self.tell_home().await;
        }
    }

    /// Returns the addresses of the home and of this replica; `None` if the home is here, or is not known.
    fn home(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.gate.elsewhere(self.session.replica).zip(self.gate.listener.advertised)
    }

    /// Returns how often the home is told, so that the session does not become idle there.
    fn tell_every(&self) -> Duration {
        let idle = self.gate.engine.in_force.snapshot().plan().gateway.session_idle_seconds;
        (Duration::from_secs(u64::from(idle)) / 3).clamp(Duration::from_millis(100), TELL_EVERY)
    }

    /// Takes the notification that another replica uses the session. The home makes a new one and the others known to one
    /// another.
    ///
    /// # Errors
    /// If the client ended the session before this replica knew of the other one.
    pub(super) async fn taken_over(&self, params: &Params<'_>) -> Result<(), Deleted> {
        let taken_over = params.raw.and_then(|params| serde_json::from_str::<TakenOver>(params.get()).ok());
        let Some(TakenOver { replica }) = taken_over.filter(|_| self.is_forwarded) else { return Ok(()) };
        let others = self.session.others.add(replica);
        // In this order: who ends the session first notes that, then asks who uses it.
        if self.gate.engine.gate.sessions().was_deleted(&self.session.id) {
            return Err(Deleted);
        }
        if self.home().is_some() {
            return Ok(());
        }
        let pairs = others.into_iter().flatten().flat_map(|other| [(other, replica), (replica, other)]);
        // Who uses the session does not wait for the others: what they pass on arrives by the home until they know.
        drop(self.pass_beside(pairs.map(|(to, about)| (to, telling(about))).collect()));
        Ok(())
    }

    /// Passes what a client sent on to the other replicas at which the session is used, even if the client is gone before
    /// they have it. Of what was forwarded itself, only the home passes anything on.
    pub(super) async fn pass_to_others(&self, sent: &OfSession) {
        if self.is_forwarded && self.home().is_some() {
            return;
        }
        let others = self.session.replicas().into_iter().filter_map(|replica| self.gate.elsewhere(Some(replica)));
        // An error is one of the runtime, at whose end there is nobody to tell.
        let _ = self.pass_beside(others.map(|to| (to, sent.clone())).collect()).await;
    }

    /// Passes messages on in a task of its own. Each takes a place, or is lost, so there are not more tasks than places.
    fn pass_beside(&self, messages: Vec<(SocketAddr, OfSession)>) -> JoinHandle<Option<()>> {
        let used = self.kept();
        self.gate.engine.gate.run_detached(async move {
            let used = used.as_used();
            join_all(messages.into_iter().map(|(to, sent)| used.pass_to(to, sent))).await;
        })
    }

    /// Passes something on to another replica. Forgets the replica if it is gone.
    pub(super) async fn pass_to(&self, replica: SocketAddr, sent: OfSession) {
        let passed = self.gate.pass_on(replica, self.forwarding(sent)).await;
        if passed.is_err_and(|why| why.is_gone()) {
            self.session.others.remove(replica);
        }
    }

    pub(super) fn kept(&self) -> KeptUse {
        let Self { gate, endpoint, session, client, is_forwarded } = *self;
        KeptUse {
            gate: Arc::clone(gate),
            endpoint: endpoint.clone(),
            session: Arc::clone(session),
            client,
            is_forwarded,
        }
    }

    fn forwarding(&self, sent: OfSession) -> Forwarding<'a> {
        Forwarding::in_session(self.endpoint, self.session, sent, self.client)
    }
}

/// A [`UsedSession`] for what goes on without its request.
pub(super) struct KeptUse {
    gate: Arc<ListenerContext>,
    endpoint: PathEndpoint,
    session: Arc<Session>,
    client: IpAddr,
    is_forwarded: bool,
}

impl KeptUse {
    pub(super) fn as_used(&self) -> UsedSession<'_> {
        let Self { gate, endpoint, session, client, is_forwarded } = self;
        UsedSession { gate, endpoint, session, client: *client, is_forwarded: *is_forwarded }
    }
}

/// Returns the notification that `replica` uses a session.
fn telling(replica: SocketAddr) -> OfSession {
    OfSession::Use(request(None, TAKEN_OVER, Some(&to_raw(&TakenOver { replica }))).into())
}
