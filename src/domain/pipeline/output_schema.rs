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
        Some(sources) if sources.get("type").is_some_and(|kind| kind != "array") => {
            Err(invalid("/properties/sources: its type is not array".to_owned()))
        }
        Some(sources) if sources.pointer("/items/type").is_some_and(|kind| kind != "object") => {
            Err(invalid("/properties/sources/items: its type is not object, which sources are".to_owned()))
        }
        Some(_) => Ok(()),
        None => Err((Reason::MissingSources, "no property sources: citations could not be followed".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_a_list_of_objects() {
        for (sources, reason) in [
            (r#"{"type":"array"}"#, None),
            (r#"{"type":"array","items":{"type":"object"}}"#, None),
            ("{}", None),
            (r#"{"type":"string"}"#, Some(Reason::InvalidSchema)),
            (r#"{"type":"array","items":{"type":"string"}}"#, Some(Reason::InvalidSchema)),
        ] {
            let schema = format!(r#"{{"type":"object","properties":{{"sources":{sources}}}}}"#);
            assert_eq!(check_output_schema(&schema).err().map(|(reason, _)| reason), reason, "{sources}");
        }
        let none = check_output_schema(r#"{"type":"object"}"#).unwrap_err();
        assert_eq!(none.0, Reason::MissingSources);
    }
}
