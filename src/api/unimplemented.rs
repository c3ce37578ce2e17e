//! The fields that this version accepts and does not implement. Lowering warns of them, or refuses what they protect; the
//! definitions and the reference say so in their descriptions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use crate::domain::ids::Kind;

/// A field, or some of its values.
pub struct Unimplemented {
    /// The kind of the objects that have the field.
    pub kind: Kind,
    /// The path of the field; `[]` stands for the items of a list.
    pub field: &'static str,
    /// The values that are not implemented; empty if none is.
    pub values: &'static [&'static str],
}

/// All of them. The list can only shrink.
pub const UNIMPLEMENTED: &[Unimplemented] = &[
    whole(Kind::MCPGateway, "spec.admin.console"),
    whole(Kind::MCPGateway, "spec.listeners[].tls.clientCASecretRef"),
    whole(Kind::MCPUpstream, "spec.knowledgeAssistant"),
    whole(Kind::MCPUpstream, "spec.vectorSearch"),
    values(Kind::Plugin, "spec.type", &["intent-classifier", "qa-handler", "update-handler"]),
    whole(Kind::PluginChain, "spec.entries[].canary"),
    whole(Kind::ToolPipeline, "spec.conversation"),
    whole(Kind::ToolPipeline, "spec.planned"),
];

const fn whole(kind: Kind, field: &'static str) -> Unimplemented {
    values(kind, field, &[])
}

const fn values(kind: Kind, field: &'static str, values: &'static [&'static str]) -> Unimplemented {
    Unimplemented { kind, field, values }
}

/// Whether the list has the field of an object, whose path has indexes.
pub fn is_listed(kind: Kind, field: &str) -> bool {
    let mut plain = String::with_capacity(field.len());
    for part in field.split_inclusive(']') {
        let (before, index) = part.split_once('[').unwrap_or((part, ""));
        plain.push_str(before);
        plain.push_str(if index.is_empty() { "" } else { "[]" });
    }
    UNIMPLEMENTED.iter().any(|unimplemented| unimplemented.kind == kind && unimplemented.field == plain)
}

/// Adds to the descriptions of a kind's fields that this version does not implement them. `schema` is that of the kind.
pub(super) fn mark(kind: &str, schema: &mut JSONSchemaProps) {
    for unimplemented in UNIMPLEMENTED.iter().filter(|unimplemented| unimplemented.kind.as_str() == kind) {
        let Some(field) = find(schema, unimplemented.field.trim_end_matches("[]")) else { continue };
        let note = match unimplemented.values {
            [] => "Not implemented in this version.".to_owned(),
            values => format!("Not implemented in this version: {}.", values.join(", ")),
        };
        let description = field.description.get_or_insert_default();
        *description = format!("{description} {note}").trim_start().to_owned();
    }
}

/// Returns the schema of the field at a path.
fn find<'s>(schema: &'s mut JSONSchemaProps, path: &str) -> Option<&'s mut JSONSchemaProps> {
    path.split('.').try_fold(schema, |schema, step| {
        let name = step.trim_end_matches("[]");
        let field = schema.properties.as_mut()?.get_mut(name)?;
        if name == step {
            return Some(field);
        }
        match (&mut field.items, &mut field.additional_properties) {
            (Some(JSONSchemaPropsOrArray::Schema(items)), _) => Some(&mut **items),
            (_, Some(JSONSchemaPropsOrBool::Schema(values))) => Some(&mut **values),
            _ => None,
        }
    })
}
