//! Forms: the schema of a question to a user, and the check of the answer (MCP, elicitation).

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::domain::schema::{BoundedSchema, PreparedSchema, without_value};

/// The actions of an answer.
pub const ANSWERS: [&str; 3] = [ACCEPT, "decline", "cancel"];
/// The action of an answer with values.
const ACCEPT: &str = "accept";

/// The members of the schema of a form.
const OF_FORM: [&str; 7] =
    ["$schema", "type", "title", "description", "properties", "required", "additionalProperties"];
/// The members of every field.
const OF_FIELD: [&str; 4] = ["type", "title", "description", "default"];
/// The types of fields, each with its further members.
const FIELDS: [(&str, &[&str]); 5] = [
    ("string", &["minLength", "maxLength", "pattern", "format", "enum", "enumNames", "oneOf"]),
    ("number", &["minimum", "maximum"]),
    ("integer", &["minimum", "maximum"]),
    ("boolean", &[]),
    ("array", &["items", "minItems", "maxItems"]),
];
/// The members of a choice of `oneOf` or `anyOf`, and of the items of a list of choices.
const OF_CHOICE: [&str; 2] = ["const", "title"];
const OF_ITEMS: [&str; 3] = ["type", "enum", "anyOf"];

/// The schema of a question, with which its answer is checked.
pub struct Form {
    schema: BoundedSchema,
    fields: Vec<String>,
}

impl Form {
    /// Reads a schema: an object whose properties are texts, numbers, booleans and choices.
    ///
    /// # Errors
    /// The place that is wrong, and what is allowed. The message has names of the schema.
    pub fn parse(schema: &Value) -> Result<Self, String> {
        let wants = "schema: it must be {type: object, properties: {..}}";
        let members =
            schema.as_object().filter(|members| members.get("type") == Some(&json!("object"))).ok_or(wants)?;
        let fields = members.get("properties").and_then(Value::as_object).ok_or(wants)?;
        only(members, &OF_FORM).map_err(|why| format!("schema: {why}"))?;
        for (name, field) in fields {
            check_field(field).map_err(|why| format!("schema.properties.{name:.64}: {why}"))?;
        }
        let compiled = PreparedSchema::parse(&schema.to_string()).and_then(|schema| schema.compile());
        let schema = compiled.map_err(|why| format!("schema: {why}"))?;
        Ok(Self { schema, fields: fields.keys().cloned().collect() })
    }

    /// Reads the answer of a user. Returns `{action}`, and `content` with it if the action is `accept`.
    ///
    /// # Errors
    /// What is wrong. The message has names of the schema, and no values.
    pub fn read(&self, answer: &RawValue) -> Result<Value, String> {
        let mut answer: Map<String, Value> =
            serde_json::from_str(answer.get()).map_err(|_| "it is not a JSON object".to_owned())?;
        let action = answer.get("action").and_then(Value::as_str).unwrap_or_default();
        let Some(action) = ANSWERS.into_iter().find(|word| *word == action) else {
            return Err(format!("action: it is none of {}", ANSWERS.join(", ")));
        };
        if action != ACCEPT {
            return Ok(json!({"action": action}));
        }
        let content = answer.remove("content").filter(|content| !content.is_null()).unwrap_or_else(|| json!({}));
        let named = content.as_object().into_iter().flat_map(Map::keys);
        if named.into_iter().any(|name| !self.fields.contains(name)) {
            let fields = if self.fields.is_empty() { "none".to_owned() } else { self.fields.join(", ") };
            return Err(format!(
                "content: it has a member that the schema does not have; the schema has {fields:.512}"
            ));
        }
        match self.schema.mismatches(&content).next() {
            Some(error) => Err(format!("content{}: {}", error.instance_path(), without_value(&error))),
            None => Ok(json!({"action": action, "content": content})),
        }
    }
}

fn check_field(field: &Value) -> Result<(), String> {
    let types = "string, number, integer, boolean, or array of choices";
    let members = field.as_object().ok_or_else(|| format!("it must be an object with a type: {types}"))?;
    let kind = members.get("type").and_then(Value::as_str);
    let Some((kind, more)) = FIELDS.into_iter().find(|(name, _)| Some(*name) == kind) else {
        return Err(format!("type: it must be {types}"));
    };
    only(members, &[&OF_FIELD, more].concat())?;
    check_choices(members.get("oneOf"))?;
    if kind != "array" {
        return Ok(());
    }
    let items = members.get("items").and_then(Value::as_object);
    let items = items.filter(|items| items.contains_key("enum") || items.contains_key("anyOf"));
    let items = items.ok_or("items: a list is one of choices: give items.enum or items.anyOf")?;
    only(items, &OF_ITEMS).and_then(|()| check_choices(items.get("anyOf"))).map_err(|why| format!("items: {why}"))
}

/// Checks that choices are `{const, title}`.
fn check_choices(choices: Option<&Value>) -> Result<(), String> {
    let mut choices = choices.and_then(Value::as_array).into_iter().flatten();
    choices.try_for_each(|choice| {
        let choice = choice.as_object().filter(|choice| choice.contains_key("const"));
        only(choice.ok_or("a choice must be {const, title}")?, &OF_CHOICE)
    })
}

fn only(members: &Map<String, Value>, allowed: &[&str]) -> Result<(), String> {
    match members.keys().find(|name| !allowed.contains(&name.as_str())) {
        Some(name) => Err(format!("member {name:.64} is none of {}", allowed.join(", "))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::raw::to_raw;

    fn form(fields: &Value) -> Result<Form, String> {
        Form::parse(&json!({"type": "object", "properties": fields}))
    }

    #[test]
    fn a_form_is_an_object_of_flat_primitives() {
        for (field, words) in [
            (json!({"type": "string", "minLength": 1, "format": "email", "default": "a"}), ""),
            (json!({"type": "string", "enum": ["a"], "enumNames": ["A"]}), ""),
            (json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}), ""),
            (json!({"type": "integer", "minimum": 1, "title": "N"}), ""),
            (json!({"type": "boolean", "description": "d"}), ""),
            (json!({"type": "array", "items": {"type": "string", "enum": ["a"]}, "maxItems": 1}), ""),
            (json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}), ""),
            (json!({"type": "object", "properties": {}}), "schema.properties.x: type: it must be"),
            (json!({"type": "array", "items": {"type": "string"}}), "schema.properties.x: items: a list is one of"),
            (json!({"type": ["string", "null"]}), "schema.properties.x: type: it must be"),
            (json!({"type": "null"}), "schema.properties.x: type: it must be"),
            (json!({}), "schema.properties.x: type: it must be"),
            (json!("string"), "schema.properties.x: it must be an object"),
            (json!({"type": "number", "enum": [1]}), "schema.properties.x: member enum is none of"),
            (json!({"type": "string", "oneOf": [{"type": "object"}]}), "schema.properties.x: a choice must be"),
            (json!({"type": "string", "minLength": "1"}), "schema: it is not a JSON Schema"),
            (json!({"type": "string", "pattern": "(?=a)"}), "schema: the pattern"),
            (json!({"$ref": "#"}), "schema.properties.x: type: it must be"),
        ] {
            let why = form(&json!({"x": field})).err().unwrap_or_default();
            assert!(why.starts_with(words) && why.is_empty() == words.is_empty(), "{field}: {why}");
        }
        for schema in [json!({}), json!({"type": "object"}), json!([]), json!({"type": "string", "properties": {}})] {
            assert!(Form::parse(&schema).is_err_and(|why| why.starts_with("schema: it must be")), "{schema}");
        }
        let more = json!({"type": "object", "properties": {}, "allOf": []});
        assert!(Form::parse(&more).is_err_and(|why| why.starts_with("schema: member allOf")));
    }

    #[test]
    fn an_answer_has_one_of_three_actions_and_values_that_fit() {
        let schema = json!({"type": "object", "required": ["n"],
            "properties": {"n": {"type": "integer", "maximum": 9}, "s": {"type": "string"}}});
        let form = Form::parse(&schema).unwrap();
        for (answer, expected) in [
            (json!({"action": "accept", "content": {"n": 1}}), Ok(json!({"action": "accept", "content": {"n": 1}}))),
            (json!({"action": "decline", "content": {"n": "x"}}), Ok(json!({"action": "decline"}))),
            (json!({"action": "cancel", "_meta": {}}), Ok(json!({"action": "cancel"}))),
            (json!({"action": "yes"}), Err("action: it is none of accept, decline, cancel")),
            (json!({"action": "Accept"}), Err("action: it is none of")),
            (json!({}), Err("action: it is none of")),
            (json!([]), Err("it is not a JSON object")),
            (json!({"action": "accept"}), Err("content: \"n\" is a required property")),
            (json!({"action": "accept", "content": null}), Err("content: \"n\" is a required property")),
            (json!({"action": "accept", "content": [1]}), Err("content: value is not of type \"object\"")),
            (json!({"action": "accept", "content": {"n": "secret"}}), Err("content/n: value is not of type")),
            (json!({"action": "accept", "content": {"n": 10}}), Err("content/n: value is greater than")),
            (
                json!({"action": "accept", "content": {"n": 1, "secret": 1}}),
                Err("content: it has a member that the schema does not have; the schema has n, s"),
            ),
        ] {
            let found = form.read(&to_raw(&answer));
            match expected {
                Ok(expected) => assert_eq!(found, Ok(expected)),
                Err(words) => {
                    let why = found.unwrap_err();
                    assert!(why.starts_with(words) && !why.contains("secret"), "{answer}: {why}");
                }
            }
        }
    }
}
