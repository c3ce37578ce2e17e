//! Routes from a tool's public name to the upstream that has the tool.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::plan::{PrefixMode, ToolOverride};
use super::tool::Tool;
use super::tool_name::MAX_NAME;

/// The tools that one upstream offers.
#[derive(Debug)]
pub struct Offer<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Tools of the upstream, without those that `include`, `exclude` and `hidden` leave out.
    pub tools: Vec<&'a Tool>,
    /// Overrides of the upstream's tools.
    pub overrides: &'a [ToolOverride],
    /// Names of all tools that the upstream was ever seen to have. The names are kept during an outage, so that no
    /// other upstream gets them. The name of a tool is missing here if there was no room when the tool was first seen.
    pub ever_seen: &'a BTreeSet<String>,
}

/// The destination of calls to one tool.
#[derive(Debug)]
pub struct ToolRoute {
    /// Index of the route in [`Routes::all`].
    pub index: usize,
    /// Index of the upstream in the plan.
    pub upstream: usize,
    /// Name of the tool on the endpoint for all upstreams; `None` if the name is taken or too long.
    pub public: Option<String>,
    /// Name of the tool on the endpoint of its upstream.
    pub own: String,
    /// The tool as its upstream lists it.
    pub tool: Tool,
    /// Index of the tool's override in the upstream's plan; `None` if it has none.
    pub change: Option<usize>,
    /// The definition that clients see, with the name `public`.
    pub public_definition: Option<Arc<RawValue>>,
    /// The definition that clients see, with the name `own`.
    pub own_definition: Arc<RawValue>,
}

/// A tool without a public name, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unnamed {
    /// Index of the upstream in the plan.
    pub upstream: usize,
    /// The server's own name for the tool.
    pub tool: String,
    /// Why the tool has no public name.
    pub message: String,
}

/// All routes of a snapshot.
#[derive(Debug, Default)]
pub struct Routes {
    /// Routes in the order of the tool list.
    all: Vec<Arc<ToolRoute>>,
    by_public: HashMap<String, Arc<ToolRoute>>,
    by_own: Vec<HashMap<String, Arc<ToolRoute>>>,
    /// Tools without a public name.
    pub unnamed: Vec<Unnamed>,
}

impl Routes {
    /// Builds the routes. `offers` are in plan order, and the tools of each are in their server's order, so tool lists
    /// are deterministic.
    pub fn build(prefix: PrefixMode, offers: &[Offer<'_>]) -> Self {
        let mut routes = Self { by_own: offers.iter().map(|_| HashMap::new()).collect(), ..Self::default() };
        for (upstream, offer) in offers.iter().enumerate() {
            for tool in &offer.tools {
                let public = routes.public_name(prefix, offers, upstream, tool);
                routes.add(upstream, offer, tool, public);
            }
        }
        routes
    }

    fn public_name(
        &self,
        prefix: PrefixMode,
        offers: &[Offer<'_>],
        upstream: usize,
        tool: &Tool,
    ) -> Result<String, String> {
        let offer = &offers[upstream];
        let own = own_name(offer, tool);
        let prefixed = || format!("{}__{own}", offer.upstream);
        let name = match prefix {
            PrefixMode::Always => prefixed(),
            PrefixMode::OnConflict if !keeps_own_name(offers, upstream, tool) => prefixed(),
            PrefixMode::OnConflict | PrefixMode::Never => own.to_owned(),
        };
        if name.len() > MAX_NAME {
            return Err(format!(
                "{name:.40}... has {} characters, {MAX_NAME} are allowed: rename the tool",
                name.len()
            ));
        }
        match self.by_public.get(&name) {
            Some(other) => Err(format!(
                "{name} is already the name of a tool of upstream {}: rename one, or set upstreams.prefix: Always",
                offers[other.upstream].upstream
            )),
            None => Ok(name),
        }
    }

    fn add(&mut self, upstream: usize, offer: &Offer<'_>, tool: &Tool, public: Result<String, String>) {
        let change = offer.overrides.iter().position(|o| o.name == tool.name);
        let own = own_name(offer, tool).to_owned();
        let change_of = change.map(|i| &offer.overrides[i]);
        let public = match public {
            Ok(name) => Some(name),
            Err(message) => {
                self.unnamed.push(Unnamed { upstream, tool: tool.name.clone(), message });
                None
            }
        };
        let route = Arc::new(ToolRoute {
            index: self.all.len(),
            upstream,
            public_definition: public.as_deref().map(|name| tool.public_definition(name, change_of)),
            own_definition: tool.public_definition(&own, change_of),
            public,
            own: own.clone(),
            tool: tool.clone(),
            change,
        });
        if let Some(name) = &route.public {
            self.by_public.insert(name.clone(), Arc::clone(&route));
        }
        self.by_own[upstream].entry(own).or_insert_with(|| Arc::clone(&route));
        self.all.push(route);
    }

    /// Returns the route of the tool with this public name.
    pub fn public(&self, name: &str) -> Option<&Arc<ToolRoute>> {
        self.by_public.get(name)
    }

    /// Returns the route of the tool with this name on the endpoint of one upstream.
    pub fn own(&self, upstream: usize, name: &str) -> Option<&Arc<ToolRoute>> {
        self.by_own.get(upstream)?.get(name)
    }

    /// Returns all routes, in the order of the tool list.
    pub fn all(&self) -> &[Arc<ToolRoute>] {
        &self.all
    }
}

/// Whether a tool keeps its own name, without its upstream's prefix, in mode `OnConflict`.
fn keeps_own_name(offers: &[Offer<'_>], upstream: usize, tool: &Tool) -> bool {
    let (offer, own) = (&offers[upstream], own_name(&offers[upstream], tool));
    let has_prefix_of = |other: &str| own.strip_prefix(other).is_some_and(|rest| rest.starts_with("__"));
    let names_another = offers.iter().any(|other| other.upstream != offer.upstream && has_prefix_of(other.upstream));
    offer.ever_seen.contains(&tool.name) && !names_another && !offers[..upstream].iter().any(|o| had(o, own))
}

/// Whether an upstream was ever seen to have a tool whose name, after overrides, is or was `own`. Tools that the
/// upstream's filters leave out count too.
fn had(offer: &Offer<'_>, own: &str) -> bool {
    let renamed = |o: &ToolOverride| o.rename.as_deref() == Some(own) && offer.ever_seen.contains(&o.name);
    offer.ever_seen.contains(own) || offer.overrides.iter().any(renamed)
}

fn own_name<'a>(offer: &Offer<'a>, tool: &'a Tool) -> &'a str {
    let renamed = offer.overrides.iter().find(|o| o.name == tool.name).and_then(|o| o.rename.as_deref());
    renamed.unwrap_or(&tool.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        Tool::parse(&RawValue::from_string(format!(r#"{{"name":"{name}"}}"#)).unwrap()).unwrap()
    }

    /// Returns the public names of upstreams `a` (tools `read` and `list`) and `b` (tool `read`). With `outage`, `a`
    /// lists no tools.
    fn names(prefix: PrefixMode, outage: bool) -> Vec<String> {
        let (read, list) = (tool("read"), tool("list"));
        let seen: BTreeSet<String> = ["read".to_owned(), "list".to_owned()].into();
        let a = if outage { vec![] } else { vec![&read, &list] };
        let offers = [
            Offer { upstream: "a", tools: a, overrides: &[], ever_seen: &seen },
            Offer { upstream: "b", tools: vec![&read], overrides: &[], ever_seen: &seen },
        ];
        Routes::build(prefix, &offers).all().iter().filter_map(|r| r.public.clone()).collect()
    }

    #[test]
    fn prefixes() {
        assert_eq!(names(PrefixMode::Always, false), ["a__read", "a__list", "b__read"]);
        assert_eq!(names(PrefixMode::OnConflict, false), ["read", "list", "b__read"]);
        assert_eq!(names(PrefixMode::Never, false), ["read", "list"]);
    }

    #[test]
    fn an_outage_frees_no_name() {
        assert_eq!(names(PrefixMode::OnConflict, true), ["b__read"]);
    }

    /// Returns the public names in mode `OnConflict` of upstreams with these tools, all of which were seen.
    fn on_conflict(upstreams: &[(&str, &[&str])], overrides: &[ToolOverride]) -> Vec<String> {
        let tools: Vec<Vec<Tool>> =
            upstreams.iter().map(|(_, names)| names.iter().map(|n| tool(n)).collect()).collect();
        let seen: Vec<BTreeSet<String>> =
            tools.iter().map(|tools| tools.iter().map(|t| t.name.clone()).collect()).collect();
        let names = upstreams.iter().map(|(upstream, _)| *upstream);
        let mut offers = Vec::new();
        for ((upstream, tools), ever_seen) in names.zip(&tools).zip(&seen) {
            offers.push(Offer { upstream, tools: tools.iter().collect(), overrides, ever_seen });
        }
        Routes::build(PrefixMode::OnConflict, &offers).all().iter().filter_map(|r| r.public.clone()).collect()
    }

    #[test]
    fn no_tool_takes_a_name_with_the_prefix_of_another_upstream() {
        let names = on_conflict(&[("a", &["read", "b__read"]), ("b", &["read", "a__list", "b__own", "b_x"])], &[]);
        assert_eq!(names, ["read", "a__b__read", "b__read", "b__a__list", "b__own", "b_x"]);
    }

    #[test]
    fn a_name_that_an_override_gave_belongs_to_its_upstream() {
        let renamed = ToolOverride { name: "old".into(), rename: Some("read".into()), ..ToolOverride::default() };
        assert_eq!(on_conflict(&[("a", &["old"]), ("b", &["read"])], &[renamed]), ["read", "b__read"]);
    }

    #[test]
    fn a_tool_seen_when_there_was_no_room_for_its_name_is_always_prefixed() {
        let (read, list) = (tool("read"), tool("list"));
        let seen: BTreeSet<String> = ["list".to_owned()].into();
        let offers = [Offer { upstream: "a", tools: vec![&read, &list], overrides: &[], ever_seen: &seen }];
        let routes = Routes::build(PrefixMode::OnConflict, &offers);
        let names: Vec<_> = routes.all().iter().filter_map(|r| r.public.as_deref()).collect();
        assert_eq!(names, ["a__read", "list"]);
    }

    #[test]
    fn a_name_too_long_is_left_out_and_said() {
        let long = tool(&"x".repeat(126));
        let seen = BTreeSet::new();
        let offers = [Offer { upstream: "up", tools: vec![&long], overrides: &[], ever_seen: &seen }];
        let routes = Routes::build(PrefixMode::Always, &offers);
        assert_eq!(routes.unnamed.len(), 1);
        assert!(routes.own(0, &long.name).is_some());
    }
}
