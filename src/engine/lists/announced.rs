//! What the servers of an endpoint announce, for the clients that connect to it.

use std::sync::Arc;

use super::Lists;
use crate::domain::announcement::{Announcement, LegacyTasks};
use crate::domain::extensions::Extensions;
use crate::domain::identity::Identity;
use crate::domain::item::ItemKind;
use crate::engine::request::Endpoint;

impl Lists {
    /// Returns what clients of this endpoint are told: on the endpoint of one upstream what its server says, and on that of
    /// all upstreams their extensions together. First waits until upstreams that were never contacted have been tried once,
    /// for at most the list timeout, because a client may ask only once.
    /// Clients to which the rules show nothing of an upstream are not told what its server says.
    pub async fn announcement(&self, endpoint: Endpoint<'_>, client: &Arc<Identity>) -> Announcement {
        self.wait_for_lists(&self.in_force.snapshot(), &endpoint, ItemKind::Tool).await;
        let snapshot = self.in_force.snapshot();
        let serves = |name: &str| match endpoint {
            Endpoint::All => true,
            Endpoint::One(upstream) => upstream == name,
        };
        let plans = snapshot.linked.upstreams.iter().map(|upstream| &upstream.target.plan).enumerate();
        let served = plans.filter(|(_, plan)| plan.enabled && serves(&plan.key.name));
        let visible = snapshot.shown_upstreams(client).await;
        let shown = served.filter(|(at, _)| visible.as_ref().is_none_or(|visible| visible.contains(at)));
        let facts = shown.filter_map(|(_, plan)| self.catalogues.facts(&plan.key));
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
