//! One subscription of a client, which its server knows.

use std::sync::Arc;

use super::subscriptions::SubscriberEntry;
use crate::domain::ids::ObjectKey;

/// Ends subscriptions at servers.
pub(in crate::engine) trait Unsubscribe: Send + Sync {
    /// Ends the subscription of one client at the upstream.
    fn unsubscribe(&self, upstream: &ObjectKey, uri: &str);
}

/// A subscription of one client to one resource. It ends when this value is dropped.
pub struct Subscription {
    entry: SubscriberEntry,
    servers: Arc<dyn Unsubscribe>,
}

impl Subscription {
    pub(in crate::engine) fn new(entry: SubscriberEntry, servers: Arc<dyn Unsubscribe>) -> Self {
        Self { entry, servers }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.servers.unsubscribe(&self.entry.upstream, &self.entry.uri);
    }
}
