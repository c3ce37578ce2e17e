//! Snapshots. Each is a linked plan with the routes that result from the tool lists of one moment.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::changed_tools::{misfits, unsendable};
use super::derived_annotations::annotate;
use super::link::{Linked, LinkedUpstream};
use super::linked_item::{LinkedItem, Selected, select};
use super::list_filters::{ListFiltering, ListFilters};
use super::list_problems::list_problems;
use super::listener_certificates::ListenerCertificates;
use super::pages::SerializedLists;
use super::permitted_sets::PermittedSets;
use super::schema::Room;
use super::templates::{Fit, Templates};
use super::withheld::Withheld;
use crate::config::compile::implicit;
use crate::config::input::Inputs;
use crate::domain::changed_tool::{changed, without_output_schema};
use crate::domain::digest::revision;
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind};
use crate::domain::method::Method;
use crate::domain::plan::{FORMAT_VERSION, GatewayPlan, Plan, Refusal, UpstreamPlan};
use crate::domain::plugin::Phase;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::route::{Naming, Offer, Route, Routes};
use crate::domain::seen::SeenNames;
use crate::domain::tool_name::OWN_TOOLS;
use crate::engine::catalogue::Catalogues;
use crate::engine::catalogue::pinning::withheld;
use crate::engine::catalogue::upstream_state::Catalogue;

/// The immutable state that a call runs on: a linked plan and the tool lists of one moment.
pub struct Snapshot {
    pub(crate) linked: Arc<Linked>,
    pub(crate) routes: Routes,
    /// The items, indexed by [`Route::index`].
    pub(crate) items: Vec<Arc<LinkedItem>>,
    /// The tools whose calls are never sent, by [`Route::index`]. They are in no list, and a call of one says why.
    pub(crate) unsendable: BTreeSet<usize>,
    /// The tools that only pipelines can use, by [`Route::index`].
    pub(crate) for_pipelines: BTreeSet<usize>,
    /// The templates of resources that the upstreams list.
    pub(crate) templates: Templates,
    /// What chains over lists keep from clients, and what they have not seen yet.
    pub(crate) filters: ListFilters,
    /// Problems with the plan, with linking it, and with the tool lists.
    pub(crate) problems: Vec<Problem>,
    /// The lists that were asked for, as clients get them.
    pub(crate) serialized: SerializedLists,
    /// What clients may see, as far as they have asked for it.
    pub(crate) permitted: PermittedSets,
    /// Digests of the items of each kind as clients see them. Cursors contain them.
    pub(crate) list_revisions: ListRevisions,
    /// Problems with the plan and with linking it, kept for building the next snapshot.
    plan_problems: Vec<Problem>,
}

/// What a snapshot knows about the item that a request names.
pub(crate) enum Lookup {
    /// The item is known, or may be there.
    Found(Found),
    /// The templates of these two upstreams, at least, fit the URI.
    Ambiguous(usize, usize),
    /// The list of resources of this upstream is unread, which a chain that must run covers; see [`ListFilters::closed`].
    Undecided(usize),
    /// No upstream has the item.
    Unknown,
}

/// An item that a request uses, and the data that the request needs.
pub(crate) struct Found {
    pub(crate) route: Arc<Route>,
    pub(crate) item: Arc<LinkedItem>,
    /// Whether an upstream's list names the item. Otherwise it is a resource that an upstream may have.
    pub(crate) is_listed: bool,
}

impl Snapshot {
    /// Creates the snapshot before the first plan: it has no upstreams and refuses every call.
    pub(crate) fn empty() -> Self {
        let mut gateway = implicit(&Inputs::default());
        let message = "the gateway has no plan yet".to_owned();
        gateway.refusing = Some(Refusal { reason: Reason::NotLoaded, message });
        let plan = Plan {
            format_version: FORMAT_VERSION,
            revision: String::new(),
            requires: Vec::new(),
            restrictions: String::new(),
            gateway,
            takes: None,
            upstreams: Vec::new(),
            plugins: Vec::new(),
            chains: Vec::new(),
            sections: Vec::new(),
            code: Default::default(),
        };
        let linked = Linked::empty(plan);
        Self {
            linked: Arc::new(linked),
            routes: Routes::default(),
            items: Vec::new(),
            unsendable: BTreeSet::new(),
            for_pipelines: BTreeSet::new(),
            templates: Templates::default(),
            filters: ListFilters::default(),
            problems: Vec::new(),
            serialized: SerializedLists::default(),
            permitted: PermittedSets::default(),
            list_revisions: ListRevisions::default(),
            plan_problems: Vec::new(),
        }
    }

    /// Builds a snapshot of `linked` with the current tool lists.
    pub(crate) fn build(linked: Arc<Linked>, plan_problems: Vec<Problem>, state: &Catalogues, previous: &Self) -> Self {
        let lists: Vec<_> = linked.upstreams.iter().map(|u| state.catalogue(&u.target.plan.key)).collect();
        let seen = Arc::clone(&state.seen.borrow());
        let listed = lists.iter().map(|list| list.iter().flat_map(|list| list.items()).count()).collect();
        let mut filtering = ListFiltering::new(&linked, &state.filtered, listed);
        let mut offers = offers(&linked, &lists, state, &mut filtering, &seen);
        let gateway = &linked.plan.gateway;
        let naming = Naming { prefix: gateway.prefix, max_length: gateway.max_name_length };
        let mut routes = Routes::build(naming, reserved_names(&linked), &offers);
        if annotate(&linked, &lists, &routes, &mut offers) {
            routes = Routes::build(naming, reserved_names(&linked), &offers);
        }
        drop(offers);
        let filters = filtering.finish();
        let items = link_items(&linked, &routes, previous);
        let sent = |route: &Route| items[route.index].sent.as_deref();
        let unsendable = unsendable(&linked, &routes, sent);
        let for_pipelines = for_pipelines(&linked, &routes);
        let templates =
            Templates::of(routes.all(), |upstream| !filters.closed.contains_key(&upstream), &previous.templates);
        let mut problems = plan_problems.clone();
        problems.extend(list_problems(&linked, &lists, &seen, &filters, &routes, &templates, state));
        problems.extend(linked.finds_tools().then(|| state.tool_index.problems(linked.keys())).into_iter().flatten());
        problems.extend(misfits(&linked, &routes, sent));
        Self {
            list_revisions: ListRevisions::new(&routes, |index| {
                unsendable.contains(&index) || for_pipelines.contains(&index)
            }),
            linked,
            routes,
            items,
            unsendable,
            for_pipelines,
            templates,
            filters,
            problems,
            serialized: SerializedLists::default(),
            permitted: PermittedSets::default(),
            plan_problems,
        }
    }

    /// Whether clients find the tools of upstreams by a search, instead of seeing all of them.
    pub(crate) fn finds_tools(&self) -> bool {
        self.linked.finds_tools()
    }

    /// The digests of the lists.
    pub fn list_revisions(&self) -> &ListRevisions {
        &self.list_revisions
    }

    /// Rebuilds the snapshot with the current tool lists.
    pub(crate) fn relist(&self, state: &Catalogues) -> Self {
        Self::build(Arc::clone(&self.linked), self.plan_problems.clone(), state, self)
    }

    /// The certificates of the listeners.
    pub fn certificates(&self) -> &ListenerCertificates {
        &self.linked.certificates
    }

    /// Whether the gateway has rules, which read the identities of clients.
    pub fn has_rules(&self) -> bool {
        self.linked.rules.is_some()
    }

    /// The plan that this snapshot was built from.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.linked.plan
    }

    /// The problems with the plan, with linking it, and with the tool lists.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns the resource that no list names but a template fits.
    pub(crate) fn fitting(&self, uri: &str) -> Lookup {
        match self.templates.find(uri) {
            Fit::None => Lookup::Unknown,
            Fit::One(upstream) => self.unlisted(upstream, uri),
            Fit::Several(first, second) => Lookup::Ambiguous(first, second),
        }
    }

    /// Returns a resource of the upstream with this index that its list does not name. It is unknown if the upstream is
    /// disabled, if the URI is not valid, or if only URIs that passed chains are read, and undecided while these have not seen
    /// the list of resources.
    pub(crate) fn unlisted(&self, upstream: usize, uri: &str) -> Lookup {
        let is_enabled = self.linked.upstreams.get(upstream).is_some_and(|upstream| upstream.target.plan.enabled);
        let Some(route) = Route::unlisted(upstream, uri).filter(|_| is_enabled) else { return Lookup::Unknown };
        match self.filters.closed.get(&upstream) {
            Some(false) => return Lookup::Undecided(upstream),
            Some(true) => return Lookup::Unknown,
            None => {}
        }
        let item = Arc::new(LinkedItem::new(&self.linked, &route, None, &mut Room::default()));
        Lookup::Found(Found { route: Arc::new(route), item, is_listed: false })
    }

    /// Returns what was linked for the item with the public name of this route.
    fn linked_item(&self, route: &Route) -> Option<&LinkedItem> {
        let known = self.routes.public(route.item.kind, route.public.as_deref()?)?;
        Some(&self.items[known.index])
    }

    /// Returns the tool with this name at the server of this upstream; `None` if it is not offered.
    pub(crate) fn tool_of(&self, upstream: &str, tool: &str) -> Option<Found> {
        let upstream = self.upstream(upstream)?;
        let route = self.routes.tools().find(|route| route.upstream == upstream && route.item.name == tool)?;
        let (route, item) = (Arc::clone(route), Arc::clone(&self.items[route.index]));
        Some(Found { route, item, is_listed: true })
    }

    /// Whether chains wait for the first reading of this list of an upstream; see [`ListFilters::closed`].
    pub(crate) fn is_unread(&self, upstream: &ObjectKey, kind: ItemKind) -> bool {
        let is_of = |index: &usize| self.linked.upstreams[*index].target.plan.key == *upstream;
        kind == ItemKind::Resource && self.filters.closed.iter().any(|(index, was_read)| is_of(index) && !was_read)
    }

    /// Whether the item is in the lists of clients that may use it.
    pub(crate) fn lists(&self, route: &Route) -> bool {
        !self.unsendable.contains(&route.index) && !self.for_pipelines.contains(&route.index)
    }

    /// Returns what was found for a request. A tool that only pipelines can use is unknown to all others.
    pub(crate) fn usable(&self, found: Lookup, is_of_pipeline: bool) -> Lookup {
        match found {
            Lookup::Found(found) if !is_of_pipeline && self.for_pipelines.contains(&found.route.index) => {
                Lookup::Unknown
            }
            found => found,
        }
    }

    /// Returns the index of the upstream with this name.
    pub(crate) fn upstream(&self, name: &str) -> Option<usize> {
        self.linked.upstreams.iter().position(|u| u.target.plan.key.name == name)
    }

    /// Returns how long a server has to answer a request, apart from what overrides say of a tool.
    pub(crate) fn call_timeout(&self, plan: &UpstreamPlan) -> Duration {
        Duration::from_millis(u64::from(plan.call_timeout_ms.unwrap_or(self.plan().gateway.limits.call_timeout_ms)))
    }

    /// Returns the index of the upstream with the key and the kind of this one.
    pub(crate) fn upstream_of(&self, plan: &UpstreamPlan) -> Option<usize> {
        let is_it = |other: &UpstreamPlan| other.key == plan.key && other.kind() == plan.kind();
        self.linked.upstreams.iter().position(|upstream| is_it(&upstream.target.plan))
    }
}

/// Digests of the lists of a snapshot, in the order of [`ItemKind::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRevisions([String; ItemKind::ALL.len()]);

impl ListRevisions {
    fn new(routes: &Routes, is_left_out: impl Fn(usize) -> bool) -> Self {
        Self(ItemKind::ALL.map(|kind| {
            let of_kind = routes.all().iter().filter(|route| route.item.kind == kind);
            let routes = of_kind.filter(|route| !is_left_out(route.index));
            revision(&routes.map(|r| (&r.public, &r.own, r.own_definition.get())).collect::<Vec<_>>())
        }))
    }

    /// Returns the digest of the list of this kind.
    pub(crate) fn of(&self, kind: ItemKind) -> &str {
        &self.0[kind as usize]
    }
}

/// Returns what each upstream offers, with what its chains over lists make of it.
fn offers<'a>(
    linked: &'a Linked,
    lists: &'a [Option<Arc<Catalogue>>],
    state: &Catalogues,
    filtering: &mut ListFiltering<'a>,
    seen: &'a SeenNames,
) -> Vec<Offer<'a>> {
    static NONE: BTreeSet<String> = BTreeSet::new();
    let offer = |(index, (upstream, list)): (usize, (&'a LinkedUpstream, &'a Option<Arc<Catalogue>>))| {
        let plan = &upstream.target.plan;
        let listed = offered(&linked.plan.gateway, upstream, list.as_deref(), state);
        let (items, mut filtered) = filtering.pass_all(index, listed);
        for tool in items.iter().filter(|item| is_reshaped(linked, plan, item)) {
            let change = plan.overrides.iter().find(|change| change.name == tool.name);
            let overridden = || change.map_or_else(|| Item::clone(tool), |change| changed(tool, change));
            let key = (tool.kind, tool.name.as_str());
            let shown = filtered.remove(&key).unwrap_or_else(overridden);
            filtered.insert(key, without_output_schema(shown));
        }
        filtering.close(index, state.was_read(&plan.key, ItemKind::Resource));
        let ever_seen = seen.of(&plan.key).unwrap_or(&NONE);
        let keeps_names = plan.pipeline().is_some();
        Offer { upstream: &plan.key.name, keeps_names, items, overrides: &plan.overrides, filtered, ever_seen }
    };
    linked.upstreams.iter().zip(lists).enumerate().map(offer).collect()
}

/// Whether the item is a tool with an output schema, and an entry can change its results.
fn is_reshaped(linked: &Linked, plan: &UpstreamPlan, item: &Item) -> bool {
    item.kind == ItemKind::Tool
        && memchr::memmem::find(item.definition.get().as_bytes(), b"outputSchema").is_some()
        && select(linked, plan, (Method::CallTool, Phase::Response), item.kind, &item.name).iter().any(Selected::acts)
}

/// Returns the items of an upstream that its manifest and the gateway offer: those of tools that are neither left out nor hidden
/// nor withheld because they are not approved or not valid, and all others.
fn offered<'a>(
    gateway: &GatewayPlan,
    upstream: &LinkedUpstream,
    list: Option<&'a Catalogue>,
    state: &Catalogues,
) -> Vec<&'a Item> {
    let plan = &upstream.target.plan;
    let unapproved = withheld(plan, list, &state.upstream(&plan.key).first_seen);
    let is_offered = |item: &&Item| {
        let by_manifest = Withheld::by_manifest(upstream, item.kind, &item.name, &unapproved);
        by_manifest.or_else(|| Withheld::by_fault(gateway, item)).is_none()
    };
    list.into_iter().flat_map(Catalogue::items).filter(is_offered).collect()
}

/// Returns the indexes of the routes of the tools that only pipelines can use.
fn for_pipelines(linked: &Linked, routes: &Routes) -> BTreeSet<usize> {
    let is_for_pipelines = |route: &&Arc<Route>| {
        let plan = &linked.upstreams[route.upstream].target.plan;
        plan.is_for_pipelines(route.change.and_then(|index| plan.overrides.get(index)))
    };
    routes.tools().filter(is_for_pipelines).map(|route| route.index).collect()
}

/// Returns the names that no tool of an upstream gets.
fn reserved_names(linked: &Linked) -> &'static [&'static str] {
    if linked.finds_tools() { &OWN_TOOLS } else { &[] }
}

/// Links the item of each route. Chains select all prompts of an upstream or none, and all its resources, so what is linked
/// for one is shared by the others.
fn link_items(linked: &Linked, routes: &Routes, previous: &Snapshot) -> Vec<Arc<LinkedItem>> {
    let mut shared: HashMap<(usize, ItemKind), Arc<LinkedItem>> = HashMap::new();
    let mut rooms: HashMap<usize, Room> = HashMap::new();
    let link = |route: &Arc<Route>| {
        let room = rooms.entry(route.upstream).or_default();
        let mut new = || Arc::new(LinkedItem::new(linked, route, previous.linked_item(route), room));
        if route.item.kind == ItemKind::Tool {
            return new();
        }
        Arc::clone(shared.entry((route.upstream, route.item.kind)).or_insert_with(new))
    };
    routes.all().iter().map(link).collect()
}
