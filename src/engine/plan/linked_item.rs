//! What requests that use one item need in addition to its route: the checks of arguments, and the chains that select the
//! requests and what servers ask during them.

use std::sync::Arc;

use super::link::{Linked, LinkedChain, LinkedEntry};
use super::schema::{Arguments, Room};
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::mirror::{Mirrored, marks};
use crate::domain::plan::{Refusal, UpstreamPlan};
use crate::domain::plugin::{Phase, Role};
use crate::domain::route::Route;
use crate::domain::upstream::QuestionWatch;

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
    /// The chains over what the server asks for samples of the client's model.
    sampling: MethodChains,
    /// The chains over what the server asks the client's user.
    elicitation: MethodChains,
}

/// The chains that select one method, in both phases.
#[derive(Default)]
pub(crate) struct MethodChains {
    pub(crate) request: Vec<Selected>,
    pub(crate) response: Vec<Selected>,
}

/// A chain that selects the item.
pub(crate) struct Selected {
    pub(crate) chain: Arc<LinkedChain>,
    /// For each entry, whether the filter of its plugin admits the item.
    pub(crate) filter_admits: Vec<bool>,
}

impl Selected {
    /// Whether a Guard in the chain acts on the item.
    pub(crate) fn guards(&self) -> bool {
        self.acting().any(|entry| entry.enforces() && entry.rules.role == Role::Guard)
    }

    /// Whether an entry that [checks](LinkedEntry::checks) acts on the item.
    pub(crate) fn checks(&self) -> bool {
        self.acting().any(|entry| entry.checks())
    }

    /// Whether an entry acts on the item that can change or deny what passes.
    pub(crate) fn acts(&self) -> bool {
        self.acting().any(|entry| entry.enforces() && entry.rules.role != Role::Observe)
    }

    /// Whether an entry that [must run](LinkedEntry::must_run) acts on the item.
    pub(crate) fn must_run(&self) -> bool {
        self.acting().any(|entry| entry.must_run())
    }

    /// The entries whose plugins' filters admit the item.
    pub(crate) fn acting(&self) -> impl Iterator<Item = &Arc<LinkedEntry>> {
        self.chain.entries.iter().zip(&self.filter_admits).filter(|(_, admits)| **admits).map(|(entry, _)| entry)
    }
}

impl MethodChains {
    fn select(linked: &Linked, upstream: &UpstreamPlan, method: Method, kind: ItemKind, name: &str) -> Self {
        let of = |phase| select(linked, upstream, (method, phase), kind, name);
        Self { request: of(Phase::Request), response: of(Phase::Response) }
    }

    /// Whether no chain selects the method.
    pub(crate) fn is_empty(&self) -> bool {
        self.request.is_empty() && self.response.is_empty()
    }

    /// The first chain that refuses what it selects, and why.
    pub(crate) fn refusing(&self) -> Option<(&str, &Refusal)> {
        self.all().find_map(|selected| Some((&*selected.chain.name, selected.chain.plan.refusing.as_ref()?)))
    }

    /// The chains of both phases.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Selected> {
        self.request.iter().chain(&self.response)
    }
}

impl LinkedItem {
    /// Whether a Guard acts on the requests or on their responses.
    pub(crate) fn is_guarded(&self) -> bool {
        self.chains().any(Selected::guards)
    }

    /// Whether a chain refuses the requests, or an entry that [checks](LinkedEntry::checks) acts on them or their responses.
    pub(crate) fn is_checked(&self) -> bool {
        self.chains().any(|selected| selected.chain.plan.refusing.is_some() || selected.checks())
    }

    /// The chains over requests that use the item, and over their responses.
    pub(crate) fn chains(&self) -> impl Iterator<Item = &Selected> {
        self.request.iter().chain(&self.response)
    }

    /// The chains over questions of this method; `None` if chains do not cover the method.
    pub(crate) fn questions(&self, method: Method) -> Option<&MethodChains> {
        match method {
            Method::CreateMessage => Some(&self.sampling),
            Method::Elicit => Some(&self.elicitation),
            _ => None,
        }
    }

    /// Whether a question of the server and its answer would pass by what checks the call, unless they are checked too. A
    /// chain that sets `notifications: Pass` lets only notifications pass.
    pub(crate) fn checks_questions(&self) -> bool {
        self.request.iter().any(Selected::guards) || self.response.iter().any(Selected::checks)
    }

    /// Whether something checks the call, or what the server asks during it.
    pub(crate) fn checks_anything(&self) -> bool {
        self.checks_questions() || self.sampling.all().chain(self.elicitation.all()).any(Selected::checks)
    }

    /// Whether a chain covers questions of the server, or the call is checked.
    pub(crate) fn watches_questions(&self) -> bool {
        self.question_watch() != QuestionWatch::None
    }

    /// How closely chains look at questions of the server.
    pub(crate) fn question_watch(&self) -> QuestionWatch {
        if self.checks_questions() {
            QuestionWatch::Checked
        } else if self.sampling.is_empty() && self.elicitation.is_empty() {
            QuestionWatch::None
        } else {
            QuestionWatch::Watched
        }
    }

    /// Whether a `when` in the item's response chains refers to the arguments that were sent.
    pub(crate) fn recalls_arguments(&self) -> bool {
        let mut entries = self.response.iter().flat_map(|selected| &selected.chain.entries);
        entries.any(|entry| entry.when.as_ref().is_some_and(|when| when.reads_member("call", "arguments")))
    }

    /// Whether anything inspects the content of requests that use the item: a chain of either phase, the schema check,
    /// or the comparison with the headers that repeat arguments.
    pub(crate) fn reads_arguments(&self) -> bool {
        let is_guarded = !self.request.is_empty() || !self.response.is_empty();
        is_guarded || self.arguments.are_checked() || self.sent.is_some() || !self.mirrored.is_empty()
    }

    /// Links the item of a route. `old` is what the item was before, whose compiled schemas are used again. `room` is what
    /// schemas of the upstream may still have.
    pub(super) fn new(linked: &Linked, route: &Route, old: Option<&Self>, room: &mut Room) -> Self {
        let upstream = &linked.upstreams[route.upstream].target.plan;
        let (kind, name) = (route.item.kind, &*route.item.name);
        let select = |method| MethodChains::select(linked, upstream, method, kind, name);
        let validation = upstream.argument_validation;
        let mut check = |schema, old| Arguments::reuse_or_compile(schema, validation, old, room);
        let marked = route.item.input_schema.as_deref().and_then(|schema| marks(schema).ok());
        let MethodChains { request, response } = select(kind.used_by());
        Self {
            mirrored: marked.unwrap_or_default().into(),
            arguments: check(route.item.input_schema.as_ref(), old.map(|old| &old.arguments)),
            sent: route.listed_schema.as_ref().map(|it| check(Some(it), old.and_then(|old| old.sent.as_ref()))),
            request,
            response,
            sampling: select(Method::CreateMessage),
            elicitation: select(Method::Elicit),
        }
    }
}

/// Returns the chains of a phase that select this method of an item of an upstream.
pub(crate) fn select(
    linked: &Linked,
    upstream: &UpstreamPlan,
    (method, phase): (Method, Phase),
    kind: ItemKind,
    name: &str,
) -> Vec<Selected> {
    let chains = linked.chains.iter().filter(|chain| chain.plan.phase == phase);
    let selecting = chains.filter(|chain| chain.selects(upstream, method, kind, name));
    selecting.map(|chain| selected(chain, upstream, kind, name)).collect()
}

/// Returns a chain that selects an item.
pub(super) fn selected(chain: &Arc<LinkedChain>, upstream: &UpstreamPlan, kind: ItemKind, name: &str) -> Selected {
    let admits = |entry: &Arc<LinkedEntry>| entry.admits(&upstream.key.name, kind, name);
    Selected { filter_admits: chain.entries.iter().map(admits).collect(), chain: Arc::clone(chain) }
}
