//! Turns texts into the values that a schema wants in their place: models send `"5"` for `5`.

use serde_json::Value;

use crate::domain::json::doubled_key;
use crate::domain::skim::Skim;
use crate::domain::splice::Splice;
use crate::domain::tokens::{MAX_DEPTH, deeper_than};

/// How many levels of arguments are looked into, and how many references to follow one after another.
const LEVELS: usize = 16;
/// The deepest object or array that a text becomes.
const DEEPEST: usize = MAX_DEPTH / 2;

/// The schema of arguments of which some can have another type than text.
pub struct Coercion(Value);

/// The types that a schema allows, or `None` if it allows all.
type Types = Option<Vec<&'static str>>;

impl Coercion {
    /// Reads a schema; `None` if no argument that it names is coerced.
    pub fn of(schema: &str) -> Option<Self> {
        let coercion = Self(serde_json::from_str(schema).ok()?);
        coercion.has_other_than_text(&coercion.0, LEVELS).then_some(coercion)
    }

    /// Returns the arguments, a JSON text, in which each text is replaced that its schema does not allow and whose exact form it
    /// does: a number, `true`, `false`, `null`, or a JSON object or array without a key twice. Everything else keeps its bytes.
    /// `None` if nothing is replaced.
    pub fn coerced(&self, arguments: &str) -> Option<String> {
        let mut new = Splice::new(arguments);
        self.coerce(&self.0, Skim::of(arguments.as_bytes())?, &mut new, LEVELS);
        new.finish()
    }

    fn coerce(&self, schema: &Value, value: Skim<'_>, new: &mut Splice<'_>, levels: usize) {
        let Some(levels) = levels.checked_sub(1) else { return };
        if value.get().starts_with('"') {
            let exact = self.types(schema, levels).and_then(|types| exact(&value.text()?, &types));
            exact.into_iter().for_each(|exact| new.replace(value.get(), &exact));
            return;
        }
        let schema = self.sole(schema, if value.get().starts_with('{') { "object" } else { "array" }, levels);
        for element in value.elements().into_iter().flatten() {
            schema.get("items").into_iter().for_each(|items| self.coerce(items, element, new, levels));
        }
        for (name, member) in value.members().into_iter().flatten() {
            let inner =
                name.and_then(|name| schema.get("properties")?.get(&*name)).or(schema.get("additionalProperties"));
            inner.into_iter().for_each(|inner| self.coerce(inner, member, new, levels));
        }
    }

    /// Whether a place within the schema does not allow texts.
    fn has_other_than_text(&self, schema: &Value, levels: usize) -> bool {
        let Some(levels) = levels.checked_sub(1) else { return false };
        let schema = self.sole(schema, "object", levels);
        let inner = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.values());
        let mut inner = inner.chain(schema.get("items")).chain(schema.get("additionalProperties"));
        inner.any(|inner| {
            let types = self.types(inner, levels);
            types.is_some_and(|types| !types.contains(&"string")) || self.has_other_than_text(inner, levels)
        })
    }

    /// The types that a schema allows.
    fn types(&self, schema: &Value, levels: usize) -> Types {
        const NAMES: [&str; 7] = ["object", "array", "string", "integer", "number", "boolean", "null"];
        let levels = levels.checked_sub(1)?;
        let schema = self.followed(schema, levels);
        let known = |name: &Value| NAMES.into_iter().find(|known| name == *known);
        match (schema.get("type"), branches(schema)) {
            (Some(Value::Array(names)), _) => names.iter().map(known).collect(),
            (Some(name), _) => Some(vec![known(name)?]),
            (None, Some(branches)) => {
                let each = branches.iter().map(|branch| self.types(branch, levels));
                Some(each.collect::<Option<Vec<_>>>()?.concat())
            }
            (None, None) => None,
        }
    }

    /// The only branch of a schema that allows this type, or the schema itself.
    fn sole<'a>(&'a self, schema: &'a Value, kind: &str, levels: usize) -> &'a Value {
        let schema = self.followed(schema, levels);
        let fits = |branch: &&Value| self.types(branch, levels).is_none_or(|types| types.contains(&kind));
        let mut fitting = branches(schema).into_iter().flatten().filter(fits);
        match (fitting.next(), fitting.next()) {
            (Some(sole), None) => self.followed(sole, levels),
            _ => schema,
        }
    }

    /// The schema that a reference within the document leads to.
    fn followed<'a>(&'a self, schema: &'a Value, levels: usize) -> &'a Value {
        let mut schema = schema;
        for _ in 0..levels {
            let target = schema.get("$ref").and_then(|to| self.0.pointer(to.as_str()?.strip_prefix('#')?));
            let Some(target) = target else { break };
            schema = target;
        }
        schema
    }
}

fn branches(schema: &Value) -> Option<&Vec<Value>> {
    schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()
}

/// Returns a text as JSON if it is the exact form of a value of one of these types, none of which is text.
fn exact(text: &str, types: &[&str]) -> Option<String> {
    let json = Skim::of(text.as_bytes())?;
    let is_scalar = json.get() == text;
    let fits = |kind: &&str| match *kind {
        "integer" => is_scalar && text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit()),
        "number" => is_scalar && text.starts_with(|first: char| first == '-' || first.is_ascii_digit()),
        "boolean" => matches!(text, "true" | "false"),
        "null" => text == "null",
        "object" => json.get().starts_with('{'),
        "array" => json.get().starts_with('['),
        _ => false,
    };
    let is_plain = || !deeper_than(DEEPEST, text.as_bytes()) && doubled_key(text).is_none();
    (!types.contains(&"string") && types.iter().any(fits) && is_plain()).then(|| json.get().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn coerced(schema: &Value, arguments: &str) -> Option<String> {
        Coercion::of(&schema.to_string())?.coerced(arguments)
    }

    #[test]
    fn texts_become_what_the_schema_wants_and_all_else_keeps_its_bytes() {
        let kind = |kind: Value| json!({"properties": {"a": {"type": kind}}});
        let optional = |kind: &str| json!({"properties": {"a": {"anyOf": [{"type": kind}, {"type": "null"}]}}});
        for (schema, text, expected) in [
            (kind(json!("integer")), r#""5""#, "5"),
            (kind(json!("integer")), r#""-12345678901234567890""#, "-12345678901234567890"),
            (kind(json!("number")), r#""1.50e3""#, "1.50e3"),
            (kind(json!("boolean")), r#""true""#, "true"),
            (kind(json!(["boolean", "null"])), r#""null""#, "null"),
            (optional("integer"), r#""5""#, "5"),
            (kind(json!("object")), r#""{\"n\": 1.0}""#, r#"{"n": 1.0}"#),
            (kind(json!("array")), r#"" [1, \"\\u00e9\"]\n""#, r#"[1, "\u00e9"]"#),
        ] {
            let arguments = |value: &str| format!(r#"{{ "x":"5" , "a" : {value}, "n": 1.0 }}"#);
            assert_eq!(coerced(&schema, &arguments(text)), Some(arguments(expected)), "{schema}");
        }
    }

    #[test]
    fn nested_values_are_coerced_by_the_one_schema_that_can_be_meant() {
        let integer = json!({"type": "integer"});
        let item = json!({"type": "object", "properties": {"n": integer}});
        for schema in [
            json!({"$defs": {"i": item}, "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/i"}}}}),
            json!({"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "array", "items": item}]}}}),
            json!({"properties": {"a": {"items": {"additionalProperties": integer}}}}),
        ] {
            assert_eq!(coerced(&schema, r#"{"a":[{"n":"5"}]}"#).unwrap(), r#"{"a":[{"n":5}]}"#, "{schema}");
        }
        let loops = json!({"$defs": {"l": {"$ref": "#/$defs/l"}}, "properties": {"a": {"$ref": "#/$defs/l"}}});
        assert_eq!(coerced(&loops, r#"{"a":"5"}"#), None);
    }

    #[test]
    fn what_is_no_exact_form_or_may_be_text_stays() {
        let kind = |kind: Value| json!({"properties": {"a": {"type": kind}, "b": {"type": "integer"}}});
        for (schema, text) in [
            (kind(json!("integer")), r#""5.0""#),
            (kind(json!("integer")), r#"" 5""#),
            (kind(json!("integer")), r#""05""#),
            (kind(json!("integer")), r#""five""#),
            (kind(json!("integer")), "5.5"),
            (kind(json!("boolean")), r#""True""#),
            (kind(json!("boolean")), "1"),
            (kind(json!(["integer", "string"])), r#""5""#),
            (kind(json!("object")), r#""[]""#),
            (kind(json!("object")), r#""{\"a\":1,\"a\":2}""#),
            (kind(json!("object")), r#""{\"a\":""#),
            (json!({"properties": {"a": {}, "b": {"type": "integer"}}}), r#""5""#),
            (json!({"properties": {"a": {"anyOf": [{"type": "integer"}, {}]}, "b": {"type": "integer"}}}), r#""5""#),
        ] {
            assert_eq!(coerced(&schema, &format!(r#"{{"a":{text}}}"#)), None, "{schema} {text}");
        }
        assert!(Coercion::of(r#"{"properties":{"a":{"type":"string"}}}"#).is_none());
    }
}
