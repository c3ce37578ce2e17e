//! Schemas of draft-07 and 2019-09 in the form of 2020-12, the only one that all providers of models accept. The drafts differ
//! in the keywords of tuples, which SDKs write without naming a draft, too.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::faults::{LISTS, MAPS, ONE, percent_decoded, schema_fault};
use super::unusable::MAX_SCHEMA;
use crate::domain::raw::{RawObject, to_raw};

const NEWEST: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keywords of 2020-12 that draft-07 does not have, and so ignores.
const NEWER_THAN_7: [&str; 13] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "contentSchema",
    "dependentRequired",
    "dependentSchemas",
    "maxContains",
    "minContains",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords that are no assertions, so that they stay beside a `$ref`, where draft-07 ignores assertions.
const BESIDE_REF: [&str; 10] =
    ["$comment", "$defs", "$id", "$ref", "$schema", "default", "definitions", "description", "examples", "title"];

/// Returns the form in 2020-12 of a schema that is none of 2020-12: it names draft-07 or 2019-09, or it names no draft and
/// draft-07 allows it. `None` if there is no such form.
///
/// # Errors
/// The place and the fault that the form has, like [`schema_fault`].
pub fn in_2020_12(schema: &RawValue) -> Option<Result<Box<RawValue>, String>> {
    if schema.get().len() > MAX_SCHEMA {
        return None;
    }
    let root: Value = serde_json::from_str(schema.get()).ok()?;
    let is_draft_7 = match root.get("$schema").map(|draft| draft.as_str().unwrap_or_default()) {
        Some(draft) if draft.contains("draft-07") => true,
        Some(draft) if draft.contains("2019-09") => false,
        Some(_) => return None,
        None if jsonschema::draft7::meta::is_valid(&root) => true,
        None => return None,
    };
    if jsonschema::draft202012::meta::is_valid(&root) {
        return None;
    }
    let form = Older { root: &root, is_draft_7 }.schema(schema, true);
    Some(schema_fault(form.get()).map_or(Ok(form), Err))
}

/// A schema of an older draft.
struct Older<'a> {
    root: &'a Value,
    is_draft_7: bool,
}

impl Older<'_> {
    fn schema(&self, schema: &RawValue, is_root: bool) -> Box<RawValue> {
        let Ok(members) = RawObject::parse(schema.get()) else { return schema.to_owned() };
        let is_tuple = members.get("items").is_some_and(is_list);
        let is_reference = self.is_draft_7 && members.get("$ref").is_some();
        let applies = |keyword: &str| {
            let is_ignored = self.is_draft_7 && NEWER_THAN_7.contains(&keyword);
            // Clients want the type of the arguments, which are an object anyway.
            let is_beside_ref = is_reference && !BESIDE_REF.contains(&keyword) && !(is_root && keyword == "type");
            !is_ignored && !is_beside_ref
        };
        let kept = members.iter().filter(|(keyword, _)| applies(keyword));
        kept.flat_map(|(keyword, value)| self.keyword(keyword, value, is_tuple)).collect::<RawObject>().to_raw()
    }

    /// Returns what becomes of a keyword.
    fn keyword(&self, keyword: &str, value: &RawValue, is_tuple: bool) -> Vec<(String, Box<RawValue>)> {
        let value = match keyword {
            "$schema" => to_raw(&NEWEST),
            "$ref" => {
                serde_json::from_str(value.get()).map_or(value.to_owned(), |it: String| to_raw(&self.target(&it)))
            }
            "items" if is_tuple => self.each(value),
            // Without a tuple, all drafts ignore it.
            "additionalItems" if !is_tuple => return Vec::new(),
            "dependencies" if self.is_draft_7 => return self.dependencies(value),
            "additionalItems" => self.schema(value, false),
            one if ONE.contains(&one) => self.schema(value, false),
            list if LISTS.contains(&list) => self.each(value),
            map if MAPS.contains(&map) => self.each(value),
            _ => value.to_owned(),
        };
        vec![(self.renamed(keyword, is_tuple).to_owned(), value)]
    }

    fn renamed<'k>(&self, keyword: &'k str, is_tuple: bool) -> &'k str {
        match keyword {
            "items" if is_tuple => "prefixItems",
            "additionalItems" if is_tuple => "items",
            "dependencies" if self.is_draft_7 => "dependentSchemas",
            other => other,
        }
    }

    /// Returns a list or a map of schemas.
    fn each(&self, schemas: &RawValue) -> Box<RawValue> {
        if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(schemas.get()) {
            return to_raw(&list.into_iter().map(|schema| self.schema(schema, false)).collect::<Vec<_>>());
        }
        let Ok(map) = RawObject::parse(schemas.get()) else { return schemas.to_owned() };
        map.iter().map(|(name, schema)| (name.to_owned(), self.schema(schema, false))).collect::<RawObject>().to_raw()
    }

    /// Returns the two keywords that `dependencies` became: one with names of members, one with schemas.
    fn dependencies(&self, value: &RawValue) -> Vec<(String, Box<RawValue>)> {
        let Ok(map) = RawObject::parse(value.get()) else { return vec![("dependencies".into(), value.to_owned())] };
        let required =
            map.iter().filter(|(_, value)| is_list(value)).map(|(name, it)| (name.to_owned(), it.to_owned()));
        let schemas = map.iter().filter(|(_, value)| !is_list(value));
        let schemas = schemas.map(|(name, schema)| (name.to_owned(), self.schema(schema, false)));
        let both = [("dependentRequired", required.collect::<RawObject>()), ("dependentSchemas", schemas.collect())];
        both.into_iter().filter(|(_, map)| !map.is_empty()).map(|(name, map)| (name.to_owned(), map.to_raw())).collect()
    }

    /// Returns a reference to the place that a schema has in the new form: SDKs refer to the first place of a schema that a tuple
    /// repeats.
    fn target(&self, reference: &str) -> String {
        let Some(pointer) = reference.strip_prefix("#/") else { return reference.to_owned() };
        let (mut target, mut node, mut is_schema) = ("#".to_owned(), Some(self.root), true);
        for step in pointer.split('/') {
            let decoded = percent_decoded(step).unwrap_or(Cow::Borrowed(step)).replace("~1", "/").replace("~0", "~");
            let is_tuple = node.is_some_and(|node| node["items"].is_array());
            target.push('/');
            target.push_str(if is_schema { self.renamed(step, is_tuple) } else { step });
            // Below a list or a map of schemas, the next step is a number or a name.
            let has_several = LISTS.contains(&&*decoded) || MAPS.contains(&&*decoded) || decoded == "dependencies";
            is_schema = !is_schema || !(has_several || decoded == "items" && is_tuple);
            node = node.and_then(|node| match node {
                Value::Array(list) => list.get(decoded.parse::<usize>().ok()?),
                node => node.get(&decoded),
            });
        }
        target
    }
}

fn is_list(value: &RawValue) -> bool {
    value.get().starts_with('[')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";
    const DRAFT_2019: &str = "https://json-schema.org/draft/2019-09/schema";

    /// Returns the form of a property's schema in a document of this draft, and checks that the document names the newest one.
    fn form(draft: Option<&str>, property: Value) -> Value {
        let mut schema = json!({"type": "object", "properties": {"p": property}});
        draft.into_iter().for_each(|draft| schema["$schema"] = draft.into());
        let form = in_2020_12(&to_raw(&schema)).unwrap().unwrap();
        let mut form: Value = serde_json::from_str(form.get()).unwrap();
        assert_eq!(form.get("$schema").and_then(Value::as_str), draft.map(|_| NEWEST));
        form["properties"]["p"].take()
    }

    #[test]
    fn keywords_become_those_that_mean_the_same() {
        let (a, b) = (json!({"type": "string"}), json!({"type": "number"}));
        let tuple = json!({"items": [a, b]});
        let old = [Some(DRAFT_7), Some(DRAFT_2019), None];
        let seven = [Some(DRAFT_7), None, None];
        for (drafts, property, expected) in [
            (old, tuple.clone(), json!({"prefixItems": [a, b]})),
            (old, json!({"items": [a], "additionalItems": false}), json!({"prefixItems": [a], "items": false})),
            (old, json!({"additionalItems": b, "items": [a]}), json!({"prefixItems": [a], "items": b})),
            (old, json!({"anyOf": [tuple], "additionalItems": a}), json!({"anyOf": [{"prefixItems": [a, b]}]})),
            (old, json!({"items": tuple}), json!({"items": {"prefixItems": [a, b]}})),
            (old, json!({"items": [tuple, {}]}), json!({"prefixItems": [{"prefixItems": [a, b]}, {}]})),
            (old, json!({"items": [a], "default": tuple}), json!({"prefixItems": [a], "default": tuple})),
            (
                seven,
                json!({"items": [a], "dependencies": {"x": ["y"], "z": tuple}}),
                json!({"prefixItems": [a], "dependentRequired": {"x": ["y"]}, "dependentSchemas": {"z": {"prefixItems": [a, b]}}}),
            ),
            (seven, json!({"items": [a], "minContains": 2}), json!({"prefixItems": [a]})),
            (
                [Some(DRAFT_2019); 3],
                json!({"items": [a], "minContains": 2}),
                json!({"prefixItems": [a], "minContains": 2}),
            ),
            (
                seven,
                json!({"items": [{"$ref": "#", "type": "null", "title": "x"}]}),
                json!({"prefixItems": [{"$ref": "#", "title": "x"}]}),
            ),
        ] {
            for draft in drafts {
                assert_eq!(form(draft, property.clone()), expected, "{draft:?} {property}");
            }
        }
    }

    #[test]
    fn references_lead_to_where_the_schema_is_now() {
        for (reference, expected) in [
            ("#/properties/p/items/0", "#/properties/p/prefixItems/0"),
            ("#/properties/p/items/1/properties/items", "#/properties/p/prefixItems/1/properties/items"),
            ("#/properties/p/additionalItems", "#/properties/p/items"),
            ("#/properties/items", "#/properties/items"),
            ("#/properties/p/dependencies/d", "#/properties/p/dependentSchemas/d"),
            ("#/properties/a~1%20b", "#/properties/a~1%20b"),
            ("#", "#"),
            ("other.json", "other.json"),
        ] {
            let p =
                json!({"items": [{}, {"properties": {"items": {}}}], "additionalItems": {}, "dependencies": {"d": {}}});
            let properties = json!({"p": p, "r": {"$ref": reference}, "items": {}, "a/ b": {}});
            let schema = json!({"type": "object", "properties": properties});
            let form = in_2020_12(&to_raw(&schema)).unwrap().unwrap();
            let form: Value = serde_json::from_str(form.get()).unwrap();
            assert_eq!(form["properties"]["r"]["$ref"], expected);
        }
    }

    #[test]
    fn other_schemas_have_no_form_of_their_own() {
        let tuple = |draft: &str| json!({"$schema": draft, "items": [{}]});
        for schema in [
            json!({"$schema": DRAFT_7, "type": "object", "definitions": {}, "dependencies": {"a": ["b"]}}),
            json!({"type": "int"}),
            json!({"items": [{}], "exclusiveMinimum": true}),
            tuple(NEWEST),
            tuple("http://json-schema.org/draft-04/schema#"),
            json!({"$schema": 7, "items": [{}]}),
        ] {
            assert!(in_2020_12(&to_raw(&schema)).is_none(), "{schema}");
        }
        let faulty = json!({"$schema": DRAFT_7, "items": [{"type": "int"}]});
        let fault = in_2020_12(&to_raw(&faulty)).unwrap().unwrap_err();
        assert!(fault.starts_with("/prefixItems/0/type: \"int\""), "{fault}");
    }

    #[test]
    fn what_is_kept_keeps_its_order_and_its_numbers() {
        let schema = r#"{"type":"object","z":1.0,"properties":{"b":{"items":[{}]},"a":{"maximum":1e2}}}"#;
        let form = in_2020_12(&RawValue::from_string(schema.into()).unwrap()).unwrap().unwrap();
        assert_eq!(form.get(), schema.replace("items", "prefixItems"));
    }
}
