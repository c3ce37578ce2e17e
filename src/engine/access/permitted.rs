//! What a client may use of a snapshot.

use std::collections::BTreeSet;

use crate::config::access::authorize::{AccessRequest, CallContent, Decision, RequestValues};
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
        self.shows((&caller.identity, &caller.session), route)
    }

    /// The same for a client with this identity, and the id of its session.
    pub(crate) fn shows(&self, client: (&Identity, &str), route: &Route) -> bool {
        let rules = self.linked.rules.as_ref();
        rules.is_none_or(|rules| rules.list(&self.access_request(client, route, None)))
    }

    /// Whether a client may see any item of an upstream.
    pub(crate) fn shows_any(&self, client: &Identity, upstream: usize) -> bool {
        let mut routes = self.routes.all().iter().filter(|route| route.upstream == upstream);
        self.linked.rules.is_none() || routes.any(|route| self.shows((client, ""), route))
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
            values: RequestValues::default(),
        }
    }
}
