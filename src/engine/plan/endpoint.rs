//! Finds items by name, and definitions, for the clients of an endpoint.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::own_tools::OwnTool;
use super::snapshot::{Found, Lookup, Snapshot};
use crate::config::nearest::nearest;
use crate::domain::apps;
use crate::domain::item::{ItemKind, MAX_URI};
use crate::domain::route::Route;

/// The name of an item, as a client has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemName<'a> {
    /// The endpoint that received the name.
    pub(crate) endpoint: Endpoint<'a>,
    /// The kind of the item.
    pub(crate) kind: ItemKind,
    /// The name, or the URI of a resource.
    pub(crate) name: &'a str,
}

impl ItemName<'_> {
    /// Returns what the snapshot knows about the item; see [`Endpoint::find`].
    pub(in crate::engine) fn find(&self, snapshot: &Snapshot) -> Lookup {
        self.endpoint.find(snapshot, self.kind, self.name)
    }
}

/// The endpoint that a client connected to.
#[derive(Clone, Copy, Debug)]
pub enum Endpoint<'a> {
    /// The endpoint for all upstreams.
    All,
    /// The endpoint of the upstream with this name, where tools have the server's own names.
    One(&'a str),
}

impl Endpoint<'_> {
    /// Returns the item of this kind with this name, with the data that requests of it need. A resource that no list
    /// names belongs to the upstream of the endpoint, or to the only one that has a template for it. The URI of an app names
    /// its upstream.
    pub(in crate::engine) fn find(&self, snapshot: &Snapshot, kind: ItemKind, name: &str) -> Lookup {
        let (listed, upstream) = match self {
            Self::All => match apps::own_uri(name).filter(|_| kind == ItemKind::Resource) {
                Some((upstream, own)) => return Endpoint::One(upstream).find(snapshot, kind, &own),
                None => (snapshot.routes.public(kind, name), None),
            },
            Self::One(upstream) => {
                let Some(upstream) = snapshot.upstream(upstream) else { return Lookup::Unknown };
                (snapshot.routes.own(upstream, kind, name), Some(upstream))
            }
        };
        if let Some(route) = listed {
            let (route, item) = (Arc::clone(route), Arc::clone(&snapshot.items[route.index]));
            return Lookup::Found(Found { route, item, is_listed: true });
        }
        match upstream {
            _ if kind != ItemKind::Resource || name.len() > MAX_URI => Lookup::Unknown,
            Some(upstream) => snapshot.unlisted(upstream, name),
            None => snapshot.fitting(name),
        }
    }

    /// Returns the index of the endpoint's upstream; `None` for all of them. An upstream that the plan does not have has the
    /// index after the last one.
    pub(in crate::engine) fn upstream(&self, snapshot: &Snapshot) -> Option<usize> {
        match self {
            Self::All => None,
            Self::One(name) => Some(snapshot.upstream(name).unwrap_or(snapshot.linked.upstreams.len())),
        }
    }

    /// Whether the list of this kind has the gateway's own tools instead of those of the upstreams.
    pub(in crate::engine) fn lists_own_tools(&self, snapshot: &Snapshot, kind: ItemKind) -> bool {
        matches!((self, kind), (Self::All, ItemKind::Tool)) && snapshot.finds_tools()
    }

    /// Returns the end of a message about an unknown item: the most similar name of those that clients can list here.
    pub(in crate::engine) fn did_you_mean(&self, snapshot: &Snapshot, kind: ItemKind, name: &str) -> String {
        let upstream = self.upstream(snapshot);
        // URIs are similar to each other without being meant for each other.
        let is_meant = |route: &&Arc<Route>| route.item.kind == kind && kind.has_name();
        let listed = |route: &&Arc<Route>| is_meant(route) && snapshot.lists(route);
        let names = snapshot.routes.all().iter().filter(listed).filter_map(|route| match upstream {
            None => route.public.as_deref(),
            Some(index) => (route.upstream == index).then_some(&*route.own),
        });
        nearest(name, names).map(|near| format!("; did you mean {near}?")).unwrap_or_default()
    }

    /// Returns the definitions of the items of this kind that are shown, as clients see them.
    pub(in crate::engine) fn definitions<'s>(
        &self,
        snapshot: &'s Snapshot,
        kind: ItemKind,
        is_shown: impl Fn(&Route) -> bool,
    ) -> Vec<&'s RawValue> {
        let of_kind = snapshot.routes.all().iter().filter(|route| route.item.kind == kind);
        let of_kind = of_kind.filter(|route| is_shown(route));
        let all = of_kind.filter(|route| snapshot.lists(route));
        match self.upstream(snapshot) {
            None if self.lists_own_tools(snapshot, kind) => OwnTool::definitions().into(),
            None => all.filter_map(|route| route.public_definition.as_deref()).collect(),
            Some(index) => all.filter(|route| route.upstream == index).map(|route| &*route.own_definition).collect(),
        }
    }
}
