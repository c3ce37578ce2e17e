//! Whether a document is one that an API server with our definitions takes: the same schemas and rules, offline.
//!
//! CEL texts that users write (`when`) are only text here.

mod names;
mod schema;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kube_cel::{CompiledSchema, compile_schema, validate_compiled};
use serde_json::Value;

use self::schema::Node;
use crate::api::crds::crds;
use crate::domain::ids::ObjectId;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

pub use self::names::nearest;

/// At most so many Problems are told of one object.
pub const MAX_PROBLEMS: usize = 100;

/// What one kind's objects are checked by.
struct Definition {
    schema: Node,
    rules: CompiledSchema,
}

static DEFINITIONS: LazyLock<BTreeMap<String, Definition>> = LazyLock::new(|| {
    let schemas = crds().into_iter().filter_map(|crd| {
        let version = crd.spec.versions.into_iter().next()?;
        Some((crd.spec.names.kind, version.schema?.open_api_v3_schema?))
    });
    let definitions = schemas.map(|(kind, props)| {
        let rules = compile_schema(&serde_json::to_value(&props).unwrap_or_default());
        (kind, Definition { schema: schema::root(&props), rules })
    });
    definitions.collect()
});

/// Checks `document`, an object of a kind of ours. `previous` is the form of it that was last accepted: rules about
/// changes are asked where it is there. Rules are only asked of a document that fits its schema.
///
/// Of a kind that has no definition here, nothing is checked.
pub fn check(id: &ObjectId, document: &Value, previous: Option<&Value>) -> Vec<Problem> {
    let Some(definition) = DEFINITIONS.get(id.kind.as_str()) else { return Vec::new() };
    let findings = walk::walk(&definition.schema, document);
    let invalid =
        |(field, message): (String, String)| Problem::error(Reason::InvalidObject, id.clone(), field, message);
    if !findings.is_empty() {
        return findings.into_iter().map(invalid).collect();
    }
    let broken = validate_compiled(&definition.rules, document, previous).err().into_iter().flatten();
    broken.take(MAX_PROBLEMS).map(|rule| invalid((rule.field_path, rule.message))).collect()
}
