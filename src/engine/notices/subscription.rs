//! One subscription of a client, which its server knows.

use std::sync::Arc;

use super::subscriptions::SubscriberEntry;
use crate::engine::servers::Servers;

/// A subscription of one client to one resource. It ends when this value is dropped.
pub struct Subscription {
    entry: SubscriberEntry,
    servers: Arc<Servers>,
}

impl Subscription {
    pub(in crate::engine) fn new(entry: SubscriberEntry, servers: &Arc<Servers>) -> Self {
        Self { entry, servers: Arc::clone(servers) }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.servers.unsubscribe(&self.entry.upstream, &self.entry.uri);
    }
}
