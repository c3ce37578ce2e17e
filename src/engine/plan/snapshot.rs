//! Snapshots. Each is a linked plan with the routes that result from the tool lists of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::link::{Linked, LinkedChain, LinkedEntry, LinkedUpstream};
use super::schema::Arguments;
use super::templates::Templates;
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
    /// Arguments that clients of the modern era repeat in headers. Empty if an `x-mcp-header` mark is not valid,
    /// because clients ignore such tools.
    pub(crate) mirrored: Arc<[Mirrored]>,
    pub(crate) request: Vec<Selected>,
    pub(crate) response: Vec<Selected>,
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

/// The maximum number of items of one kind and upstream without a public name that problems name.
const MAX_UNNAMED: usize = 20;

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
        let items = routes.all().iter().map(|route| Arc::new(LinkedItem::new(&linked, route, previous))).collect();
        let mut problems = plan_problems.clone();
        problems.extend(unnamed(&linked, &routes));
        problems.extend(no_room_for_names(&linked, &lists, &seen));
        problems.extend(unknown_overrides(&linked, &lists, &seen));
        problems.extend(left_out(&linked, &lists));
        let list_revisions = ListRevisions(ItemKind::ALL.map(|kind| {
            let routes = routes.all().iter().filter(|route| route.item.kind == kind);
            revision(&routes.map(|r| (&r.public, &r.own, r.own_definition.get())).collect::<Vec<_>>())
        }));
        let templates = Templates::of(routes.all(), &previous.templates);
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

    /// Returns a resource of the upstream with this index that its list does not name; `None` if the upstream is
    /// disabled, or the URI is not valid.
    pub(crate) fn unlisted(&self, upstream: usize, uri: &str) -> Option<Found> {
        let is_enabled = self.linked.upstreams.get(upstream)?.target.plan.enabled;
        let route = Arc::new(Route::unlisted(upstream, uri).filter(|_| is_enabled)?);
        let item = Arc::new(LinkedItem::new(&self.linked, &route, self));
        Some(Found { route, item, is_listed: false })
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

    /// Returns the kinds of items whose lists differ from those of `other`.
    pub fn changed_since(&self, other: &Self) -> impl Iterator<Item = ItemKind> {
        ItemKind::ALL.into_iter().filter(move |kind| self.of(*kind) != other.of(*kind))
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

    /// Whether anything inspects the content of requests that use the item: a chain of either phase, the schema check,
    /// or the comparison with the headers that repeat arguments.
    pub(crate) fn reads_arguments(&self) -> bool {
        let is_guarded = !self.request.is_empty() || !self.response.is_empty();
        is_guarded || self.arguments.are_checked() || !self.mirrored.is_empty()
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
        let old = old.map(|old| &previous.items[old.index].arguments);
        let marked = route.item.input_schema.as_deref().and_then(|schema| marks(schema).ok());
        Self {
            mirrored: marked.unwrap_or_default().into(),
            arguments: Arguments::reuse_or_compile(route, upstream.validate_arguments, old),
            request: select(Phase::Request),
            response: select(Phase::Response),
        }
    }
}

/// Returns a problem for each tool and prompt without a public name, of each upstream the first twenty, and a warning for
/// each kind of an upstream's items whose URIs other upstreams have too.
fn unnamed(linked: &Linked, routes: &Routes) -> Vec<Problem> {
    let object = |upstream: usize| ObjectId::new(Kind::MCPUpstream, linked.upstreams[upstream].target.plan.key.clone());
    let mut counted: BTreeMap<(usize, ItemKind), usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for unnamed in &routes.unnamed {
        let count = counted.entry((unnamed.upstream, unnamed.kind)).or_default();
        *count += 1;
        if unnamed.kind.has_name() && *count <= MAX_UNNAMED {
            let message = format!("{} {}: {}", unnamed.kind, unnamed.name, unnamed.message);
            let field = if unnamed.kind == ItemKind::Tool { "spec.tools.overrides" } else { "" };
            problems.push(Problem::error(Reason::ToolNameConflict, object(unnamed.upstream), field, message));
        }
    }
    for ((upstream, kind), count) in counted {
        let name = &linked.upstreams[upstream].target.plan.key.name;
        let message = match kind.has_name() {
            true if count > MAX_UNNAMED => format!("{} more {kind}s have no name of their own", count - MAX_UNNAMED),
            true => continue,
            false => format!(
                "{count} of its {kind}s have URIs that an upstream before it has too: they are read at /{name}/mcp"
            ),
        };
        problems.push(Problem::warning(Reason::ToolNameConflict, object(upstream), "", message));
    }
    problems
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

fn unknown_overrides(linked: &Linked, lists: &[Option<Arc<Catalogue>>], seen: &SeenNames) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (upstream, list) in linked.upstreams.iter().zip(lists) {
        let (plan, Some(list)) = (&upstream.target.plan, list) else { continue };
        if list.tools().next().is_none() {
            continue;
        }
        for (index, change) in plan.overrides.iter().enumerate() {
            let had = seen.of(&plan.key).is_some_and(|seen| seen.contains(&change.name));
            if !had && !list.tools().any(|(tool, _)| tool.name == change.name) {
                let object = ObjectId::new(Kind::MCPUpstream, plan.key.clone());
                let message = format!("the server has no tool {:?}: the override has no effect", change.name);
                problems.push(Problem::warning(
                    Reason::ToolNotFound,
                    object,
                    format!("spec.tools.overrides[{index}].name"),
                    message,
                ));
            }
        }
    }
    problems
}
