//! Checks offline whether an API server with Hawsepipe's CustomResourceDefinitions would accept a document. The check
//! uses the schemas and validation rules of those definitions.
//!
//! CEL expressions that users write (`when`) are checked only as strings, not parsed.

mod depth;
mod schema;
#[cfg(test)]
mod tests;
mod walk;
mod words;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use kube_cel::{CompiledSchema, ErrorKind, compile_schema, validate_compiled};
use serde_json::Value;

use self::schema::SchemaNode;
use self::walk::{Finding, MAX_PROBLEMS};
use crate::api::crds::crds;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

pub use self::depth::MAX_DEPTH;
pub use crate::config::nearest::nearest;

/// The schema and the validation rules of one kind.
struct Definition {
    schema: SchemaNode,
    rules: CompiledSchema,
    /// The message of each validation rule, by the rule's CEL expression.
    messages: HashMap<String, String>,
}

static DEFINITIONS: LazyLock<BTreeMap<String, Definition>> = LazyLock::new(|| {
    let schemas = crds().into_iter().filter_map(|crd| {
        let version = crd.spec.versions.into_iter().next()?;
        Some((crd.spec.names.kind, version.schema?.open_api_v3_schema?))
    });
    let definitions = schemas.map(|(kind, props)| {
        let plain = serde_json::to_value(&props).unwrap_or_default();
        let mut messages = HashMap::new();
        collect_messages(&plain, &mut messages);
        (kind, Definition { schema: schema::root(&props), rules: compile_schema(&plain), messages })
    });
    definitions.collect()
});

fn collect_messages(schema: &Value, messages: &mut HashMap<String, String>) {
    let own = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    let text = |rule: &Value, member: &str| Some(rule.get(member)?.as_str()?.to_owned());
    messages.extend(own.filter_map(|rule| Some((text(rule, "rule")?, text(rule, "message")?))));
    match schema {
        Value::Object(members) => members.values().for_each(|member| collect_messages(member, messages)),
        Value::Array(items) => items.iter().for_each(|item| collect_messages(item, messages)),
        _ => {}
    }
}

impl Definition {
    /// Returns the fields that break a rule, each with the rule's message. A rule that cannot be evaluated, for example
    /// because it reads a missing field, counts as broken.
    fn broken(&self, document: &Value, previous: Option<&Value>) -> Vec<Finding> {
        let broken = validate_compiled(&self.rules, document, previous).err().into_iter().flatten();
        let told = broken.take(MAX_PROBLEMS).map(|broken| match broken.kind {
            ErrorKind::EvaluationError => {
                (broken.field_path, self.messages.get(&broken.rule).cloned().unwrap_or(broken.message))
            }
            _ => (broken.field_path, broken.message),
        });
        told.collect()
    }
}

/// Checks `document`, an object of one of Hawsepipe's kinds, and returns its Problems. `previous` is the object's last
/// accepted form; rules about changes are evaluated only if `previous` is given. As in an API server, null fields count
/// as absent, and rules are not evaluated if a violation of the schema makes this impossible. Each null field outside
/// `metadata` is reported as a warning.
///
/// Returns no Problems for an object of any other kind.
pub fn check(id: &ObjectId, document: &Value, previous: Option<&Value>) -> Vec<Problem> {
    let Some(definition) = DEFINITIONS.get(id.kind.as_str()) else { return Vec::new() };
    let found = walk::walk(&definition.schema, document);
    let invalid = |(field, message)| Problem::error(Reason::InvalidObject, id.clone(), field, message);
    let empty = |(field, message)| Problem::warning(Reason::InvalidObject, id.clone(), field, message);
    let mut problems: Vec<_> = depth::too_deep(document).into_iter().chain(found.faults).map(invalid).collect();
    if !found.stops {
        let previous = previous.map(|previous| without_nulls(id, previous));
        let document = without_nulls(id, document);
        problems.extend(definition.broken(&document, previous.as_deref()).into_iter().map(invalid));
    }
    problems.extend(found.empty.into_iter().map(empty));
    problems
}

/// Returns the fields of `applied` that no definition has and that are missing in `stored`, the same object as the API
/// server stored it, each with a message. The API server drops such fields, unless the client asks it to reject them.
pub fn dropped(kind: Kind, applied: &Value, stored: &Value) -> Vec<(String, String)> {
    let Some(definition) = DEFINITIONS.get(kind.as_str()) else { return Vec::new() };
    let unknown = |document| walk::walk(&definition.schema, document).unknown;
    let mut dropped = unknown(applied);
    if !dropped.is_empty() {
        let kept = unknown(stored);
        dropped.retain(|(field, _)| !field.starts_with("metadata.") && !kept.iter().any(|(kept, _)| kept == field));
    }
    dropped
}

/// Returns `document` without null values in fields that the schema of its kind contains. A document of an unknown kind
/// is returned unchanged.
pub fn without_nulls<'d>(id: &ObjectId, document: &'d Value) -> Cow<'d, Value> {
    match DEFINITIONS.get(id.kind.as_str()) {
        Some(definition) if holds_null(document) => Cow::Owned(definition.schema.without_nulls(document)),
        _ => Cow::Borrowed(document),
    }
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(members) => members.values().any(holds_null),
        _ => false,
    }
}
