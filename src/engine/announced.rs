//! What the servers of an endpoint announce, for the clients that connect to it.

use super::Engine;
use super::request::Endpoint;
use crate::domain::announcement::{Announcement, LegacyTasks};
use crate::domain::extensions::Extensions;
use crate::domain::item::ItemKind;

impl Engine {
    /// Returns what clients of this endpoint are told: on the endpoint of one upstream what its server says, and on that of
    /// all upstreams their extensions together. First waits until upstreams that were never contacted have been tried once,
    /// for at most the list timeout, because a client may ask only once.
    pub async fn announcement(&self, endpoint: Endpoint<'_>) -> Announcement {
        self.wait_for_lists(&self.snapshot(), &endpoint, ItemKind::Tool).await;
        let snapshot = self.snapshot();
        let serves = |name: &str| match endpoint {
            Endpoint::All => true,
            Endpoint::One(upstream) => upstream == name,
        };
        let plans = snapshot.linked.upstreams.iter().map(|upstream| &upstream.target.plan);
        let served = plans.filter(|plan| plan.enabled && serves(&plan.key.name));
        let facts = served.filter_map(|plan| self.state.facts(&plan.key));
        let mut said: Vec<_> = facts.map(|facts| facts.announcement).collect();
        if matches!(endpoint, Endpoint::One(_)) {
            return said.pop().unwrap_or_default();
        }
        Announcement {
            extensions: Extensions::union(said.iter().map(|said| &said.extensions)),
            experimental: Extensions::union(said.iter().map(|said| &said.experimental)),
            tasks: said.iter().filter_map(|said| said.tasks).reduce(LegacyTasks::both),
            ..Announcement::default()
        }
    }
}
