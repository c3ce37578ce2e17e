//! The connections to other replicas of the gateway, and the bounds of what is forwarded.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::replica_client::SentBody;
use super::replica_connector::ReplicaConnector;
use super::silent_replicas::SilentReplicas;
use crate::domain::limits::Tracker;
use crate::engine::Engine;
use crate::engine::access::addresses::Addresses;
use crate::transport::ReplicaTls;

/// How long an idle connection to a replica is kept.
const IDLE: Duration = Duration::from_secs(30);

/// What a request is forwarded for. Each has places of its own, so that streams that stay open leave some to messages, and
/// clients leave some to what replicas tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForwardingQuota {
    /// A call that goes on, or the stream of one.
    Calls,
    /// An answer of a client.
    Answers,
    /// A cancellation of a client, of which it can send any number.
    Cancellations,
    /// The end of a session, which its client ends once.
    Ends,
    /// That a replica uses a session.
    Sessions,
}

impl ForwardingQuota {
    /// Returns how many requests of one listener are forwarded at the same time, with their responses, and how many of them
    /// for one client address.
    fn limits(self) -> (u32, u32) {
        match self {
            Self::Calls | Self::Answers | Self::Cancellations | Self::Ends => (1000, 250),
            Self::Sessions => (250, 64),
        }
    }

    /// Returns how many requests are forwarded at the same time for one session, if its client decides how many it sends.
    /// Behind an ingress all clients can share one address. A cancellation goes to each replica that uses the session.
    fn limit_of_session(self) -> Option<u32> {
        matches!(self, Self::Answers | Self::Cancellations).then_some(64)
    }
}

/// The requests that are forwarded in one [`ForwardingQuota`].
#[derive(Default)]
struct Places {
    all: Arc<Tracker>,
    by_address: Addresses<Tracker>,
}

/// The connections to other replicas, and the number of requests that are forwarded.
pub(super) struct Replicas {
    pub(super) client: Client<ReplicaConnector, SentBody>,
    pub(super) shares: Shares,
    pub(super) silent: SilentReplicas,
}

impl Replicas {
    pub(super) fn new(engine: &Arc<Engine>) -> Self {
        let connector = ReplicaConnector { engine: Arc::clone(engine), tls: ReplicaTls::new().ok() };
        let mut client = Client::builder(TokioExecutor::new());
        let client = client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).build(connector);
        Self { client, shares: Shares::default(), silent: SilentReplicas::default() }
    }
}

/// The number of requests that are forwarded.
#[derive(Default)]
pub(super) struct Shares {
    calls: Places,
    answers: Places,
    cancellations: Places,
    ends: Places,
    sessions: Places,
}

impl Shares {
    /// Counts a request that is forwarded for a client, unless there are too many. `session` counts those of its session.
    pub(super) fn enter(
        &self,
        share: ForwardingQuota,
        client: IpAddr,
        session: Option<&Arc<Tracker>>,
    ) -> Option<ForwardedRequest> {
        let places = match share {
            ForwardingQuota::Calls => &self.calls,
            ForwardingQuota::Answers => &self.answers,
            ForwardingQuota::Cancellations => &self.cancellations,
            ForwardingQuota::Ends => &self.ends,
            ForwardingQuota::Sessions => &self.sessions,
        };
        let (all, each) = share.limits();
        let of_session = session.map(Arc::clone).zip(share.limit_of_session());
        let trackers = [(Arc::clone(&places.all), all), (places.by_address.of(client), each)];
        let mut under_way = ForwardedRequest(Vec::with_capacity(trackers.len() + 1));
        for (tracker, limit) in trackers.into_iter().chain(of_session) {
            tracker.enter(Some(limit), None).ok()?;
            under_way.0.push(tracker);
        }
        Some(under_way)
    }
}

/// Counts a forwarded request until it is dropped.
pub(super) struct ForwardedRequest(Vec<Arc<Tracker>>);

impl Drop for ForwardedRequest {
    fn drop(&mut self) {
        self.0.iter().for_each(|tracker| tracker.leave());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: [ForwardingQuota; 5] = [
        ForwardingQuota::Calls,
        ForwardingQuota::Answers,
        ForwardingQuota::Cancellations,
        ForwardingQuota::Ends,
        ForwardingQuota::Sessions,
    ];

    fn clients() -> [IpAddr; 2] {
        ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap())
    }

    #[test]
    fn each_share_has_places_of_its_own_and_leaves_some_to_other_addresses() {
        let (places, [one, other]) = (Shares::default(), clients());
        let mut held = Vec::new();
        for share in SHARES {
            let (_, each) = share.limits();
            held.extend((0..each).map(|_| places.enter(share, one, None).expect("no other share takes its places")));
            assert!(places.enter(share, one, None).is_none(), "{share:?}");
            assert!(places.enter(share, other, None).is_some(), "{share:?}");
        }
        drop(held);
        assert!(SHARES.iter().all(|share| places.enter(*share, one, None).is_some()));
    }

    #[test]
    fn a_session_leaves_places_to_others_of_its_address() {
        let (places, [one, _]) = (Shares::default(), clients());
        let sessions = [(); 2].map(|()| Arc::<Tracker>::default());
        for share in [ForwardingQuota::Answers, ForwardingQuota::Cancellations] {
            let enter = |n: usize| places.enter(share, one, Some(&sessions[n]));
            let held: Vec<_> = std::iter::from_fn(|| enter(0)).collect();
            assert!(held.len() < 100 && enter(1).is_some(), "{share:?}");
            assert!(places.enter(ForwardingQuota::Ends, one, Some(&sessions[0])).is_some(), "it can be ended");
            drop(held);
            assert!(enter(0).is_some());
        }
    }
}
