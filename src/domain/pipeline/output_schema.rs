//! The schema of the output of a pipeline.

use serde_json::Value;

use crate::domain::reason::Reason;
use crate::domain::schema::PreparedSchema;

/// Checks a schema (document 002, rules 10 and 11).
///
/// # Errors
/// The reason, and why.
pub fn check_output_schema(schema: &str) -> Result<(), (Reason, String)> {
    let invalid = |why: String| (Reason::InvalidSchema, format!("not a JSON Schema of an object: {why}"));
    PreparedSchema::parse(schema).and_then(|schema| schema.compile()).map_err(|why| invalid(why.to_string()))?;
    let parsed: Value = serde_json::from_str(schema).map_err(|why| invalid(why.to_string()))?;
    if parsed["type"] != "object" {
        return Err(invalid("its type is not object".to_owned()));
    }
    match parsed.pointer("/properties/sources") {
        Some(_) => Ok(()),
        None => Err((Reason::MissingSources, "no property sources: citations could not be followed".into())),
    }
}
