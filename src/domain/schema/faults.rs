//! Finds what is wrong with a schema that providers of models would reject. They reject a whole request of a client for one tool
//! with such a schema.

use std::borrow::Cow;

use oxc_allocator::Allocator;
use oxc_regular_expression::{LiteralParser, Options};
use serde_json::Value;

use super::said::{shortened, with_value};
use super::unusable::MAX_SCHEMA;
use crate::domain::json::{JsonStep, Pointer};

/// Keywords with one schema, with a list of schemas, and with schemas by name (JSON Schema 2020-12, core and applicators).
pub(super) const ONE: [&str; 11] = [
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
pub(super) const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
pub(super) const MAPS: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Returns the place and the fault of a schema, a JSON text, that is not one of JSON Schema 2020-12, has a reference that leads
/// nowhere, or a pattern that is not one of ECMA-262; `None` if it has no fault, or is too large to be looked at.
pub fn schema_fault(schema: &str) -> Option<String> {
    if schema.len() > MAX_SCHEMA {
        return None;
    }
    let schema: Value = serde_json::from_str(schema).ok()?;
    if let Err(error) = jsonschema::draft202012::meta::validate(&schema) {
        return Some(format!("{}: {}", error.instance_path(), shortened(&with_value(&error))));
    }
    let mut steps = Vec::new();
    let fault = Faults { root: &schema }.find(&schema, &mut steps)?;
    Some(format!("{}: {fault}", Pointer(&steps)))
}

struct Faults<'a> {
    root: &'a Value,
}

impl Faults<'_> {
    /// Returns the first fault of a schema, and adds the steps that lead to it.
    fn find(&self, schema: &Value, steps: &mut Vec<JsonStep>) -> Option<String> {
        let members = schema.as_object()?;
        for (keyword, value) in members {
            steps.push(JsonStep::Member(keyword.clone()));
            let fault = match keyword.as_str() {
                "$ref" => value.as_str().and_then(|target| self.dangling(target)),
                "pattern" => value.as_str().and_then(unreadable),
                one if ONE.contains(&one) => self.find(value, steps),
                list if LISTS.contains(&list) => {
                    let schemas = value.as_array().into_iter().flatten().enumerate();
                    self.first(schemas.map(|(index, schema)| (JsonStep::Element(index), schema)), steps)
                }
                map if MAPS.contains(&map) => {
                    let schemas = value.as_object().into_iter().flatten();
                    let named = || schemas.clone().map(|(name, schema)| (JsonStep::Member(name.clone()), schema));
                    let names = value.as_object().into_iter().flatten().filter(|_| map == "patternProperties");
                    names.into_iter().find_map(|(name, _)| unreadable(name)).or_else(|| self.first(named(), steps))
                }
                _ => None,
            };
            if fault.is_some() {
                return fault;
            }
            steps.pop();
        }
        None
    }

    fn first<'v>(
        &self,
        schemas: impl Iterator<Item = (JsonStep, &'v Value)>,
        steps: &mut Vec<JsonStep>,
    ) -> Option<String> {
        for (step, schema) in schemas {
            steps.push(step);
            if let Some(fault) = self.find(schema, steps) {
                return Some(fault);
            }
            steps.pop();
        }
        None
    }

    /// Returns the fault of a reference within the document that leads nowhere. Others, and those by names, are not followed.
    fn dangling(&self, target: &str) -> Option<String> {
        let pointer = target.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))?;
        let pointer = percent_decoded(pointer)?;
        let is_found = self.root.pointer(&pointer).is_some();
        (!is_found).then(|| shortened(&format_args!("{target:?} leads to nothing in the schema")))
    }
}

/// Replaces percent-encoded bytes; `None` if they are no text.
pub(super) fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    // A query has the same encoding, but for `+` and `&`.
    let query = format!("={}", text.replace('+', "%2B").replace('&', "%26"));
    url::form_urlencoded::parse(query.as_bytes()).next().map(|(_, value)| Cow::Owned(value.into_owned()))
}

/// Returns the fault of a pattern that is none of ECMA-262, with the flag `u` or without.
fn unreadable(pattern: &str) -> Option<String> {
    let allocator = Allocator::default();
    let parse = |flags| LiteralParser::new(&allocator, pattern, flags, Options::default()).parse();
    if parse(Some("u")).is_ok() {
        return None;
    }
    let error = parse(None).err()?;
    Some(shortened(&format_args!("{pattern:?} is no pattern of ECMA-262: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_is_told_with_its_place() {
        let property = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
        for (schema, expected) in [
            (property(json!({"type": "int"})), "/properties/a/type: \"int\""),
            (property(json!({"type": "number", "exclusiveMinimum": true})), "/properties/a/exclusiveMinimum: true"),
            (property(json!({"type": "string", "required": true})), "/properties/a/required: true"),
            (property(json!({"$ref": "#/$defs/Missing"})), "/properties/a/$ref: \"#/$defs/Missing\" leads to nothing"),
            (property(json!({"pattern": "(?P<y>\\d{4})\\Z"})), "/properties/a/pattern: \"(?P<y>"),
            (property(json!({"patternProperties": {"[": {}}})), "/properties/a/patternProperties: \"[\""),
            (property(json!({"type": "string", "enum": null})), "/properties/a/enum: null"),
            (property(json!({"items": {"anyOf": [{}, {"$ref": "#/x"}]}})), "/properties/a/items/anyOf/1/$ref: "),
        ] {
            let fault = schema_fault(&schema.to_string()).unwrap();
            assert!(fault.starts_with(expected), "{schema}: {fault}");
        }
    }

    #[test]
    fn what_providers_accept_has_no_fault() {
        let property = |schema: Value| json!({"type": "object", "properties": {"a.b": schema}});
        for schema in [
            json!({"type": "object"}),
            json!({"oneOf": [{"type": "object"}, {"required": ["a"]}]}),
            property(json!({"type": "array"})),
            property(json!({"pattern": "^(?=.*\\d)(?<year>\\d{4})-\\k<year>$"})),
            property(json!({"pattern": "^[\\w.-]+$"})),
            property(json!({"pattern": "\\p{L}"})),
            property(json!({"enum": [{"$ref": "#/nowhere", "pattern": "["}], "description": "x".repeat(5000)})),
            property(json!({"$ref": "#/$defs/a~1b%20c"}))
                .as_object()
                .map(|all| {
                    let mut all = all.clone();
                    all.insert("$defs".into(), json!({"a/b c": {"$ref": "#"}}));
                    Value::Object(all)
                })
                .unwrap(),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "definitions": {}}),
        ] {
            assert_eq!(schema_fault(&schema.to_string()), None, "{schema}");
        }
    }
}
