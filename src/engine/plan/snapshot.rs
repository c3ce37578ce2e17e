//! Snapshots. Each is a linked plan with the routes that result from the tool lists of one moment.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::changed_tools::misfits;
use super::link::{Linked, LinkedChain, LinkedEntry};
use super::list_problems::list_problems;
use super::schema::Arguments;
use super::templates::{Fit, Templates};
use crate::config::compile::implicit;
use crate::config::input::Inputs;
use crate::domain::digest::revision;
use crate::domain::item::{Item, ItemKind};
use crate::domain::mirror::{Mirrored, marks};
use crate::domain::plan::{FORMAT_VERSION, Plan, Refusal};
use crate::domain::plugin::{Phase, Role};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::route::{Offer, Route, Routes};
use crate::engine::state::EngineState;
use crate::engine::upstreams::pinning::withheld;

/// The immutable state that a call runs on: a linked plan and the tool lists of one moment.
pub struct Snapshot {
    pub(crate) linked: Arc<Linked>,
    pub(crate) routes: Routes,
    /// The items, indexed by [`Route::index`].
    pub(crate) items: Vec<Arc<LinkedItem>>,
    /// The templates of resources that the upstreams list.
    pub(crate) templates: Templates,
    /// Problems with the plan, with linking it, and with the tool lists.
    pub(crate) problems: Vec<Problem>,
    /// Digests of the items of each kind as clients see them. Cursors contain them.
    pub(crate) list_revisions: ListRevisions,
    /// Problems with the plan and with linking it, kept for building the next snapshot.
    plan_problems: Vec<Problem>,
}

/// The data that requests which use one item need in addition to its route.
pub(crate) struct LinkedItem {
    pub(crate) arguments: Arc<Arguments>,
    /// The check of what is sent, if the tool's override changes arguments. `arguments` is then the check of what
    /// clients give.
    pub(crate) sent: Option<Arc<Arguments>>,
    /// Arguments that clients of the modern era repeat in headers. Empty if an `x-mcp-header` mark is not valid,
    /// because clients ignore such tools.
    pub(crate) mirrored: Arc<[Mirrored]>,
    pub(crate) request: Vec<Selected>,
    pub(crate) response: Vec<Selected>,
}

/// What a snapshot knows about the item that a request names.
pub(crate) enum Lookup {
    /// The item is known, or may be there.
    Found(Found),
    /// The templates of these two upstreams, at least, fit the URI.
    Ambiguous(usize, usize),
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

/// A chain that selects the tool.
pub(crate) struct Selected {
    pub(crate) chain: Arc<LinkedChain>,
    /// For each entry, whether the filter of its plugin admits the tool.
    pub(crate) filter_admits: Vec<bool>,
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
            code: Default::default(),
        };
        let linked = Linked::empty(plan);
        Self {
            linked: Arc::new(linked),
            routes: Routes::default(),
            items: Vec::new(),
            templates: Templates::default(),
            problems: Vec::new(),
            list_revisions: ListRevisions::default(),
            plan_problems: Vec::new(),
        }
    }

    /// Builds a snapshot of `linked` with the current tool lists.
    pub(crate) fn build(
        linked: Arc<Linked>,
        plan_problems: Vec<Problem>,
        state: &EngineState,
        previous: &Self,
    ) -> Self {
        let lists: Vec<_> = linked.upstreams.iter().map(|u| state.catalogue(&u.target.plan.key)).collect();
        let (seen, none) = (Arc::clone(&state.seen.borrow()), BTreeSet::new());
        let offers: Vec<Offer<'_>> = linked
            .upstreams
            .iter()
            .zip(&lists)
            .map(|(upstream, list)| {
                let plan = &upstream.target.plan;
                let withheld = withheld(plan, list.as_deref(), &state.upstream(&plan.key).first_seen);
                let hidden = |name: &str| plan.overrides.iter().any(|o| o.hidden && o.name == name);
                let offered = |name: &str| {
                    plan.enabled
                        && upstream.include.admits(name)
                        && !upstream.exclude.names(name)
                        && !hidden(name)
                        && !withheld.contains_key(name)
                };
                let is_offered =
                    |item: &&Item| if item.kind == ItemKind::Tool { offered(&item.name) } else { plan.enabled };
                let items = list.iter().flat_map(|list| list.items()).filter(is_offered).collect();
                let ever_seen = seen.of(&plan.key).unwrap_or(&none);
                Offer { upstream: &plan.key.name, items, overrides: &plan.overrides, ever_seen }
            })
            .collect();
        let routes = Routes::build(linked.plan.gateway.prefix, &offers);
        drop(offers);
        let items = link_items(&linked, &routes, previous);
        let list_revisions = ListRevisions(ItemKind::ALL.map(|kind| {
            let routes = routes.all().iter().filter(|route| route.item.kind == kind);
            revision(&routes.map(|r| (&r.public, &r.own, r.own_definition.get())).collect::<Vec<_>>())
        }));
        let templates = Templates::of(routes.all(), &previous.templates);
        let mut problems = plan_problems.clone();
        problems.extend(list_problems(&linked, &lists, &seen, &routes, &templates, state));
        problems.extend(misfits(&linked, &routes, |route| items[route.index].sent.as_deref()));
        Self { linked, routes, items, templates, problems, list_revisions, plan_problems }
    }

    /// The digests of the lists.
    pub fn list_revisions(&self) -> &ListRevisions {
        &self.list_revisions
    }

    /// Rebuilds the snapshot with the current tool lists.
    pub(crate) fn relist(&self, state: &EngineState) -> Self {
        Self::build(Arc::clone(&self.linked), self.plan_problems.clone(), state, self)
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
    /// disabled, or if the URI is not valid.
    pub(crate) fn unlisted(&self, upstream: usize, uri: &str) -> Lookup {
        let is_enabled = self.linked.upstreams.get(upstream).is_some_and(|upstream| upstream.target.plan.enabled);
        let Some(route) = Route::unlisted(upstream, uri).filter(|_| is_enabled) else { return Lookup::Unknown };
        let item = Arc::new(LinkedItem::new(&self.linked, &route, self));
        Lookup::Found(Found { route: Arc::new(route), item, is_listed: false })
    }

    /// Returns the index of the upstream with this name.
    pub(crate) fn upstream(&self, name: &str) -> Option<usize> {
        self.linked.upstreams.iter().position(|u| u.target.plan.key.name == name)
    }
}

/// Digests of the lists of a snapshot, in the order of [`ItemKind::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRevisions([String; ItemKind::ALL.len()]);

impl ListRevisions {
    /// Returns the digest of the list of this kind.
    pub(crate) fn of(&self, kind: ItemKind) -> &str {
        &self.0[kind as usize]
    }
}

impl Selected {
    /// Whether a Guard in the chain acts on calls of the tool.
    pub(crate) fn guards(&self) -> bool {
        let mut filter_admits =
            self.chain.entries.iter().zip(&self.filter_admits).filter(|(_, filter_admits)| **filter_admits);
        filter_admits.any(|(entry, _)| entry.enforces() && entry.rules.role == Role::Guard)
    }
}

impl LinkedItem {
    /// Whether a Guard acts on the tool's response.
    pub(crate) fn guards_response(&self) -> bool {
        self.response.iter().any(Selected::guards)
    }

    /// Whether a `when` in the item's response chains refers to the arguments that were sent.
    pub(crate) fn recalls_arguments(&self) -> bool {
        let mut entries = self.response.iter().flat_map(|selected| &selected.chain.entries);
        entries.any(|entry| entry.when.as_ref().is_some_and(|when| when.uses().arguments))
    }

    /// Whether anything inspects the content of requests that use the item: a chain of either phase, the schema check,
    /// or the comparison with the headers that repeat arguments.
    pub(crate) fn reads_arguments(&self) -> bool {
        let is_guarded = !self.request.is_empty() || !self.response.is_empty();
        is_guarded || self.arguments.are_checked() || self.sent.is_some() || !self.mirrored.is_empty()
    }

    fn new(linked: &Linked, route: &Route, previous: &Snapshot) -> Self {
        let upstream = &linked.upstreams[route.upstream].target.plan;
        let select = |phase: Phase| {
            let chains = linked.chains.iter().filter(|chain| chain.plan.phase == phase);
            chains
                .filter(|chain| chain.selects(upstream, route.item.kind, &route.item.name))
                .map(|chain| {
                    let name = &route.item.name;
                    let admits = |entry: &Arc<LinkedEntry>| entry.admits(&upstream.key.name, route.item.kind, name);
                    Selected { filter_admits: chain.entries.iter().map(admits).collect(), chain: Arc::clone(chain) }
                })
                .collect()
        };
        let old = route.public.as_deref().and_then(|name| previous.routes.public(route.item.kind, name));
        let old = old.map(|old| &previous.items[old.index]);
        let enforced = upstream.validate_arguments;
        let check = |schema, old| Arguments::reuse_or_compile(schema, enforced, old);
        let marked = route.item.input_schema.as_deref().and_then(|schema| marks(schema).ok());
        Self {
            mirrored: marked.unwrap_or_default().into(),
            arguments: check(route.item.input_schema.as_ref(), old.map(|old| &old.arguments)),
            sent: route.listed_schema.as_ref().map(|it| check(Some(it), old.and_then(|old| old.sent.as_ref()))),
            request: select(Phase::Request),
            response: select(Phase::Response),
        }
    }
}

/// Links the item of each route. Chains select all prompts of an upstream or none, and all its resources, so what is linked
/// for one is shared by the others.
fn link_items(linked: &Linked, routes: &Routes, previous: &Snapshot) -> Vec<Arc<LinkedItem>> {
    let mut shared: HashMap<(usize, ItemKind), Arc<LinkedItem>> = HashMap::new();
    let link = |route: &Arc<Route>| {
        let new = || Arc::new(LinkedItem::new(linked, route, previous));
        if route.item.kind == ItemKind::Tool {
            return new();
        }
        Arc::clone(shared.entry((route.upstream, route.item.kind)).or_insert_with(new))
    };
    routes.all().iter().map(link).collect()
}
