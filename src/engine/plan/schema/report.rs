//! What is said of arguments that do not fit.

use std::fmt;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::schema::{BoundedSchema, shortened, without_value};
use crate::domain::skim::Skim;

/// The maximum number of mismatches that one error lists.
const MAX_PLACES: usize = 10;

/// Returns the places that do not fit, one per line.
pub(super) fn places(schema: &BoundedSchema, value: &Value, line: impl Fn(&ValidationError<'_>) -> String) -> String {
    let mut lines: Vec<_> = schema.mismatches(value).take(MAX_PLACES).map(|error| line(&error)).collect();
    lines.dedup();
    lines.join("\n")
}

/// Returns the name of the argument whose text is the longest.
pub(super) fn largest(arguments: &str) -> Option<String> {
    let arguments: &RawValue = serde_json::from_str(arguments).ok()?;
    let members = Skim::from(arguments).members()?;
    let (name, _) = members.max_by_key(|(_, value)| value.get().len())?;
    name.map(|name| name.to_string())
}

/// Returns the line about one place.
pub(super) fn line(place: &str, what: &dyn fmt::Display) -> String {
    shortened(&format_args!("arguments{place}: {what}"))
}

/// Whether a mismatch is about an argument that `is_hidden` names: its value, or that it is missing.
pub(super) fn concerns(error: &ValidationError<'_>, is_hidden: impl Fn(&str) -> bool) -> bool {
    match (first_member(error), error.kind()) {
        (Some(member), _) => is_hidden(&member),
        (None, ValidationErrorKind::Required { property }) => property.as_str().is_some_and(is_hidden),
        _ => false,
    }
}

/// Returns the name of the argument that a mismatch is in.
pub(super) fn first_member(error: &ValidationError<'_>) -> Option<String> {
    match error.instance_path().segments().next()? {
        LocationSegment::Property(name) => Some(name.to_string()),
        LocationSegment::Index(_) => None,
    }
}

/// Describes a mismatch without the value. If the library's message would name members of the value, returns only the
/// keyword.
pub(super) fn without_values(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { .. }
        | ValidationErrorKind::UnevaluatedProperties { .. }
        | ValidationErrorKind::PropertyNames { .. }
        | ValidationErrorKind::Referencing(_) => format!("does not fit {:?} of the schema", error.kind().keyword()),
        _ => without_value(error),
    }
}
