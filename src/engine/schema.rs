//! Arguments against a tool's input schema, before anything is sent.

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;
use serde_json::value::RawValue;

use super::snapshot::Snapshot;
use crate::domain::route::Route;

/// The most places that one answer names.
const MAX_PLACES: usize = 10;
/// The largest schema that is enforced, in bytes.
const MAX_SCHEMA: usize = 256 * 1024;

/// How a tool's arguments are checked.
pub(super) struct Arguments {
    schema: Option<Box<RawValue>>,
    enforced: bool,
    validator: Option<Validator>,
    /// Why a schema is not enforced although it should be.
    pub(super) not_enforced: Option<String>,
}

impl Arguments {
    /// The checks of the same tool in the previous snapshot where the schema is the same, else new ones.
    pub(super) fn reuse_or_compile(route: &Route, enforced: bool, previous: &Snapshot) -> Arc<Self> {
        let old = route.public.as_deref().and_then(|name| previous.routes.public(name));
        let old = old.map(|old| &previous.tools[old.index].arguments);
        let text = route.tool.input_schema.as_deref().map(RawValue::get);
        let same = |old: &&Arc<Self>| old.enforced == enforced && old.schema.as_deref().map(RawValue::get) == text;
        old.filter(same).cloned().unwrap_or_else(|| Arc::new(Self::compile(route.tool.input_schema.clone(), enforced)))
    }

    fn compile(schema: Option<Box<RawValue>>, enforced: bool) -> Self {
        let compiled = schema.as_deref().filter(|_| enforced).map(|schema| {
            if schema.get().len() > MAX_SCHEMA {
                return Err(format!("it has more than {MAX_SCHEMA} bytes"));
            }
            let value: Value = serde_json::from_str(schema.get()).map_err(|e| e.to_string())?;
            // References to the network are not fetched: the library is built without it.
            jsonschema::validator_for(&value).map_err(|e| e.to_string())
        });
        let (validator, not_enforced) = match compiled {
            Some(Ok(validator)) => (Some(validator), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        Self { schema, enforced, validator, not_enforced }
    }

    /// Checks `arguments` (JSON text).
    ///
    /// # Errors
    /// Each place that does not fit, one a line, so that a model can put it right.
    pub(super) fn check(&self, arguments: &str) -> Result<(), String> {
        let Some(validator) = &self.validator else { return Ok(()) };
        let value: Value = serde_json::from_str(arguments).map_err(|e| format!("the arguments are no JSON: {e}"))?;
        if validator.is_valid(&value) {
            return Ok(());
        }
        let mut lines: Vec<String> = Vec::new();
        for error in validator.iter_errors(&value).take(MAX_PLACES) {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "arguments".to_owned() } else { format!("arguments{place}") };
            lines.push(format!("{place}: {error}"));
        }
        Err(lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, arguments: &str) -> Result<(), String> {
        Arguments::compile(Some(RawValue::from_string(schema.into()).unwrap()), true).check(arguments)
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
    fn an_invalid_schema_is_not_enforced_and_says_so() {
        for schema in [r#"{"type":"strin"}"#, r#"{"$ref":"https://example.com/schema.json"}"#] {
            let arguments = Arguments::compile(Some(RawValue::from_string(schema.into()).unwrap()), true);
            assert!(arguments.not_enforced.is_some(), "{schema}");
            assert_eq!(arguments.check("{}"), Ok(()));
        }
    }
}
