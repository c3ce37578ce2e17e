//! Explains which chains and entries would run for a tool or another item, and why the others would not.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::Views;
use super::asked_access::{AskedAccess, public_names};
use super::notes;
use crate::config::nearest::hint;
use crate::domain::ids::Kind;
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::plan::{Plan, UpstreamPlan};
use crate::domain::plugin::{Failure, FailurePolicy, Mode, Phase, Role};
use crate::domain::ports::{LinkedPlugin, Secrets};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::tool_name::shortened;
use crate::engine::access::explained::AccessExplanation;
use crate::engine::plan::doubled_plugins::doubled_plugins;
use crate::engine::plan::link::{Linked, LinkedChain, LinkedEntry, link};
use crate::engine::plan::snapshot::{Found, Lookup, Snapshot};
use crate::engine::plan::withheld::Withheld;
use crate::engine::request::Endpoint;

/// The chains of the gateway, and what each would do on content of one method of one item.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The item's public name; if it has none, its name on the endpoint of its upstream.
    pub tool: String,
    /// The name of the upstream; empty for a tool of the gateway itself.
    pub upstream: String,
    /// The server's own name for the item.
    pub upstream_tool: String,
    /// Why clients neither see the item nor can use it; absent if they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// What happens with calls of the item apart from its chains, such as that nothing is sent to its server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The method of the content: that of a call, or of what the server asks during one.
    #[schemars(with = "String")]
    pub method: Method,
    /// What the rules of the gateway mean for a client; absent if no client is named or there are no rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessExplanation>,
    /// All chains of the gateway, in the order in which they run, and then those that it does not take although they are
    /// declared beside it.
    pub chains: Vec<ChainExplanation>,
}

/// What one chain would do on that content.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChainExplanation {
    /// The chain, as `namespace/name`.
    pub chain: String,
    /// The phase in which the chain runs; absent for one that the gateway does not take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Whether the chain selects the content.
    pub selected: bool,
    /// Why the gateway does not take the chain, why the chain does not select the content, or why it refuses it; absent
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The entries in the order in which they run.
    pub entries: Vec<EntryExplanation>,
}

/// What one entry would do on that content.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryExplanation {
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// `runs`, `runs when EXPRESSION`, `skipped(...)` or `fails(...)`; for a shadow, prefixed with `does not act
    /// (Shadow)`.
    pub outcome: String,
    /// The role of the entry.
    pub role: Role,
    /// What a failure of the entry does to its call.
    pub failure_policy: FailurePolicy,
    /// `Shadow` if the entry runs without affecting calls.
    pub mode: Mode,
    /// The timeout of the entry in milliseconds.
    pub timeout_ms: u64,
}

/// Returns why an entry cannot run, or `None` if it can.
type Unable<'a> = &'a dyn Fn(&LinkedEntry) -> Option<Failure>;

/// An item, and the method of the content that is explained.
struct Asked<'a> {
    method: Method,
    kind: ItemKind,
    /// The server's own name.
    name: &'a str,
}

impl<'a> Asked<'a> {
    /// Content of this method; of questions, during the calls of a tool.
    fn new(method: Method, name: &'a str) -> Self {
        Self { method, kind: kind_of(method), name }
    }
}

/// Returns the kind of the items that a method is about.
fn kind_of(method: Method) -> ItemKind {
    ItemKind::used_with(method).or(ItemKind::listed_with(method)).unwrap_or(ItemKind::Tool)
}

fn explain_item(linked: &Linked, upstream: usize, asked: &Asked<'_>, public: &str, unable: Unable<'_>) -> Explanation {
    let plan = &linked.upstreams[upstream].target.plan;
    let mut chains: Vec<_> = linked.chains.iter().map(|chain| explain_chain(chain, plan, asked, unable)).collect();
    // Those of each phase are in their order already.
    chains.sort_by_key(|chain| chain.phase);
    Explanation {
        tool: public.to_owned(),
        upstream: plan.key.name.clone(),
        upstream_tool: asked.name.to_owned(),
        withheld: None,
        notes: notes::of_item(linked, upstream, asked.kind, asked.name),
        method: asked.method,
        access: None,
        chains,
    }
}

fn explain_chain(
    chain: &LinkedChain,
    upstream: &UpstreamPlan,
    asked: &Asked<'_>,
    unable: Unable<'_>,
) -> ChainExplanation {
    let selected = chain.selects(upstream, asked.method, asked.kind, asked.name);
    let why = match &chain.plan.refusing {
        Some(refusal) if selected => Some(format!("refuses each call: {}", refusal.message)),
        _ if selected => None,
        _ => Some(why_not(chain, upstream, asked)),
    };
    let entries = chain.entries.iter().filter(|_| selected);
    let entries = entries.map(|entry| EntryExplanation {
        plugin: entry.name.clone(),
        outcome: outcome(entry, &upstream.key.name, asked, unable),
        role: entry.rules.role,
        failure_policy: entry.rules.policy,
        mode: entry.plan.mode,
        timeout_ms: u64::try_from(entry.timeout.as_millis()).unwrap_or(u64::MAX),
    });
    let (chain, phase) = (chain.name.clone(), Some(chain.plan.phase));
    ChainExplanation { chain, phase, selected, why, entries: entries.collect() }
}

/// Returns the chains that the gateway does not take, of which the Problems of its plan tell.
fn not_taken(problems: &[Problem]) -> impl Iterator<Item = ChainExplanation> {
    let is_chain = |problem: &Problem| problem.object.as_ref().is_some_and(|it| it.kind == Kind::PluginChain);
    let not_taken = problems.iter().filter(move |problem| problem.reason == Reason::NotTaken && is_chain(problem));
    not_taken.filter_map(|problem| {
        let (chain, why) = (problem.object.as_ref()?.key.to_string(), Some(problem.message.clone()));
        Some(ChainExplanation { chain, phase: None, selected: false, why, entries: Vec::new() })
    })
}

fn outcome(entry: &LinkedEntry, upstream: &str, asked: &Asked<'_>, unable: Unable<'_>) -> String {
    let outcome = match (unable(entry), &entry.plan.when) {
        _ if !entry.enabled => return "skipped(disabled)".to_owned(),
        _ if !entry.admits(upstream, asked.kind, asked.name) => return "skipped(filter)".to_owned(),
        (Some(failure), Some(when)) if entry.rules.phase == Phase::Request => {
            format!("fails({}) when {when}: {}", failure.reason, failure.message)
        }
        (Some(failure), _) => format!("fails({}): {}", failure.reason, failure.message),
        (None, Some(when)) => format!("runs when {when}"),
        (None, None) => "runs".to_owned(),
    };
    match entry.plan.mode {
        Mode::Enforce => outcome,
        Mode::Shadow => format!("does not act (Shadow): {outcome}"),
    }
}

fn why_not(chain: &LinkedChain, upstream: &UpstreamPlan, asked: &Asked<'_>) -> String {
    let plan = &chain.plan;
    let scope = &plan.upstreams;
    if let Some(namespace) = scope.namespace.as_ref().filter(|n| **n != upstream.key.namespace) {
        return format!("reaches upstreams of namespace {namespace} only");
    }
    if !plan.methods.contains(&asked.method) {
        let covered: Vec<_> = plan.methods.iter().map(|method| method.as_str()).collect();
        return format!("covers {} only (spec.methods)", covered.join(", "));
    }
    if !chain.covers(upstream) {
        return format!("does not cover upstream {} (spec.upstreams)", upstream.key.name);
    }
    format!("leaves tool {} out (spec.tools)", asked.name)
}

impl Views {
    /// Explains content of this method of a tool, or of the other item that the method is about. `name` is the public
    /// name, or `upstream/name` with the name on the upstream's own endpoint. `client` is whose access is explained.
    ///
    /// # Errors
    /// If there is no such item. The message contains `name`.
    pub async fn explain(
        &self,
        name: &str,
        method: Method,
        client: Option<AskedAccess<'_>>,
    ) -> Result<Explanation, String> {
        let kind = kind_of(method);
        self.lists.wait_for_lists(&self.in_force.snapshot(), &Endpoint::All, kind).await;
        let snapshot = self.in_force.snapshot();
        if let Some(explanation) = own_tool(&snapshot.linked, method, name) {
            return Ok(explanation);
        }
        // The whole name is known too if clients see a short form.
        let public = shortened(name.to_owned(), snapshot.plan().gateway.max_name_length);
        let places = [Some((Endpoint::All, &*public)), Some((Endpoint::All, name)), own_place(name)];
        let unable = |entry: &LinkedEntry| self.loads.unable(entry);
        let with_others = |mut explained: Explanation| {
            explained.chains.extend(not_taken(snapshot.problems()));
            explained
        };
        for (endpoint, name) in places.iter().flatten() {
            let Some(Found { route, is_listed, .. }) = found(&snapshot, endpoint, kind, name) else { continue };
            let public = route.public.as_deref().unwrap_or(&route.own);
            let asked = Asked::new(method, &route.item.name);
            let mut explained = explain_item(&snapshot.linked, route.upstream, &asked, public, &unable);
            explained.notes.extend(notes::of_route(&snapshot.linked, &route).filter(|_| is_listed));
            let plan = &snapshot.linked.upstreams[route.upstream].target.plan;
            explained.notes.extend(self.gate.check_routing(plan).err().map(|error| error.message));
            let is_withheld = snapshot.for_pipelines.contains(&route.index);
            explained.withheld = is_withheld.then(|| Withheld::ForPipelines.to_string());
            explained.access = client.map(|client| client.of_listed(&snapshot, &route)).transpose()?.flatten();
            return Ok(with_others(explained));
        }
        for (endpoint, name) in places.iter().flatten() {
            let listed = snapshot.withheld(&self.catalogues, endpoint, kind, name);
            let item = listed.or_else(|| snapshot.of_disabled(&self.catalogues, endpoint, kind, name));
            let Some(item) = item else { continue };
            let asked = Asked::new(method, &item.name);
            let explained = explain_item(&snapshot.linked, item.upstream, &asked, name, &unable);
            return Ok(with_others(Explanation { withheld: Some(item.why.to_string()), ..explained }));
        }
        let hint = if kind == ItemKind::Tool { "; `hawsepipe tools` lists them" } else { "" };
        let own = name.split_once('/').filter(|(upstream, _)| snapshot.upstream(upstream).is_some());
        let (endpoint, own) = own.map_or((Endpoint::All, name), |(upstream, own)| (Endpoint::One(upstream), own));
        Err(format!("there is no {kind} {name:?}{hint}{}", endpoint.did_you_mean(&snapshot, kind, own)))
    }
}

/// Returns the endpoint of the upstream that a name of the form `upstream/name` means, and the name there.
fn own_place(name: &str) -> Option<(Endpoint<'_>, &str)> {
    name.split_once('/').map(|(upstream, name)| (Endpoint::One(upstream), name))
}

/// Returns the item with this name on the endpoint. On that of an upstream, a tool is found by the server's own name too, which
/// an override can have replaced for clients.
fn found(snapshot: &Snapshot, endpoint: &Endpoint<'_>, kind: ItemKind, name: &str) -> Option<Found> {
    let renamed = || match endpoint {
        Endpoint::One(upstream) if kind == ItemKind::Tool => snapshot.tool_of(upstream, name),
        Endpoint::One(_) | Endpoint::All => None,
    };
    match endpoint.find(snapshot, kind, name) {
        Lookup::Found(found) => Some(found),
        Lookup::Ambiguous(..) | Lookup::Undecided(_) | Lookup::Unknown => renamed(),
    }
}

/// Explains a tool of the gateway itself; `None` if the name is that of another tool.
fn own_tool(linked: &Linked, method: Method, name: &str) -> Option<Explanation> {
    let note = notes::of_own_tool(linked, name).filter(|_| kind_of(method) == ItemKind::Tool)?;
    Some(Explanation {
        tool: name.to_owned(),
        upstream: String::new(),
        upstream_tool: name.to_owned(),
        withheld: None,
        notes: vec![note],
        method,
        access: None,
        chains: Vec::new(),
    })
}

/// Explains a tool, or the other item that `method` is about, of a plan that is not in force. `name` is `upstream/tool` or
/// `upstream__tool`, with the server's own name or the one that an override gives the tool. Does not check that the server has
/// such an item. `problems` are those of the plan. `client` is whose access is explained.
///
/// # Errors
/// If there is no such upstream, or no item can have this name. The message contains the name.
pub fn explain_plan(
    plan: Plan,
    problems: &[Problem],
    secrets: &impl Secrets,
    name: &str,
    method: Method,
    client: Option<AskedAccess<'_>>,
) -> Result<Explanation, String> {
    let (linked, _) = link(plan, &[], secrets, &Arc::default());
    if let Some(explanation) = own_tool(&linked, method, name) {
        return Ok(explanation);
    }
    let parts = name.split_once('/').or_else(|| name.split_once("__"));
    let (upstream, tool) = parts.ok_or_else(|| format!("{name:?} names no upstream: write UPSTREAM/TOOL"))?;
    let known = linked.upstreams.iter().position(|u| u.target.plan.key.name == upstream);
    let index = known.ok_or_else(|| {
        let names: Vec<_> = linked.upstreams.iter().map(|u| u.target.plan.key.name.as_str()).collect();
        format!("there is no upstream {upstream:?}{}", hint(upstream, &names))
    })?;
    let unable = |entry: &LinkedEntry| entry.plugin.as_ref().err().cloned();
    let (tool, shown) = names_of(&linked.upstreams[index].target.plan, kind_of(method), tool);
    let names = public_names(&linked, index, kind_of(method), shown);
    let asked = Asked::new(method, tool);
    let mut explained = explain_item(&linked, index, &asked, names.first().map_or(tool, |name| name), &unable);
    let access = client.map(|client| client.of_unlisted(&linked, index, (asked.kind, tool), &names));
    explained.access = access.transpose()?.flatten();
    explained.chains.extend(not_taken(problems));
    let withheld = Withheld::by_manifest(&linked.upstreams[index], kind_of(method), tool, &BTreeMap::new());
    let unknown = notes::unknown_without_lists(&linked, index, kind_of(method), tool);
    let notes = explained.notes.into_iter().chain(unknown).collect();
    Ok(Explanation { withheld: withheld.map(|why| why.to_string()), notes, ..explained })
}

/// Returns the server's own name of an item, and its name on the endpoint of its upstream. `name` is one of the two.
fn names_of<'a>(upstream: &'a UpstreamPlan, kind: ItemKind, name: &'a str) -> (&'a str, &'a str) {
    let overrides = || upstream.overrides.iter().filter(|_| kind == ItemKind::Tool);
    let of_name = overrides().find(|change| change.name == name);
    let of_rename = overrides().find(|change| change.rename.as_deref() == Some(name));
    let change = of_rename.or(of_name);
    change.map_or((name, name), |change| (&change.name, change.rename.as_deref().unwrap_or(&change.name)))
}

/// Links a plan. Returns its enabled plugins, ready to be loaded, and the problems that linking found, such as missing
/// secrets and plugins that run twice.
pub fn link_plugins(plan: Plan, secrets: &impl Secrets) -> (Vec<Arc<LinkedPlugin>>, Vec<Problem>) {
    let (linked, mut problems) = link(plan, &[], secrets, &Arc::default());
    problems.extend(doubled_plugins(&linked));
    let plugins = linked.plugins.into_values().flatten().filter(|plugin| plugin.plan.enabled);
    (plugins.collect(), problems)
}
