//! Checks arguments against a tool's input schema before anything is sent.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{ValidationError, Validator};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::domain::raw::to_raw;

/// The maximum number of mismatches that one error lists.
const MAX_PLACES: usize = 10;
/// The length of a message, in bytes, from which on it does not contain the value.
const MAX_QUOTED: usize = 512;
/// The maximum number of characters that are said of one place.
const MAX_LINE: usize = 2048;
/// The largest schema that is enforced, in bytes.
const MAX_SCHEMA: usize = 256 * 1024;

/// The maximum size of a schema with its references expanded, in JSON values. A check may visit each of them.
const MAX_EXPANSION: u64 = 100_000;
/// The maximum number of nesting levels and followed references, counted together, on the way to any value of a schema.
const MAX_DEPTH: usize = 128;

/// Measures how large a schema is when its references are followed. A schema of a few lines can expand exponentially,
/// if each definition refers to the next one twice, and would take too long to check.
struct Expansion<'a> {
    root: &'a Value,
    /// The size of each reference; `None` while its target is being measured. A recursive reference counts as 1,
    /// because a check follows it only as deep as the arguments are.
    known: HashMap<&'a str, Option<u64>>,
}

impl<'a> Expansion<'a> {
    fn of(root: &'a Value) -> Self {
        Self { root, known: HashMap::new() }
    }

    fn size(&mut self, value: &'a Value, depth: usize) -> u64 {
        if depth > MAX_DEPTH {
            return u64::MAX;
        }
        match value {
            Value::Array(items) => self.sum(items.iter(), depth),
            Value::Object(members) => {
                let target = members.get("$ref").and_then(Value::as_str);
                let followed = target.map_or(0, |reference| self.follow(reference, depth));
                followed.saturating_add(self.sum(members.values(), depth))
            }
            _ => 1,
        }
    }

    fn sum(&mut self, values: impl Iterator<Item = &'a Value>, depth: usize) -> u64 {
        values.fold(1, |sum: u64, value| sum.saturating_add(self.size(value, depth + 1)))
    }

    fn follow(&mut self, reference: &'a str, depth: usize) -> u64 {
        if let Some(known) = self.known.get(reference) {
            return known.unwrap_or(1);
        }
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        // Only JSON Pointers into the same document are followed. The size behind any other reference is unknown.
        let Some(target) = target else { return u64::MAX };
        self.known.insert(reference, None);
        let size = self.size(target, depth + 1);
        self.known.insert(reference, Some(size));
        size
    }
}

/// The schema check of one tool's arguments. Later snapshots reuse it if the schema stays the same.
pub(crate) struct Arguments {
    schema: Option<Arc<RawValue>>,
    enforced: bool,
    validator: Option<Validator>,
    /// Why the schema cannot be enforced although it should be; `None` if it is enforced or does not have to be.
    pub(crate) not_enforced: Option<String>,
}

impl Arguments {
    /// Returns `old`, the earlier check of the tool with the same name, if the schema and `enforced` are the same.
    /// Otherwise compiles a new check.
    pub(crate) fn reuse_or_compile(
        schema: Option<&Arc<RawValue>>,
        enforced: bool,
        old: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let text = schema.map(|schema| schema.get());
        let same = |old: &&Arc<Self>| old.enforced == enforced && old.schema.as_deref().map(RawValue::get) == text;
        old.filter(same).cloned().unwrap_or_else(|| Arc::new(Self::compile(schema.cloned(), enforced)))
    }

    fn compile(schema: Option<Arc<RawValue>>, enforced: bool) -> Self {
        let compiled = schema.as_deref().filter(|_| enforced).map(|schema| {
            if schema.get().len() > MAX_SCHEMA {
                return Err(format!("it has more than {MAX_SCHEMA} bytes"));
            }
            let value: Value = serde_json::from_str(schema.get()).map_err(|e| e.to_string())?;
            if Expansion::of(&value).size(&value, 0) > MAX_EXPANSION {
                return Err(format!(
                    "its references unfold to more than {MAX_EXPANSION} places, or cannot be followed"
                ));
            }
            // References to other documents are not fetched: the library is built without network support.
            jsonschema::validator_for(&value).map_err(|e| e.to_string())
        });
        let (validator, not_enforced) = match compiled {
            Some(Ok(validator)) => (Some(validator), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        Self { schema, enforced, validator, not_enforced }
    }

    /// Checks `arguments`, a JSON text.
    ///
    /// # Errors
    /// The places that do not match the schema, one per line, so that a model can correct the arguments.
    pub(crate) fn check(&self, arguments: &str) -> Result<(), String> {
        self.judge(arguments, |error| cut(format!("arguments{}: {}", error.instance_path(), with_value(error))))
    }

    /// Like [`Self::check`], for arguments that a plugin changed. The plugin may have inserted values that the client
    /// must not see, such as a credential. So the error says where and what is wrong, but contains no values, and only
    /// those member names that occur in the schema.
    pub(crate) fn check_changed(&self, arguments: &str) -> Result<(), String> {
        self.judge(arguments, |error| format!("arguments{}: {}", self.known_place(error), without_values(error)))
    }

    /// Like [`Self::check_changed`], for arguments to which the gateway added values. Of arguments that `is_hidden`
    /// names, the error does not even contain the names.
    pub(crate) fn check_completed(&self, arguments: &str, is_hidden: impl Fn(&str) -> bool) -> Result<(), String> {
        self.judge(arguments, |error| {
            if concerns(error, &is_hidden) {
                "an argument that the gateway sets does not fit, and its owner has to correct that".to_owned()
            } else {
                format!("arguments{}: {}", self.known_place(error), without_values(error))
            }
        })
    }

    /// Whether the argument fits, whatever the others are: it has a value that the schema allows, and the schema does not
    /// forbid what it does not name.
    pub(crate) fn fits(&self, name: &str, value: &Value) -> bool {
        let Some(validator) = &self.validator else { return true };
        let arguments = json!({name: value});
        let concerns = |error: ValidationError<'_>| match (first_member(&error), error.kind()) {
            (Some(member), _) => member == name,
            (None, ValidationErrorKind::AdditionalProperties { unexpected }) => unexpected.iter().any(|it| it == name),
            _ => false,
        };
        !validator.iter_errors(&arguments).any(concerns)
    }

    /// Whether the schema is enforced.
    pub(crate) fn are_checked(&self) -> bool {
        self.validator.is_some()
    }

    fn known_place(&self, error: &ValidationError<'_>) -> String {
        let schema = self.schema.as_deref().map_or("", RawValue::get);
        let mut place = String::new();
        for segment in error.instance_path().segments() {
            place.push('/');
            match segment {
                LocationSegment::Property(name) if schema.contains(to_raw(&name).get()) => place.push_str(&name),
                LocationSegment::Property(_) => place.push('*'),
                LocationSegment::Index(index) => place.push_str(&index.to_string()),
            }
        }
        place
    }

    fn judge(&self, arguments: &str, line: impl Fn(&ValidationError<'_>) -> String) -> Result<(), String> {
        let Some(validator) = &self.validator else { return Ok(()) };
        let value: Value = serde_json::from_str(arguments).map_err(|e| format!("the arguments are not JSON: {e}"))?;
        if validator.is_valid(&value) {
            return Ok(());
        }
        let lines: Vec<_> = validator.iter_errors(&value).take(MAX_PLACES).map(|error| line(&error)).collect();
        Err(lines.join("\n"))
    }
}

/// Describes a mismatch with the value, unless that is long.
fn with_value(error: &ValidationError<'_>) -> String {
    let text = error.to_string();
    if text.len() > MAX_QUOTED { error.masked().to_string() } else { text }
}

/// Cuts what is said of one place.
fn cut(line: String) -> String {
    match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Whether a mismatch is about an argument that `is_hidden` names: its value, or that it is missing.
fn concerns(error: &ValidationError<'_>, is_hidden: impl Fn(&str) -> bool) -> bool {
    match (first_member(error), error.kind()) {
        (Some(member), _) => is_hidden(&member),
        (None, ValidationErrorKind::Required { property }) => property.as_str().is_some_and(is_hidden),
        _ => false,
    }
}

/// Returns the name of the argument that a mismatch is in.
fn first_member(error: &ValidationError<'_>) -> Option<String> {
    match error.instance_path().segments().next()? {
        LocationSegment::Property(name) => Some(name.to_string()),
        LocationSegment::Index(_) => None,
    }
}

/// Describes a mismatch without the value. If the library's message would name members of the value, returns only the
/// keyword.
fn without_values(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { .. }
        | ValidationErrorKind::UnevaluatedProperties { .. }
        | ValidationErrorKind::PropertyNames { .. }
        | ValidationErrorKind::Referencing(_) => format!("does not fit {:?} of the schema", error.kind().keyword()),
        _ => error.masked().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, arguments: &str) -> Result<(), String> {
        Arguments::compile(Some(RawValue::from_string(schema.into()).unwrap().into()), true).check(arguments)
    }

    #[test]
    fn names_each_place() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"string"}},"required":["c"]}"#;
        let error = check(schema, r#"{"a":"x","b":1}"#).unwrap_err();
        for place in ["arguments/a", "arguments/b", "\"c\" is a required property"] {
            assert!(error.contains(place), "{error}");
        }
        assert_eq!(check(schema, r#"{"c":1}"#), Ok(()));
    }

    #[test]
    fn long_values_and_names_are_not_repeated() {
        let schema =
            r#"{"type":"object","properties":{"a":{"type":"string","maxLength":9}},"additionalProperties":false}"#;
        let long = "x".repeat(100_000);
        assert!(check(schema, r#"{"a":"ten letters"}"#).unwrap_err().contains("ten letters"));
        let error = check(schema, &format!(r#"{{"a":"{long}"}}"#)).unwrap_err();
        assert_eq!(error, "arguments/a: value is longer than 9 characters");
        let error = check(schema, &format!(r#"{{"{long}":1}}"#)).unwrap_err();
        assert!(error.len() < MAX_LINE + 9, "{}", error.len());
    }

    #[test]
    fn arguments_that_a_plugin_changed_are_not_quoted() {
        let schema = r#"{"type":"object","properties":{"token":{"type":"integer","maximum":5,"enum":[1],"const":1},
            "list":{"items":{"pattern":"^a$","maxLength":2,"format":"date"}},"map":{"additionalProperties":{"type":"null"}},
            "names":{"propertyNames":{"maxLength":3}},"one":{"oneOf":[{"type":"null"},{"type":"boolean"}]}},
            "additionalProperties":false,"required":["there"]}"#;
        let changed =
            r#"{"token":"sk-1","list":["sk-2"],"map":{"sk-3":"sk-4"},"names":{"sk-5":"sk-6"},"one":"sk-7","sk-8":1}"#;
        let compiled = Arguments::compile(Some(RawValue::from_string(schema.into()).unwrap().into()), true);
        let (own, error) = (compiled.check(changed).unwrap_err(), compiled.check_changed(changed).unwrap_err());
        assert!(own.contains("sk-1") && !error.contains("sk-"), "{error}");
        for place in
            ["arguments/token: ", "arguments/list/0: ", "arguments/map/*: ", "\"there\" is a required", "integer"]
        {
            assert!(error.contains(place), "{place}: {error}");
        }
    }

    #[test]
    fn a_schema_that_unfolds_without_end_is_not_enforced() {
        let mut definitions = serde_json::Map::new();
        for n in 0..40 {
            let next = serde_json::json!({"$ref": format!("#/$defs/d{}", n + 1)});
            definitions.insert(format!("d{n}"), serde_json::json!({"allOf": [next, next]}));
        }
        definitions.insert("d40".into(), serde_json::json!({"type": "string"}));
        let bomb = serde_json::json!({"$defs": definitions, "properties": {"x": {"$ref": "#/$defs/d0"}}});
        let arguments = Arguments::compile(Some(RawValue::from_string(bomb.to_string()).unwrap().into()), true);
        assert!(arguments.not_enforced.as_ref().is_some_and(|why| why.contains("unfold")));
        assert_eq!(arguments.check(r#"{"x":"a"}"#), Ok(()));
        let tree = r##"{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}}}"##;
        assert!(check(tree, r#"{"next":{"next":{}}}"#).is_ok() && check(tree, r#"{"next":{"next":1}}"#).is_err());
    }

    #[test]
    fn a_chain_of_references_is_followed_to_a_depth() {
        let chain = |links: usize| {
            let next = |n: usize| serde_json::json!({"$ref": format!("#/$defs/d{n}")});
            let mut definitions: serde_json::Map<_, _> = (0..links).map(|n| (format!("d{n}"), next(n + 1))).collect();
            definitions.insert(format!("d{links}"), serde_json::json!({"type": "object"}));
            let schema = serde_json::json!({"$defs": definitions, "$ref": "#/$defs/d0"});
            Arguments::compile(Some(RawValue::from_string(schema.to_string()).unwrap().into()), true).not_enforced
        };
        assert_eq!(chain(100), None);
        assert!(chain(MAX_DEPTH + 1).is_some_and(|why| why.contains("unfold")));
    }

    #[test]
    fn an_invalid_schema_is_not_enforced_and_says_so() {
        for schema in [r#"{"type":"strin"}"#, r#"{"$ref":"https://example.com/schema.json"}"#] {
            let arguments = Arguments::compile(Some(RawValue::from_string(schema.into()).unwrap().into()), true);
            assert!(arguments.not_enforced.is_some(), "{schema}");
            assert_eq!(arguments.check("{}"), Ok(()));
        }
    }
}
