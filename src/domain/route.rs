//! Routes from an item's public name to the upstream that has the item.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::value::RawValue;

use super::apps;
use super::changed_tool::changed;
use super::item::{Item, ItemKind, MAX_URI, seen_name};
use super::plan::{PrefixMode, ToolOverride};
use super::raw::to_raw;
use super::tool_name::{MAX_NAME, shortened};

/// How the public names of items are formed.
#[derive(Clone, Copy, Debug)]
pub struct Naming {
    /// When the name of the upstream comes first.
    pub prefix: PrefixMode,
    /// The maximum number of characters of a tool's name; `None` for the maximum of the protocol.
    pub max_length: Option<u32>,
}

impl From<PrefixMode> for Naming {
    fn from(prefix: PrefixMode) -> Self {
        Self { prefix, max_length: None }
    }
}

/// The items that one upstream offers.
#[derive(Debug)]
pub struct Offer<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Whether its tools keep their names, whatever the naming says: those of pipelines do.
    pub keeps_names: bool,
    /// Items of the upstream, without tools that `include`, `exclude` and `hidden` leave out, and without items that
    /// chains over lists keep from clients.
    pub items: Vec<&'a Item>,
    /// Items that chains over lists have changed, by kind and name, with the changes of the tool's override.
    pub filtered: HashMap<(ItemKind, &'a str), Item>,
    /// Overrides of the upstream's tools.
    pub overrides: &'a [ToolOverride],
    /// What [`Item::seen_name`] returned for all items that the upstream was ever seen to have. The names are kept
    /// during an outage, so that no other upstream gets them. The name of an item is missing here if there was no room
    /// when the item was first seen.
    pub ever_seen: &'a BTreeSet<String>,
}

/// The destination of requests that use one item.
#[derive(Debug)]
pub struct Route {
    /// Index of the route in [`Routes::all`].
    pub index: usize,
    /// Index of the upstream in the plan.
    pub upstream: usize,
    /// Name of the item on the endpoint for all upstreams; `None` if the name is taken or too long. The URI of an app has
    /// the name of its upstream in it, others stay as they are.
    pub public: Option<String>,
    /// Name of the item on the endpoint of its upstream.
    pub own: String,
    /// The item as its upstream lists it, with the changes of the tool's override and of chains over lists, but with the
    /// server's own name.
    pub item: Item,
    /// The tool's input schema as its upstream lists it, if clients are shown another one.
    pub listed_schema: Option<Arc<RawValue>>,
    /// Index of the tool's override in the upstream's plan; `None` if it has none.
    pub change: Option<usize>,
    /// The definition that clients see, with the name `public`.
    pub public_definition: Option<Arc<RawValue>>,
    /// The definition that clients see, with the name `own`.
    pub own_definition: Arc<RawValue>,
}

impl Route {
    /// Creates the route of a resource that the upstream's list does not name; `None` if the URI is not valid.
    pub fn unlisted(upstream: usize, uri: &str) -> Option<Self> {
        let definition = to_raw(&serde_json::json!({"uri": uri}));
        let item = Item::parse(ItemKind::Resource, &definition).ok()?;
        let own_definition = Arc::clone(&item.definition);
        let own = uri.to_owned();
        Some(Self {
            index: usize::MAX,
            upstream,
            public: None,
            own,
            item,
            listed_schema: None,
            change: None,
            public_definition: None,
            own_definition,
        })
    }
}

/// The items of one kind and upstream that have no public name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unnamed {
    /// The number of items.
    pub count: usize,
    /// Messages that name the first items and say why they have no public name. Empty for items with URIs: they lack a
    /// public name only if an upstream before this one lists the same URI, or if it is too long.
    pub said: Vec<String>,
}

/// The maximum number of messages in [`Unnamed::said`].
const MAX_SAID: usize = 20;

/// Routes by kind and name.
#[derive(Debug, Default)]
struct ByName([HashMap<String, Arc<Route>>; ItemKind::ALL.len()]);

impl ByName {
    fn get(&self, kind: ItemKind, name: &str) -> Option<&Arc<Route>> {
        self.0[kind as usize].get(name)
    }

    fn add(&mut self, name: String, route: &Arc<Route>) {
        self.0[route.item.kind as usize].entry(name).or_insert_with(|| Arc::clone(route));
    }
}

/// All routes of a snapshot.
#[derive(Debug, Default)]
pub struct Routes {
    /// Routes in the order of the lists.
    all: Vec<Arc<Route>>,
    by_public: ByName,
    by_own: Vec<ByName>,
    /// Items without a public name, by the index of their upstream in the plan and by kind.
    pub unnamed: BTreeMap<(usize, ItemKind), Unnamed>,
}

impl Routes {
    /// Builds the routes. `offers` are in plan order, and the items of each are in their server's order, so lists are
    /// deterministic. `reserved` are names that no tool gets.
    pub fn build(naming: impl Into<Naming>, reserved: &[&str], offers: &[Offer<'_>]) -> Self {
        let naming = naming.into();
        let mut routes = Self { by_own: offers.iter().map(|_| ByName::default()).collect(), ..Self::default() };
        for (upstream, offer) in offers.iter().enumerate() {
            for item in &offer.items {
                let public = routes.public_name(naming, reserved, offers, upstream, item);
                routes.add(upstream, offer, item, public);
            }
        }
        routes
    }

    /// Returns the item's public name, or why it has none. The reason is empty for URIs, of which there can be many.
    fn public_name(
        &self,
        Naming { prefix, max_length }: Naming,
        reserved: &[&str],
        offers: &[Offer<'_>],
        upstream: usize,
        item: &Item,
    ) -> Result<String, String> {
        let offer = &offers[upstream];
        let (kind, own) = (item.kind, own_name(offer, item));
        let prefixed = || format!("{}__{own}", offer.upstream);
        let is_reserved = kind == ItemKind::Tool && reserved.contains(&own);
        let name = match prefix {
            // Servers and clients refer to resources by their URIs, also in content.
            _ if !kind.has_name() => apps::public_uri(offer.upstream, own).unwrap_or_else(|| own.to_owned()),
            PrefixMode::Always if !offer.keeps_names => prefixed(),
            PrefixMode::OnConflict
                if !offer.keeps_names && (is_reserved || !keeps_own_name(offers, upstream, item)) =>
            {
                prefixed()
            }
            _ if is_reserved => {
                let advice = "rename the tool, or set upstreams.prefix: Always";
                return Err(format!("{own} is the name of a tool of the gateway (toolDiscovery: Search): {advice}"));
            }
            _ => own.to_owned(),
        };
        let name = if kind == ItemKind::Tool { shortened(name, max_length) } else { name };
        if kind.has_name() && name.len() > MAX_NAME {
            let advice = if kind == ItemKind::Tool { ": rename the tool" } else { "" };
            return Err(format!("{name:.40}... has {} bytes, {MAX_NAME} are allowed{advice}", name.len()));
        }
        if !kind.has_name() && name.len() > MAX_URI {
            return Err(String::new());
        }
        let Some(other) = self.by_public.get(kind, &name) else { return Ok(name) };
        if !kind.has_name() {
            return Err(String::new());
        }
        // A prefix tells upstreams apart, and not what is of one.
        let advice = match (kind, prefix == PrefixMode::Always || other.upstream == upstream) {
            (ItemKind::Tool, true) => ": rename one of them otherwise",
            (ItemKind::Tool, false) => ": rename one, or set upstreams.prefix: Always",
            (_, true) => "",
            (_, false) => ": set upstreams.prefix: Always",
        };
        let other = offers[other.upstream].upstream;
        Err(format!("{name} is already the name of a {kind} of upstream {other}{advice}"))
    }

    fn add(&mut self, upstream: usize, offer: &Offer<'_>, item: &Item, public: Result<String, String>) {
        let change = offer.overrides.iter().position(|change| changes(change, item));
        let own = own_name(offer, item).to_owned();
        let filtered = offer.filtered.get(&(item.kind, item.name.as_str()));
        let overridden = || change.map_or_else(|| item.clone(), |i| changed(item, &offer.overrides[i]));
        let shown = filtered.cloned().unwrap_or_else(overridden);
        let text = |item: &Item| item.input_schema.as_ref().map(|schema| schema.get().to_owned());
        let is_changed = change.is_some_and(|i| !offer.overrides[i].arguments.is_empty())
            || filtered.is_some_and(|filtered| text(filtered) != text(item));
        let listed_schema = item.input_schema.clone().filter(|_| is_changed);
        let public = match public {
            Ok(name) => Some(name),
            Err(message) => {
                let unnamed = self.unnamed.entry((upstream, item.kind)).or_default();
                unnamed.count += 1;
                if !message.is_empty() && unnamed.said.len() < MAX_SAID {
                    unnamed.said.push(format!("{} {}: {message}", item.kind, item.name));
                }
                None
            }
        };
        let route = Arc::new(Route {
            index: self.all.len(),
            upstream,
            public_definition: public.as_deref().map(|name| published(&shown, name, offer.upstream)),
            own_definition: shown.public_definition(&own),
            public,
            own: own.clone(),
            item: shown,
            listed_schema,
            change,
        });
        if let Some(name) = &route.public {
            self.by_public.add(name.clone(), &route);
        }
        self.by_own[upstream].add(own, &route);
        self.all.push(route);
    }

    /// Returns the route of the item of this kind with this public name.
    pub fn public(&self, kind: ItemKind, name: &str) -> Option<&Arc<Route>> {
        self.by_public.get(kind, name)
    }

    /// Returns the route of the item of this kind with this name on the endpoint of one upstream.
    pub fn own(&self, upstream: usize, kind: ItemKind, name: &str) -> Option<&Arc<Route>> {
        self.by_own.get(upstream)?.get(kind, name)
    }

    /// Returns all routes, in the order of the lists.
    pub fn all(&self) -> &[Arc<Route>] {
        &self.all
    }

    /// Returns the routes of tools, in the order of the tool list.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.all.iter().filter(|route| route.item.kind == ItemKind::Tool)
    }
}

/// Returns the definition of an item that clients of the endpoint for all upstreams see.
fn published(item: &Item, public: &str, upstream: &str) -> Arc<RawValue> {
    let definition = item.public_definition(public);
    apps::published(&definition, upstream).map_or(definition, Arc::from)
}

/// Whether an item keeps its own name, without its upstream's prefix, in mode `OnConflict`.
fn keeps_own_name(offers: &[Offer<'_>], upstream: usize, item: &Item) -> bool {
    let (offer, own) = (&offers[upstream], own_name(&offers[upstream], item));
    let has_prefix_of = |other: &str| own.strip_prefix(other).is_some_and(|rest| rest.starts_with("__"));
    let names_another = offers.iter().any(|other| other.upstream != offer.upstream && has_prefix_of(other.upstream));
    let was_seen = item.seen_name().is_some_and(|name| offer.ever_seen.contains(&*name));
    was_seen && !names_another && !offers[..upstream].iter().any(|offer| had(offer, item.kind, own))
}

/// Whether an upstream was ever seen to have an item of this kind whose name, after overrides, is or was `own`. Tools
/// that the upstream's filters leave out count too.
fn had(offer: &Offer<'_>, kind: ItemKind, own: &str) -> bool {
    let seen = |name: &str| seen_name(kind, name).is_some_and(|name| offer.ever_seen.contains(&*name));
    let renamed = |o: &ToolOverride| kind == ItemKind::Tool && o.rename.as_deref() == Some(own) && seen(&o.name);
    seen(own) || offer.overrides.iter().any(renamed)
}

/// Whether the override is of this item. Only tools have overrides.
fn changes(change: &ToolOverride, item: &Item) -> bool {
    item.kind == ItemKind::Tool && change.name == item.name
}

fn own_name<'a>(offer: &Offer<'a>, item: &'a Item) -> &'a str {
    let renamed = offer.overrides.iter().find(|change| changes(change, item)).and_then(|o| o.rename.as_deref());
    renamed.unwrap_or(&item.name)
}

#[cfg(test)]
mod tests;
