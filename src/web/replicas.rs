//! The connections to other replicas of the gateway.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::domain::limits::Tracker;
use crate::engine::access::addresses::Addresses;

/// The maximum number of requests of one listener that are forwarded at the same time, with their responses.
const MAX_FORWARDED: u32 = 1000;
/// The same for the requests of one client address.
const MAX_FORWARDED_EACH: u32 = 250;
/// How long an idle connection to a replica is kept.
const IDLE: Duration = Duration::from_secs(30);
/// How long the connection to a replica may take.
const CONNECT: Duration = Duration::from_secs(2);

/// The connections to other replicas, and the number of requests that are forwarded.
pub(super) struct Replicas {
    pub(super) client: Client<HttpConnector, Full<Bytes>>,
    forwarded: Arc<Tracker>,
    by_address: Addresses<Tracker>,
}

impl Default for Replicas {
    fn default() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let client =
            Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).build(tcp);
        Self { client, forwarded: Arc::default(), by_address: Addresses::default() }
    }
}

impl Replicas {
    /// Counts a forwarded request of a client, unless there are too many.
    pub(super) fn enter(&self, client: IpAddr) -> Option<UnderWay> {
        let trackers = [(Arc::clone(&self.forwarded), MAX_FORWARDED), (self.by_address.of(client), MAX_FORWARDED_EACH)];
        let mut under_way = UnderWay(Vec::with_capacity(trackers.len()));
        for (tracker, limit) in trackers {
            tracker.enter(Some(limit), None).ok()?;
            under_way.0.push(tracker);
        }
        Some(under_way)
    }
}

/// Counts a forwarded request until it is dropped.
pub(super) struct UnderWay(Vec<Arc<Tracker>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.iter().for_each(|tracker| tracker.leave());
    }
}
