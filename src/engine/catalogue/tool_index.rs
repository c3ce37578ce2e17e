//! The index in which `search_tools` finds tools (`toolDiscovery: Search`). It is built in the background, because that
//! takes longer than the swap of a snapshot may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::domain::apps;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::item::ItemKind;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::route::{Route, Routes};
use crate::domain::search::{Field, SearchIndex};

/// About how many bytes the index takes at most.
const MAX_BYTES: usize = 32 << 20;
/// How much a word counts in the name of a tool, in its title, in its description, and in what is said of its arguments.
const WEIGHTS: [f32; 4] = [5.0, 3.0, 2.0, 1.0];
/// Members of a schema whose value is a schema, a list of schemas, or an object of schemas.
const SCHEMAS: [&str; 10] = [
    "items",
    "prefixItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "$defs",
    "definitions",
];

/// An index of the tools with public names.
#[derive(Default)]
pub(crate) struct ToolIndex {
    index: SearchIndex,
    /// The public name of each document.
    names: Vec<String>,
    /// How many tools of an upstream there was no room for.
    left_out: BTreeMap<ObjectKey, usize>,
    /// The digest of the list of tools.
    list_revision: String,
}

/// The newest index, and what is being done to replace it.
#[derive(Default)]
pub(crate) struct KeptIndex {
    newest: ArcSwapOption<ToolIndex>,
    /// The digest of the list of tools of which an index was built last, or could not be; empty if there is none. Locked
    /// while an index is built.
    list_revision: tokio::sync::Mutex<String>,
}

impl KeptIndex {
    /// Returns the index of the list of tools with this digest. If the newest is of another list, takes what `build` makes.
    /// Only one is built at a time. Where none can be built, the one before stays until the list changes; `None` if there
    /// was none.
    pub(crate) async fn of(
        &self,
        list_revision: &str,
        build: impl AsyncFnOnce() -> Option<ToolIndex>,
    ) -> Option<Arc<ToolIndex>> {
        let mut newest = self.list_revision.lock().await;
        if *newest != list_revision {
            if let Some(built) = build().await {
                self.newest.store(Some(Arc::new(ToolIndex { list_revision: list_revision.to_owned(), ..built })));
            }
            list_revision.clone_into(&mut newest);
        }
        self.newest.load_full()
    }

    /// How many tools there is no room for, of each upstream with such tools.
    pub(crate) fn left_out(&self) -> BTreeMap<ObjectKey, usize> {
        self.newest.load().as_ref().map(|index| index.left_out.clone()).unwrap_or_default()
    }

    /// Forgets the index.
    pub(crate) async fn clear(&self) {
        self.list_revision.lock().await.clear();
        self.newest.store(None);
    }

    /// Warns about upstreams of this plan with tools that are not found.
    pub(in crate::engine) fn problems<'a>(&self, upstreams: impl Iterator<Item = &'a ObjectKey>) -> Vec<Problem> {
        let left_out = self.left_out();
        let warnings = upstreams.filter_map(|key| {
            let count = left_out.get(key)?;
            let message = format!(
                "{count} of its tools are not found by search_tools: their definitions, or those of the tools before them, have \
                 too many words. They can be called by their names. Leave out what nobody needs (spec.tools.exclude)"
            );
            let object = ObjectId::new(Kind::MCPUpstream, key.clone());
            Some(Problem::warning(Reason::InvalidTool, object, "spec.tools", message))
        });
        warnings.collect()
    }
}

impl ToolIndex {
    /// Builds the index of the tools of these routes that models may call. Each upstream has the same share of the room, and
    /// of what others leave as much as there is.
    pub(crate) fn build(routes: &Routes, key: impl Fn(usize) -> Option<ObjectKey>) -> Self {
        let mut built = Self::default();
        let tools: Vec<_> = routes.tools().filter(|route| is_found(route)).collect();
        let upstreams: BTreeSet<_> = tools.iter().map(|route| route.upstream).collect();
        let share = MAX_BYTES / upstreams.len().max(1);
        let mut used: BTreeMap<usize, usize> = BTreeMap::new();
        let (mut rest, mut late): (Vec<_>, BTreeMap<usize, usize>) = (Vec::new(), BTreeMap::new());
        for route in tools {
            let (used, before) = (used.entry(route.upstream).or_default(), built.index.bytes());
            if built.add(route, before + share.saturating_sub(*used)) {
                *used += built.index.bytes() - before;
            } else {
                let turn = late.entry(route.upstream).or_default();
                rest.push((*turn, route));
                *turn += 1;
            }
        }
        // What is left over goes to the upstreams in turn.
        rest.sort_by_key(|(turn, _)| *turn);
        for (_, route) in rest {
            if !built.add(route, MAX_BYTES)
                && let Some(key) = key(route.upstream)
            {
                *built.left_out.entry(key).or_default() += 1;
            }
        }
        built
    }

    /// Adds a tool, unless the index would then take more than `most` bytes. Returns whether it was added.
    fn add(&mut self, route: &Route, most: usize) -> bool {
        let (Some(name), Some(definition)) = (&route.public, &route.public_definition) else { return true };
        let texts = texts(name, definition);
        let is_added = self.index.add(texts.iter().map(|(text, weight)| -> Field<'_> { (text, *weight) }), most);
        if is_added {
            self.names.push(name.clone());
        }
        is_added
    }

    /// Whether this is the index of the list of tools with this digest.
    pub(crate) fn is_of(&self, list_revision: &str) -> bool {
        self.list_revision == list_revision
    }

    /// Returns the routes of the tools that fit the query best and that `admits` lets pass, the best one first.
    pub(crate) fn search<'r>(
        &self,
        routes: &'r Routes,
        query: &str,
        limit: usize,
        admits: impl Fn(&Route) -> bool,
    ) -> Vec<&'r Arc<Route>> {
        let found = self.index.search(query).into_iter().filter_map(|document| {
            let name = self.names.get(usize::try_from(document).ok()?)?;
            routes.public(ItemKind::Tool, name)
        });
        found.filter(|route| admits(route)).take(limit).collect()
    }
}

/// Whether a search finds a tool: it has a public name, and is not for apps alone, which call it without a model.
fn is_found(route: &Route) -> bool {
    route.public.is_some()
        && route.public_definition.as_ref().is_some_and(|definition| !apps::is_for_apps_alone(definition))
}

/// Returns the texts of a tool's definition that are searched, with their weights.
fn texts(public: &str, definition: &RawValue) -> Vec<(String, f32)> {
    let [name, title, description, argument] = WEIGHTS;
    let mut texts = vec![(public.to_owned(), name)];
    let Ok(Value::Object(definition)) = serde_json::from_str(definition.get()) else { return texts };
    let mut add = |text: Option<&Value>, weight| {
        if let Some(Value::String(text)) = text {
            texts.push((text.clone(), weight));
        }
    };
    add(definition.get("title"), title);
    add(definition.get("annotations").and_then(|annotations| annotations.get("title")), title);
    add(definition.get("description"), description);
    if let Some(Value::Object(schema)) = definition.get("inputSchema") {
        // The root describes the arguments as a whole.
        add_schema(schema, &mut |text| add(Some(&Value::String(text.to_owned())), argument));
    }
    texts
}

/// Adds the names of arguments, and their titles and descriptions, at any depth. The depth of definitions is bounded.
fn add_schema(schema: &Map<String, Value>, add: &mut impl FnMut(&str)) {
    for text in ["title", "description"].iter().filter_map(|member| schema.get(*member)?.as_str()) {
        add(text);
    }
    for (member, value) in SCHEMAS.iter().filter_map(|member| schema.get_key_value(*member)) {
        match value {
            Value::Array(schemas) => {
                schemas.iter().filter_map(Value::as_object).for_each(|schema| add_schema(schema, add));
            }
            Value::Object(schemas)
                if matches!(&**member, "properties" | "patternProperties" | "$defs" | "definitions") =>
            {
                for (name, schema) in schemas {
                    if member == "properties" {
                        add(name);
                    }
                    schema.as_object().into_iter().for_each(|schema| add_schema(schema, add));
                }
            }
            Value::Object(schema) => add_schema(schema, add),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;
    use crate::domain::item::Item;
    use crate::domain::plan::PrefixMode;
    use crate::domain::route::Offer;

    fn tool(definition: &str) -> Item {
        Item::parse(ItemKind::Tool, &RawValue::from_string(definition.into()).unwrap()).unwrap()
    }

    fn routes(upstreams: &[(&str, Vec<Item>)]) -> Routes {
        let seen = BTreeSet::new();
        let offers: Vec<_> = upstreams
            .iter()
            .map(|(upstream, items)| Offer {
                keeps_names: false,
                upstream,
                items: items.iter().collect(),
                overrides: &[],
                filtered: HashMap::new(),
                ever_seen: &seen,
            })
            .collect();
        Routes::build(PrefixMode::Always, &[], &offers)
    }

    fn found(index: &ToolIndex, routes: &Routes, query: &str) -> String {
        let found = index.search(routes, query, 10, |_| true);
        found.iter().map(|route| route.public.clone().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tools_are_found_by_names_titles_descriptions_and_arguments() {
        let deep = r#"{"name":"deep","inputSchema":{"type":"object","description":"telescope","properties":{"outerName":
            {"anyOf":[{"$ref":"x"},{"type":"array","items":{"properties":{"innermost":{"description":"marmalade"}}}}]}},
            "$defs":{"x":{"title":"zeppelin","enum":["walrus"]}}}}"#;
        let odd = r#"{"name":"odd","title":7,"description":null,"annotations":[],"inputSchema":{"properties":[1]}}"#;
        let titled = r#"{"name":"t","title":"Harvest","description":"Reaps wheat.","annotations":{"title":"Sickle"}}"#;
        let routes = routes(&[("farm", vec![tool(titled), tool(odd)]), ("mines", vec![tool(deep)])]);
        let index = built(&routes);
        for query in ["outer", "innermost", "marmalade", "zeppelin", "telescope", "deep", "mines__deep"] {
            assert_eq!(found(&index, &routes, query), "mines__deep", "{query}");
        }
        for query in ["harvest", "SICKLE", "reaps", "wheats"] {
            assert_eq!(found(&index, &routes, query), "farm__t", "{query}");
        }
        assert_eq!(found(&index, &routes, "odd"), "farm__odd");
        assert_eq!(found(&index, &routes, "walrus x"), "", "values and references are not searched");
    }

    #[test]
    fn upstreams_with_many_words_take_no_room_from_others() {
        let many = |from: usize| (from..from + 4000).map(|n| format!("word{n} ")).collect::<String>();
        let large = |n: usize| tool(&format!(r#"{{"name":"t{n}","description":"{}"}}"#, many(n * 4000)));
        let of = |upstream: usize| (0..18).map(|n| large(upstream * 18 + n)).collect::<Vec<_>>();
        let names = ["a", "b", "c", "d", "e"];
        let mut offers: Vec<_> = names.iter().enumerate().map(|(at, name)| (*name, of(at))).collect();
        offers.push(("small", vec![tool(r#"{"name":"paint"}"#)]));
        let routes = routes(&offers);
        let index = built(&routes);
        assert_eq!(found(&index, &routes, "paint"), "small__paint");
        // What there is no room for is shared fairly, but for a tool or two of what is left over.
        assert!(index.left_out.values().all(|count| (1..9).contains(count)), "{:?}", index.left_out);
        assert_eq!(index.left_out.len(), 5, "{:?}", index.left_out);
        assert!(index.index.bytes() <= MAX_BYTES);
    }

    #[test]
    fn one_large_upstream_has_the_room_that_others_leave() {
        let many = |from: usize| (from..from + 4000).map(|n| format!("word{n} ")).collect::<String>();
        let large =
            (0..40).map(|n| tool(&format!(r#"{{"name":"t{n}","description":"{}"}}"#, many(n * 4000)))).collect();
        let routes = routes(&[("large", large), ("small", vec![tool(r#"{"name":"paint"}"#)])]);
        assert!(built(&routes).left_out.is_empty());
    }

    #[tokio::test]
    async fn the_index_before_stays_until_one_can_be_built_of_another_list() {
        let kept = KeptIndex::default();
        let of = async |revision: &str, built: Option<&str>| {
            let tools = built.map(|name| routes(&[("up", vec![tool(&format!(r#"{{"name":"{name}"}}"#))])]));
            let mut is_tried = false;
            let build = async || {
                is_tried = true;
                tools.map(|tools| ToolIndex::build(&tools, |_| None))
            };
            let index = kept.of(revision, build).await;
            let is_newest = index.as_ref().is_some_and(|index| index.is_of(revision));
            assert_eq!(is_newest, is_tried && built.is_some());
            (is_tried, index.map(|index| index.names.join(" ")))
        };
        assert_eq!(of("first", None).await, (true, None), "there was none before");
        let paint = Some("up__paint".to_owned());
        assert_eq!(of("second", Some("paint")).await, (true, paint.clone()));
        assert_eq!(of("third", None).await, (true, paint.clone()));
        assert_eq!(of("third", Some("glue")).await, (false, paint), "that is tried once for a list");
        assert_eq!(of("fourth", Some("glue")).await, (true, Some("up__glue".to_owned())));
    }

    #[test]
    fn tools_for_apps_alone_are_not_found() {
        let paint = |name: &str, visibility: &str| {
            tool(&format!(
                r#"{{"name":"{name}","description":"paints","_meta":{{"ui":{{"visibility":{visibility}}}}}}}"#
            ))
        };
        let all = [("app", r#"["app"]"#), ("both", r#"["app","model"]"#), ("none", "[]"), ("odd", r#""app""#)];
        let routes = routes(&[("up", all.map(|(name, visibility)| paint(name, visibility)).into())]);
        assert_eq!(found(&built(&routes), &routes, "paints"), "up__both up__none up__odd");
    }

    fn built(routes: &Routes) -> ToolIndex {
        ToolIndex::build(routes, |upstream| Some(ObjectKey::new("default", upstream.to_string())))
    }
}
