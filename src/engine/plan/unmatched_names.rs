//! Warnings about names and globs of tools that fit no tool of the servers that they are for: a slip in them leaves tools
//! unguarded, or offered.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use super::link::{Globs, Linked, LinkedChain, LinkedEntry};
use crate::config::nearest::{BoundedNearest, has_wildcard};
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::plan::{PluginPlan, UpstreamPlan};
use crate::domain::plugin::Role;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::seen::SeenNames;
use crate::engine::catalogue::upstream_state::Catalogue;

/// The maximum number of warnings about one object.
const MAX_SAID: usize = 20;
/// With how many names those that fit nothing are compared, to find out what was meant: about a tenth of a second, during which no
/// plan comes into force. Warnings beyond it do not say what was probably meant.
const MAX_COMPARED: usize = 4096;

/// The tools of one upstream, by the server's own names: those that it lists, and those that it was ever seen to have.
struct Tools<'a> {
    plan: &'a UpstreamPlan,
    names: BTreeSet<&'a str>,
    /// Whether the server has listed its tools.
    are_known: bool,
}

impl Tools<'_> {
    /// Returns the server's own name of the tool that clients call by this name; `None` if they call none so.
    fn own_name(&self, public: &str) -> Option<&str> {
        let bare = public.strip_prefix(&*self.plan.key.name).and_then(|rest| rest.strip_prefix("__")).unwrap_or(public);
        let renamed = self.plan.overrides.iter().find(|change| change.rename.as_deref() == Some(bare));
        let own = renamed.map_or(bare, |change| &change.name);
        self.names.get(own).copied()
    }
}

/// Returns the warnings. `lists` are in the order of the upstreams. Nothing is said of servers whose tools are not known.
pub(super) fn unmatched_names(linked: &Linked, lists: &[Option<Arc<Catalogue>>], seen: &SeenNames) -> Vec<Problem> {
    let filters = |upstream: &UpstreamPlan| !upstream.include.is_empty() || !upstream.exclude.is_empty();
    let mut chains = linked.chains.iter().filter(|chain| selects_tools(linked, chain)).peekable();
    if chains.peek().is_none() && !linked.plan.upstreams.iter().any(filters) {
        return Vec::new();
    }
    let is_known =
        |list: &Option<Arc<Catalogue>>| list.as_ref().is_some_and(|list| list.list(ItemKind::Tool).is_some());
    let tools = linked.upstreams.iter().zip(lists).map(|(upstream, list)| {
        let plan = &upstream.target.plan;
        let listed = list.iter().flat_map(|list| list.tools()).map(|(tool, _)| &*tool.name);
        let seen = seen.of(&plan.key).into_iter().flatten().map(String::as_str);
        Tools { plan, names: listed.chain(seen).collect(), are_known: is_known(list) }
    });
    let tools: Vec<_> = tools.filter(|tools| tools.plan.enabled).collect();
    let hints = Hints(BoundedNearest::new(MAX_COMPARED));
    let mut problems = Vec::new();
    for chain in chains {
        let covered: Vec<_> = tools.iter().filter(|tools| chain.covers(tools.plan)).collect();
        problems.extend(of_chain(chain, &covered, &hints));
        problems.extend(of_guards(linked, chain, &covered, &hints));
    }
    problems.extend(tools.iter().filter(|tools| tools.are_known).flat_map(|tools| of_upstream(tools, &hints)));
    problems
}

/// Whether the chain, or a Guard in it, names tools, and the chain runs on their calls or their definitions.
fn selects_tools(linked: &Linked, chain: &LinkedChain) -> bool {
    let is_of_tools = |method: &Method| matches!(method, Method::CallTool | Method::ListTools);
    let names_tools = !chain.plan.include.is_empty() || !chain.plan.exclude.is_empty();
    (names_tools || filtered_guards(linked, chain).next().is_some()) && chain.plan.methods.iter().any(is_of_tools)
}

/// Returns the Guards of the chain whose plugins have a filter over tools, with these plugins.
fn filtered_guards<'a>(
    linked: &'a Linked,
    chain: &'a LinkedChain,
) -> impl Iterator<Item = (&'a LinkedEntry, &'a PluginPlan)> {
    let guards = chain.entries.iter().filter(|entry| entry.enforces() && entry.rules.role == Role::Guard);
    // What a plugin that is not accepted says is not looked at: its entry fails.
    let guards = guards.filter(|entry| entry.plan.unavailable.is_none());
    let with_plugin = guards.filter_map(|entry| Some((&**entry, linked.plan.plugin(&entry.plan.plugin)?)));
    with_plugin.filter(|(_, plugin)| !plugin.filter_tools.is_empty())
}

/// Returns warnings about Guards of a chain that run on none of the tools that the chain selects, because their plugin's filter
/// fits none. One that fits some tools is not warned of: the plugin may have the names of other chains' tools in it. Upstreams
/// that the filter fits are looked for when the plan is compiled.
fn of_guards(linked: &Linked, chain: &LinkedChain, covered: &[&Tools<'_>], hints: &Hints) -> Vec<Problem> {
    let of_one = |(entry, plugin): (&LinkedEntry, &PluginPlan)| {
        let tools = covered.iter().copied().filter(|tools| entry.filter_upstreams.admits(&tools.plan.key.name));
        let tools: Vec<_> = tools.collect();
        let names: BTreeSet<_> = tools.iter().flat_map(|tools| tools.names.iter().copied()).collect();
        let mut selected = names.iter().filter(|name| chain.selects_tool(name)).peekable();
        let is_unknown = selected.peek().is_none() || tools.iter().any(|tools| !tools.are_known);
        if is_unknown || selected.any(|name| entry.filter_tools.admits(name)) {
            return None;
        }
        let slips = plugin.filter_tools.iter().filter(|glob| !has_wildcard(glob) && !names.contains(glob.as_str()));
        let hint = slips.map(|name| hints.about(name, tools.iter().copied())).find(|hint| !hint.is_empty());
        let message = format!(
            "the filter of Plugin {} (spec.filter.tools) fits no tool that the chain selects, so that this Guard runs on \
             none{}",
            plugin.key,
            hint.unwrap_or_default()
        );
        let object = ObjectId::new(Kind::PluginChain, chain.plan.key.clone());
        Some(Problem::warning(Reason::ToolNotFound, object, format!("spec.entries[{}]", entry.plan.place), message))
    };
    filtered_guards(linked, chain).filter_map(of_one).take(MAX_SAID).collect()
}

/// Returns warnings about names in a chain's `include` that no tool of its upstreams has, or about a whole list, if it leaves
/// the chain no tool. A glob that fits nothing by itself can be meant for tools to come.
fn of_chain(chain: &LinkedChain, covered: &[&Tools<'_>], hints: &Hints) -> Vec<Problem> {
    let has_tools = covered.iter().any(|tools| !tools.names.is_empty());
    if !has_tools || covered.iter().any(|tools| !tools.are_known) {
        return Vec::new();
    }
    let warning = |field: String, message: String| {
        let object = ObjectId::new(Kind::PluginChain, chain.plan.key.clone());
        Problem::warning(Reason::ToolNotFound, object, field, message)
    };
    let unknown =
        chain.plan.include.iter().enumerate().filter(|(_, name)| {
            !has_wildcard(name) && !covered.iter().any(|tools| tools.names.contains(name.as_str()))
        });
    let unknown = unknown.map(|(place, name)| {
        let message = format!(
            "no tool of its upstreams has the name {name:?}, so that what the chain is to do there is not done{}",
            hints.about(name, covered.iter().copied())
        );
        warning(format!("spec.tools.include[{place}]"), message)
    });
    let mut problems: Vec<_> = unknown.take(MAX_SAID).collect();
    let names = || covered.iter().flat_map(|tools| tools.names.iter());
    let nothing = if !names().any(|name| chain.include.admits(name)) {
        Some(("include", "no tool of its upstreams fits, so that the chain runs on none"))
    } else if !names().any(|name| chain.selects_tool(name)) {
        Some(("exclude", "it excludes each tool of its upstreams that the chain would run on, so that it runs on none"))
    } else {
        None
    };
    let nothing = nothing.filter(|_| problems.is_empty());
    problems.extend(nothing.map(|(list, message)| warning(format!("spec.tools.{list}"), message.to_owned())));
    problems
}

/// Returns warnings about what an upstream's `include` and `exclude` have in them and no tool of the server fits.
fn of_upstream(tools: &Tools<'_>, hints: &Hints) -> Vec<Problem> {
    if tools.names.is_empty() {
        return Vec::new();
    }
    let lists = [("include", &tools.plan.include, "includes"), ("exclude", &tools.plan.exclude, "excludes")];
    let entries = lists.into_iter().flat_map(|(list, globs, does)| {
        globs.iter().enumerate().map(move |(place, glob)| (format!("spec.tools.{list}[{place}]"), glob, does))
    });
    let unmatched = entries.filter(|(_, glob, _)| {
        let compiled = Globs::new(slice::from_ref(*glob));
        !tools.names.contains(glob.as_str()) && !tools.names.iter().any(|name| compiled.names(name))
    });
    let warnings = unmatched.map(|(field, glob, does)| {
        let hint = hints.about(glob, slice::from_ref(tools));
        let message = format!("no tool of the server fits {glob:?}: it {does} nothing{hint}");
        let object = ObjectId::new(tools.plan.kind(), tools.plan.key.clone());
        Problem::warning(Reason::ToolNotFound, object, field, message)
    });
    warnings.take(MAX_SAID).collect()
}

/// Says what was probably meant by names that no tool has.
struct Hints(BoundedNearest);

impl Hints {
    /// Returns the end of a message; empty if it cannot be told what was meant.
    fn about<'t, 'a: 't>(&self, name: &str, tools: impl IntoIterator<Item = &'t Tools<'a>>) -> String {
        let tools: Vec<_> = tools.into_iter().collect();
        if let Some(own) = tools.iter().find_map(|tools| tools.own_name(name)) {
            return format!(". Clients call a tool so that is {own:?} at its server: write the server's own name");
        }
        let names = tools.iter().flat_map(|tools| tools.names.iter().copied());
        self.0.find(name, names).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
    }
}
