//! The index in which `search_tools` finds tools (`toolDiscovery: Search`). It is built with the snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::link::Linked;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::item::ItemKind;
use crate::domain::plan::ToolDiscovery;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::route::{Route, Routes};
use crate::domain::search::{Field, SearchIndex};

/// About how many bytes the index takes at most.
const MAX_BYTES: usize = 32 << 20;
/// About how many bytes of the index are about tools of one upstream at most.
const MAX_OF_ONE: usize = 8 << 20;
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
    /// The digest of the list of tools that the index was built from.
    list_revision: String,
    /// The public name of each document.
    names: Vec<String>,
    /// How many tools there was no room for, by the index of their upstream.
    left_out: BTreeMap<usize, usize>,
}

impl ToolIndex {
    /// Returns the index of the tools of these routes, whose digest is `list_revision`; `None` if clients see all tools.
    /// If `old` is of the same tools, returns that.
    pub(super) fn of(
        linked: &Linked,
        routes: &Routes,
        list_revision: &str,
        old: Option<&Arc<Self>>,
    ) -> Option<Arc<Self>> {
        if linked.plan.gateway.tool_discovery == ToolDiscovery::All {
            return None;
        }
        let same = old.filter(|old| old.list_revision == list_revision);
        Some(same.cloned().unwrap_or_else(|| Arc::new(Self::build(routes, list_revision))))
    }

    fn build(routes: &Routes, list_revision: &str) -> Self {
        let mut built = Self { list_revision: list_revision.to_owned(), ..Self::default() };
        let mut bytes: BTreeMap<usize, usize> = BTreeMap::new();
        for route in routes.tools() {
            let (Some(name), Some(definition)) = (&route.public, &route.public_definition) else { continue };
            let used = bytes.entry(route.upstream).or_default();
            let before = built.index.bytes();
            let most = MAX_BYTES.min(before + MAX_OF_ONE.saturating_sub(*used));
            if built
                .index
                .add(texts(name, definition).iter().map(|(text, weight)| -> Field<'_> { (text, *weight) }), most)
            {
                built.names.push(name.clone());
                *used += built.index.bytes() - before;
            } else {
                *built.left_out.entry(route.upstream).or_default() += 1;
            }
        }
        built
    }

    /// Returns the routes of the tools that fit the query best, the best one first.
    pub(crate) fn search<'r>(&self, routes: &'r Routes, query: &str, limit: usize) -> Vec<&'r Arc<Route>> {
        let found = self.index.search(query, limit).into_iter().filter_map(|document| {
            let name = self.names.get(usize::try_from(document).ok()?)?;
            routes.public(ItemKind::Tool, name)
        });
        found.collect()
    }

    /// Warns about upstreams with tools that are not found.
    pub(super) fn problems(&self, linked: &Linked) -> Vec<Problem> {
        let warnings = self.left_out.iter().filter_map(|(upstream, count)| {
            // The index may be one of a plan with other upstreams.
            let key = linked.upstreams.get(*upstream)?.target.plan.key.clone();
            let message = format!(
                "{count} of its tools are not found by search_tools: their definitions, or those of the tools before them, have \
                 too many words. They can be called by their names. Leave out what nobody needs (spec.tools.exclude)"
            );
            Some(Problem::warning(Reason::InvalidTool, ObjectId::new(Kind::MCPUpstream, key), "spec.tools", message))
        });
        warnings.collect()
    }
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
        let found = index.search(routes, query, 10);
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
        let index = ToolIndex::build(&routes, "1");
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
    fn an_upstream_with_many_words_takes_no_room_from_others() {
        let many = |from: usize| (from..from + 3000).map(|n| format!("word{n} ")).collect::<String>();
        let large = |n: usize| tool(&format!(r#"{{"name":"t{n}","description":"{}"}}"#, many(n * 3000)));
        let routes = routes(&[("large", (0..40).map(large).collect()), ("small", vec![tool(r#"{"name":"paint"}"#)])]);
        let index = ToolIndex::build(&routes, "1");
        assert_eq!(found(&index, &routes, "paint"), "small__paint");
        assert_eq!(index.left_out.keys().collect::<Vec<_>>(), [&0]);
        assert!(index.left_out[&0] < 40 && index.index.bytes() < MAX_OF_ONE + 1024);
    }
}
