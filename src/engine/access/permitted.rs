//! What a client may use of a snapshot.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::config::access::authorize::{AccessRequest, CallContent, Decision, RequestValues};
use crate::config::access::condition_values::ItemNames;
use crate::domain::identity::Identity;
use crate::domain::item::ItemKind;
use crate::domain::route::Route;
use crate::engine::plan::permitted_sets::PermittedItems;
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::request::Caller;

impl Snapshot {
    /// Returns the items of this kind that a client may see; `None` if there are no rules.
    pub(crate) fn permitted(&self, caller: &Caller, kind: ItemKind) -> Option<Arc<PermittedItems>> {
        self.permitted_to((&caller.identity, &caller.session), kind)
    }

    fn permitted_to(&self, client: (&Identity, &str), kind: ItemKind) -> Option<Arc<PermittedItems>> {
        let rules = self.linked.rules.as_ref()?;
        let key = (kind, rules.digest_of(client.0, client.1));
        Some(self.permitted.get_or_make(key, || {
            let of_client = Arc::default();
            let may_see = |route: &&Arc<Route>| {
                let values = RequestValues::of(&of_client);
                route.item.kind == kind && rules.list(&self.access_request(client, route, None, values))
            };
            let routes: Vec<_> = self.routes.all().iter().filter(may_see).map(|route| route.index).collect();
            PermittedItems::new(self.routes.all().len(), &routes)
        }))
    }

    /// Like [`Self::permitted`], for a client with this identity and the id of its session. What is not known yet is decided on a
    /// thread that serves no calls, one set after another: it can take as long as many calls.
    pub(crate) async fn permitted_in_turn(
        self: &Arc<Self>,
        (identity, session): (&Arc<Identity>, &str),
        kind: ItemKind,
    ) -> Option<Arc<PermittedItems>> {
        let key = (kind, self.linked.rules.as_ref()?.digest_of(identity, session));
        if let Some(known) = self.permitted.get(&key) {
            return Some(known);
        }
        let turn = self.permitted.turn().await;
        let (snapshot, identity, session) = (Arc::clone(self), Arc::clone(identity), session.to_owned());
        let decided = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            snapshot.permitted_to((&identity, &session), kind)
        });
        // If it panics, the client sees nothing.
        Some(decided.await.ok().flatten().unwrap_or_else(|| Arc::new(PermittedItems::new(0, &[]))))
    }

    /// Whether a client may see an item.
    pub(crate) fn may_see(&self, caller: &Caller, route: &Route) -> bool {
        self.shows((&caller.identity, &caller.session), route)
    }

    /// The same for a client with this identity, and the id of its session.
    pub(crate) fn shows(&self, client: (&Identity, &str), route: &Route) -> bool {
        let rules = self.linked.rules.as_ref();
        rules.is_none_or(|rules| rules.list(&self.access_request(client, route, None, RequestValues::default())))
    }

    /// Returns the indexes of the upstreams of which a client may see any item; `None` if there are no rules.
    pub(crate) async fn shown_upstreams(self: &Arc<Self>, client: &Arc<Identity>) -> Option<BTreeSet<usize>> {
        let mut permitted = Vec::new();
        for kind in ItemKind::ALL {
            permitted.push(self.permitted_in_turn((client, ""), kind).await?);
        }
        let is_shown = |route: &&Arc<Route>| permitted.iter().any(|permitted| permitted.has(route));
        Some(self.routes.all().iter().filter(is_shown).map(|route| route.upstream).collect())
    }

    /// Decides about a call of an item.
    pub(crate) fn decide(&self, caller: &Caller, route: &Route, call: CallContent<'_>) -> Decision<'_> {
        let rules = self.linked.rules.as_ref();
        rules.map_or(Decision::Allowed(None), |rules| {
            let (client, values) = ((&*caller.identity, &*caller.session), RequestValues::default());
            rules.decide(&self.access_request(client, route, Some(call), values))
        })
    }

    /// Like [`Self::shows`], for an item by its route of an older plan. `upstream` is the index of its upstream in this one.
    pub(crate) fn shows_at(&self, client: (&Identity, &str), route: &Route, upstream: usize) -> bool {
        let rules = self.linked.rules.as_ref();
        rules.is_none_or(|rules| rules.list(&self.access_request_at(client, route, upstream, None)))
    }

    /// Like [`Self::decide`], for an item by its route of an older plan. `upstream` is the index of its upstream in this one.
    pub(crate) fn decide_at(
        &self,
        client: (&Identity, &str),
        route: &Route,
        upstream: usize,
        call: CallContent<'_>,
    ) -> Decision<'_> {
        let rules = self.linked.rules.as_ref();
        rules.map_or(Decision::Allowed(None), |rules| {
            rules.decide(&self.access_request_at(client, route, upstream, Some(call)))
        })
    }

    fn access_request<'a>(
        &'a self,
        client: (&'a Identity, &'a str),
        route: &'a Route,
        call: Option<CallContent<'a>>,
        values: RequestValues,
    ) -> AccessRequest<'a> {
        AccessRequest { values, ..self.access_request_at(client, route, route.upstream, call) }
    }

    fn access_request_at<'a>(
        &'a self,
        (identity, session): (&'a Identity, &'a str),
        route: &'a Route,
        upstream: usize,
        call: Option<CallContent<'a>>,
    ) -> AccessRequest<'a> {
        let upstream = &self.linked.upstreams[upstream].target.plan;
        AccessRequest {
            identity,
            session,
            item: &route.item,
            names: ItemNames::of(route, upstream),
            upstream: &upstream.key,
            labels: &upstream.labels,
            method: route.item.kind.used_by(),
            call,
            values: RequestValues::default(),
        }
    }
}
