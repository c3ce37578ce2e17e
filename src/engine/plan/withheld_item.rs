//! Items that servers list and clients do not get, as they are asked for by their names.

use super::endpoint::{Endpoint, ItemName};
use super::link::LinkedUpstream;
use super::list_filters::withheld_by_chains;
use super::snapshot::{Lookup, Snapshot};
use super::templates::begins_with_scheme;
use super::withheld::Withheld;
use crate::domain::apps;
use crate::domain::item::{Item, ItemKind, MAX_URI};
use crate::domain::plan::PrefixMode;
use crate::engine::catalogue::Catalogues;
use crate::engine::catalogue::pinning::withheld;

/// An item that clients do not get.
pub(crate) struct WithheldItem {
    /// The index of the upstream in the plan.
    pub(crate) upstream: usize,
    /// The server's own name for the item.
    pub(crate) name: String,
    pub(crate) why: Withheld,
}

impl Snapshot {
    /// Returns the pipeline whose tool has this name, if it refuses its calls. Its tool is in no list if its definition is not valid.
    pub(crate) fn refusing_pipeline(&self, item: ItemName<'_>) -> Option<&LinkedUpstream> {
        // With rules, it is not known whether the client may learn of it.
        let may_say =
            item.kind == ItemKind::Tool && matches!(item.endpoint, Endpoint::All) && self.linked.rules.is_none();
        let mut refusing = self.linked.upstreams.iter().filter(|upstream| may_say && upstream.refusing.is_some());
        refusing.find(|upstream| {
            let plan = &upstream.target.plan;
            plan.enabled && plan.pipeline().is_some_and(|pipeline| pipeline.tool_name() == item.name)
        })
    }

    /// Returns the item that would have this name on the endpoint if it was not withheld, and why it is. An item that an
    /// override renames is found by both names. A resource that no list names counts as withheld if the name means an upstream
    /// whose lists chains must see.
    pub(crate) fn withheld(
        &self,
        state: &Catalogues,
        endpoint: &Endpoint<'_>,
        kind: ItemKind,
        name: &str,
    ) -> Option<WithheldItem> {
        if let Lookup::Undecided(upstream) = endpoint.find(self, kind, name) {
            return Some(WithheldItem { upstream, name: name.to_owned(), why: Withheld::Undecided });
        }
        let candidates = self.upstreams_of(endpoint, kind, name);
        let listed = candidates.iter().find_map(|(upstream, own)| self.withheld_of(state, *upstream, kind, own));
        listed.or_else(|| match candidates.as_slice() {
            // A name with its upstream in front, as `explain` takes it, is no URI.
            [(upstream, own)]
                if kind == ItemKind::Resource
                    && begins_with_scheme(own)
                    && self.filters.closed.contains_key(upstream) =>
            {
                Some(WithheldItem { upstream: *upstream, name: own.clone(), why: Withheld::Unlisted })
            }
            _ => None,
        })
    }

    /// Returns the item of a disabled upstream that this name means by itself, where the server's list was never read, so that
    /// it is not known whether the server has it.
    pub(crate) fn of_disabled(
        &self,
        state: &Catalogues,
        endpoint: &Endpoint<'_>,
        kind: ItemKind,
        name: &str,
    ) -> Option<WithheldItem> {
        let candidates = self.upstreams_of(endpoint, kind, name).into_iter();
        let mut named = candidates.filter(|(_, own)| own != name || matches!(endpoint, Endpoint::One(_)));
        named.find_map(|(upstream, name)| {
            let plan = &self.linked.upstreams.get(upstream)?.target.plan;
            let is_unread = !plan.enabled && state.catalogue(&plan.key).is_none();
            is_unread.then(|| WithheldItem { upstream, name, why: Withheld::Disabled(plan.key.clone()) })
        })
    }

    /// Returns the upstreams that can have an item with this name, each with the name on its own endpoint.
    /// None has one whose name is longer than a URI may be.
    fn upstreams_of(&self, endpoint: &Endpoint<'_>, kind: ItemKind, name: &str) -> Vec<(usize, String)> {
        if name.len() > MAX_URI {
            return Vec::new();
        }
        if let Endpoint::One(upstream) = endpoint {
            return self.upstream(upstream).map(|index| (index, name.to_owned())).into_iter().collect();
        }
        if let Some((upstream, own)) = apps::own_uri(name).filter(|_| kind == ItemKind::Resource) {
            return self.upstream(upstream).map(|index| (index, own.clone())).into_iter().collect();
        }
        let any = !kind.has_name() || self.plan().gateway.prefix != PrefixMode::Always;
        let of_one = |(index, upstream): (usize, &LinkedUpstream)| {
            let prefix = name.strip_prefix(&*upstream.target.plan.key.name).filter(|_| kind.has_name());
            let own = prefix.and_then(|rest| rest.strip_prefix("__")).or(any.then_some(name))?;
            Some((index, own.to_owned()))
        };
        self.linked.upstreams.iter().enumerate().filter_map(of_one).collect()
    }

    fn withheld_of(&self, state: &Catalogues, upstream: usize, kind: ItemKind, own: &str) -> Option<WithheldItem> {
        let linked = self.linked.upstreams.get(upstream)?;
        let plan = &linked.target.plan;
        let list = state.catalogue(&plan.key)?;
        let renamed = plan.overrides.iter().find(|change| change.rename.as_deref() == Some(own));
        let renamed = renamed.filter(|_| kind == ItemKind::Tool).map(|change| &*change.name);
        let is_named = |item: &&Item| item.kind == kind && (item.name == own || Some(&*item.name) == renamed);
        let item = list.items().find(is_named)?;
        let first_seen = state.upstream(&plan.key).first_seen;
        let unapproved = withheld(plan, Some(&list), &first_seen);
        let by_manifest = Withheld::by_manifest(linked, kind, &item.name, &unapproved);
        let by_gateway = by_manifest.or_else(|| Withheld::by_fault(&self.plan().gateway, item));
        let why = by_gateway.or_else(|| withheld_by_chains(&self.linked, &state.filtered, upstream, item))?;
        Some(WithheldItem { upstream, name: item.name.clone(), why })
    }
}
