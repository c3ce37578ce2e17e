//! Snapshots. Each is a linked plan with the routes that result from the tool lists of one moment.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::changed_tools::{misfits, unknown_overrides};
use super::link::{Linked, LinkedChain, LinkedEntry, LinkedUpstream};
use super::schema::Arguments;
use crate::config::compile::implicit;
use crate::config::input::Inputs;
use crate::domain::digest::revision;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::item::{Item, ItemKind};
use crate::domain::mirror::{Mirrored, marks};
use crate::domain::plan::{FORMAT_VERSION, Plan, PrefixMode, Refusal};
use crate::domain::plugin::{Phase, Role};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::route::{Offer, Route, Routes};
use crate::domain::seen::{MAX_BYTES, MAX_OF_NAMESPACE, MAX_OF_ONE, MAX_SEEN, SeenNames};
use crate::engine::state::EngineState;
use crate::engine::upstreams::state::Catalogue;

/// The immutable state that a call runs on: a linked plan and the tool lists of one moment.
pub struct Snapshot {
    pub(crate) linked: Arc<Linked>,
    pub(crate) routes: Routes,
    /// The items, indexed by [`Route::index`].
    pub(crate) items: Vec<LinkedItem>,
    /// Problems with the plan, with linking it, and with the tool lists.
    pub(crate) problems: Vec<Problem>,
    /// Digest of the items as clients see them. Cursors of lists contain it.
    pub(crate) list_revision: String,
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
            problems: Vec::new(),
            list_revision: String::new(),
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
                let hidden = |name: &str| plan.overrides.iter().any(|o| o.hidden && o.name == name);
                let offered = |name: &str| {
                    plan.enabled && upstream.include.admits(name) && !upstream.exclude.names(name) && !hidden(name)
                };
                let is_offered =
                    |item: &&Item| if item.kind == ItemKind::Tool { offered(&item.name) } else { plan.enabled };
                let items = list.iter().flat_map(|list| &list.items).filter(is_offered).collect();
                let ever_seen = seen.of(&plan.key).unwrap_or(&none);
                Offer { upstream: &plan.key.name, items, overrides: &plan.overrides, ever_seen }
            })
            .collect();
        let routes = Routes::build(linked.plan.gateway.prefix, &offers);
        drop(offers);
        let items: Vec<_> = routes.all().iter().map(|route| LinkedItem::new(&linked, route, previous)).collect();
        let mut problems = plan_problems.clone();
        problems.extend(unnamed(&linked, &routes));
        problems.extend(no_room_for_names(&linked, &lists, &seen));
        problems.extend(unknown_overrides(&linked, &lists, &seen));
        problems.extend(misfits(&linked, &routes, |route| items[route.index].sent.as_deref()));
        problems.extend(left_out(&linked, &lists));
        let listed: Vec<_> =
            routes.all().iter().map(|r| (r.item.kind, &r.public, &r.own, r.own_definition.get())).collect();
        let list_revision = revision(&listed);
        Self { linked, routes, items, problems, list_revision, plan_problems }
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

    /// Returns the index of the upstream with this name.
    pub(crate) fn upstream(&self, name: &str) -> Option<usize> {
        self.linked.upstreams.iter().position(|u| u.target.plan.key.name == name)
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

    /// Whether a `when` in the tool's response chains refers to the arguments that were sent.
    pub(crate) fn recalls_arguments(&self) -> bool {
        let mut entries = self.response.iter().flat_map(|selected| &selected.chain.entries);
        entries.any(|entry| entry.when.as_ref().is_some_and(|when| when.uses().arguments))
    }

    /// Whether anything inspects the arguments of the tool's calls: a chain of either phase, the schema check, or the
    /// comparison with the headers that repeat them.
    pub(crate) fn reads_arguments(&self) -> bool {
        let is_guarded = !self.request.is_empty() || !self.response.is_empty();
        is_guarded || self.arguments.are_checked() || self.sent.is_some() || !self.mirrored.is_empty()
    }

    fn new(linked: &Linked, route: &Route, previous: &Snapshot) -> Self {
        let upstream = &linked.upstreams[route.upstream].target.plan;
        let select = |phase: Phase| {
            let chains = linked.chains.iter().filter(|chain| chain.plan.phase == phase);
            chains
                .filter(|chain| chain.selects(route.item.kind.used_by(), upstream, &route.item.name))
                .map(|chain| {
                    let admits = |entry: &Arc<LinkedEntry>| entry.admits(&upstream.key.name, &route.item.name);
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

fn unnamed(linked: &Linked, routes: &Routes) -> Vec<Problem> {
    let problem = |unnamed: &crate::domain::route::Unnamed| {
        let object = ObjectId::new(Kind::MCPUpstream, linked.upstreams[unnamed.upstream].target.plan.key.clone());
        let message = format!("{} {}: {}", unnamed.kind, unnamed.name, unnamed.message);
        Problem::error(Reason::ToolNameConflict, object, "spec.tools.overrides", message)
    };
    routes.unnamed.iter().map(problem).collect()
}

/// Returns warnings about tools that are not offered: their server is at fault, not what is written about it.
fn left_out(linked: &Linked, lists: &[Option<Arc<Catalogue>>]) -> Vec<Problem> {
    let of_one = |(upstream, list): (&LinkedUpstream, &Option<Arc<Catalogue>>)| {
        let object = ObjectId::new(Kind::MCPUpstream, upstream.target.plan.key.clone());
        let said = list.iter().flat_map(|list| &list.left_out);
        said.map(|said| Problem::warning(Reason::InvalidTool, object.clone(), "", said)).collect::<Vec<_>>()
    };
    linked.upstreams.iter().zip(lists).flat_map(of_one).collect()
}

/// Warns about upstreams whose tools have a prefix because there is no room to store more tool names.
fn no_room_for_names(linked: &Linked, lists: &[Option<Arc<Catalogue>>], seen: &SeenNames) -> Vec<Problem> {
    if linked.plan.gateway.prefix != PrefixMode::OnConflict {
        return Vec::new();
    }
    let unseen = linked.upstreams.iter().zip(lists).filter_map(|(upstream, list)| {
        let key = &upstream.target.plan.key;
        let seen = |name: &str| seen.of(key).is_some_and(|seen| seen.contains(name));
        let count = list.iter().flat_map(|list| list.tools()).filter(|(tool, _)| !seen(&tool.name)).count();
        (count > 0).then(|| {
            let message = format!(
                "{count} of its tools always have the prefix {}__: as many names of tools were seen as are kept, which \
                 are {MAX_OF_ONE} of one upstream, {MAX_OF_NAMESPACE} of one namespace and {MAX_SEEN} of all, in {} KiB. \
                 Set prefix: Always",
                key.name,
                MAX_BYTES >> 10
            );
            Problem::warning(
                Reason::ToolNameConflict,
                ObjectId::new(Kind::MCPUpstream, key.clone()),
                "spec.tools",
                message,
            )
        })
    });
    unseen.collect()
}
