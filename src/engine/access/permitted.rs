//! What a client may use of a snapshot.

use std::collections::BTreeSet;

use super::explained::AccessExplanation;
use crate::config::access::authorize::{AccessRequest, CallContent, Decision};
use crate::config::access::condition_values::public_name;
use crate::domain::digest::revision;
use crate::domain::identity::Identity;
use crate::domain::item::ItemKind;
use crate::domain::route::Route;
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::request::Caller;

/// The items of one kind that a client may see.
pub(crate) struct PermittedItems {
    routes: BTreeSet<usize>,
    /// The same for all clients that may see the same items.
    pub(crate) digest: String,
}

impl PermittedItems {
    pub(crate) fn has(&self, route: &Route) -> bool {
        self.routes.contains(&route.index)
    }
}

impl Snapshot {
    /// Returns the items of this kind that a client may see; `None` if there are no rules.
    pub(crate) fn permitted(&self, caller: &Caller, kind: ItemKind) -> Option<PermittedItems> {
        self.linked.rules.as_ref()?;
        let of_kind = self.routes.all().iter().filter(|route| route.item.kind == kind);
        let routes: BTreeSet<_> =
            of_kind.filter(|route| self.may_see(caller, route)).map(|route| route.index).collect();
        Some(PermittedItems { digest: revision(&routes), routes })
    }

    /// Whether a client may see an item.
    pub(crate) fn may_see(&self, caller: &Caller, route: &Route) -> bool {
        self.linked
            .rules
            .as_ref()
            .is_none_or(|rules| rules.list(&self.access_request((&*caller.identity, &*caller.session), route, None)))
    }

    /// Explains what the rules mean for this client and an item; `None` if there are no rules.
    pub(crate) fn explain_access(&self, identity: &Identity, route: &Route) -> Option<AccessExplanation> {
        let caller = (identity, "");
        self.linked.rules.as_ref().map(|rules| rules.explain(&self.access_request(caller, route, None)))
    }

    /// Decides about a call of an item.
    pub(crate) fn decide(&self, caller: &Caller, route: &Route, call: CallContent<'_>) -> Decision<'_> {
        let rules = self.linked.rules.as_ref();
        rules.map_or(Decision::Allowed(None), |rules| {
            rules.decide(&self.access_request((&*caller.identity, &*caller.session), route, Some(call)))
        })
    }

    fn access_request<'a>(
        &'a self,
        (identity, session): (&'a Identity, &'a str),
        route: &'a Route,
        call: Option<CallContent<'a>>,
    ) -> AccessRequest<'a> {
        let upstream = &self.linked.upstreams[route.upstream].target.plan;
        let kind = route.item.kind;
        AccessRequest {
            identity,
            session,
            item: &route.item,
            name: public_name(route, kind, upstream),
            upstream: &upstream.key,
            labels: &upstream.labels,
            method: kind.used_by(),
            call,
        }
    }
}
