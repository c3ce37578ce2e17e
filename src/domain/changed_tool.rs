//! What an override makes of a tool's definition. Arguments that the override hides are out of sight: they are removed
//! from the schema that clients see.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::item::{Item, ItemKind};
use super::plan::{ArgumentOverride, ToolOverride};
use super::raw::{RawObject, to_raw};
use super::skim::Skim;
use super::tokens::owned;

/// Keywords of a schema whose schemas describe the same value, one each; after them, those with a list of such schemas.
const ONE: [&str; 3] = ["if", "then", "else"];
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with a member for each property that must be there, besides `properties`.
const MAPS: [&str; 3] = ["dependentRequired", "dependentSchemas", "dependencies"];

/// Returns the tool as clients see it, but with the server's own name. The parts that the override does not change keep
/// their bytes.
pub fn changed(tool: &Item, change: &ToolOverride) -> Item {
    if !change.changes_definition() {
        return tool.clone();
    }
    let Ok(mut object) = RawObject::parse(tool.definition.get()) else { return tool.clone() };
    if let Some(title) = &change.title {
        object.set("title", to_raw(title));
    }
    if let Some(description) = description(&object, change) {
        object.set("description", to_raw(&description));
    }
    if !change.annotations.is_empty() {
        object.set("annotations", annotations(object.get("annotations"), change));
    }
    if change.answer.is_some() {
        // The answer is a text, and clients would expect it to have the structure that the schema describes.
        object.remove("outputSchema");
    }
    if let Some(schema) = object.get("inputSchema").filter(|_| !change.arguments.is_empty()) {
        let schema = without_hidden(&with_arguments(schema, &change.arguments), &change.arguments);
        object.set("inputSchema", schema);
    }
    Item::parse(ItemKind::Tool, &object.to_raw()).unwrap_or_else(|_| tool.clone())
}

/// Returns the tool without its output schema: plugins can change its results, and clients reject those that do not fit it.
pub fn without_output_schema(tool: Item) -> Item {
    let changed = Skim::from(&*tool.definition).with_members(&[("outputSchema", None)]).and_then(owned);
    Item { definition: changed.map_or(tool.definition, Arc::from), ..tool }
}

/// Returns the description, if the override changes it.
fn description(object: &RawObject, change: &ToolOverride) -> Option<String> {
    let Some(note) = &change.deprecated else { return change.description.clone() };
    let description = change.description.clone().or_else(|| object.get_str("description"));
    Some(match description.filter(|text| !text.is_empty()) {
        Some(description) => format!("{note}\n\n{description}"),
        None => note.clone(),
    })
}

/// Returns the server's annotations with those of the override.
fn annotations(written: Option<&RawValue>, change: &ToolOverride) -> Box<RawValue> {
    let mut object = written.and_then(|text| RawObject::parse(text.get()).ok()).unwrap_or_default();
    if let Ok(Value::Object(members)) = serde_json::to_value(&change.annotations) {
        members.iter().for_each(|(name, value)| object.set(name, to_raw(value)));
    }
    object.to_raw()
}

/// Returns the schema with the descriptions and values of arguments that clients see.
fn with_arguments(schema: &RawValue, arguments: &[ArgumentOverride]) -> Box<RawValue> {
    let shown = |argument: &&ArgumentOverride| !argument.hidden;
    let (Ok(mut schema), Some(mut properties)) = (RawObject::parse(schema.get()), properties(schema)) else {
        return schema.to_owned();
    };
    for argument in arguments.iter().filter(shown) {
        let property = properties.get(&argument.name).and_then(|property| RawObject::parse(property.get()).ok());
        let Some(mut property) = property else { continue };
        if let Some(description) = &argument.description {
            property.set("description", to_raw(description));
        }
        if let Some(value) = &argument.value {
            property.set("const", to_raw(value));
        }
        properties.set(&argument.name, property.to_raw());
    }
    schema.set("properties", properties.to_raw());
    let fixed: Vec<_> = arguments.iter().filter(|argument| argument.value.is_some()).map(|a| &*a.name).collect();
    require_none_of(&mut schema, &fixed);
    schema.to_raw()
}

fn properties(schema: &RawValue) -> Option<RawObject> {
    RawObject::parse(RawObject::parse(schema.get()).ok()?.get("properties")?.get()).ok()
}

/// Takes names out of `required`, and that out of the schema if no name is left.
fn require_none_of(schema: &mut RawObject, names: &[&str]) {
    let required = schema.get("required").and_then(|list| serde_json::from_str::<Vec<String>>(list.get()).ok());
    let Some(required) = required.filter(|list| list.iter().any(|name| names.contains(&&**name))) else { return };
    let left: Vec<_> = required.iter().filter(|name| !names.contains(&&***name)).collect();
    if left.is_empty() { schema.remove("required") } else { schema.set("required", to_raw(&left)) }
}

/// Returns the schema without the hidden arguments, wherever it describes the whole of the arguments.
fn without_hidden(schema: &RawValue, arguments: &[ArgumentOverride]) -> Box<RawValue> {
    let names: Vec<_> = arguments.iter().filter(|argument| argument.hidden).map(|argument| &*argument.name).collect();
    if names.is_empty() { schema.to_owned() } else { without(schema, &names) }
}

fn without(schema: &RawValue, names: &[&str]) -> Box<RawValue> {
    let Ok(mut object) = RawObject::parse(schema.get()) else { return schema.to_owned() };
    require_none_of(&mut object, names);
    for keyword in ["properties"].iter().chain(&MAPS) {
        let Some(mut map) = object.get(keyword).and_then(|map| RawObject::parse(map.get()).ok()) else { continue };
        names.iter().for_each(|name| map.remove(name));
        object.set(keyword, map.to_raw());
    }
    for keyword in ONE {
        let Some(inner) = object.get(keyword).map(|inner| without(inner, names)) else { continue };
        object.set(keyword, inner);
    }
    for keyword in LISTS {
        let list = object.get(keyword).and_then(|list| serde_json::from_str::<Vec<Box<RawValue>>>(list.get()).ok());
        let Some(list) = list else { continue };
        object.set(keyword, to_raw(&list.iter().map(|inner| without(inner, names)).collect::<Vec<_>>()));
    }
    object.to_raw()
}

/// Returns what of the override's arguments does not fit the schema that the server lists: the place of each argument in
/// the override, and the fault.
pub fn faults(listed: Option<&RawValue>, change: &ToolOverride) -> Vec<(usize, String)> {
    let Some(schema) = listed.and_then(|schema| RawObject::parse(schema.get()).ok()) else { return Vec::new() };
    let properties = schema.get("properties").and_then(|map| RawObject::parse(map.get()).ok()).unwrap_or_default();
    let required: Vec<String> =
        schema.get("required").and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    let fault = |argument: &ArgumentOverride| {
        let name = &argument.name;
        if properties.get(name).is_none() {
            let effect = if change.answer.is_some() {
                "that has no effect, since calls are answered here and nothing is sent"
            } else if argument.value.is_some() {
                "its value is sent all the same"
            } else if argument.hidden {
                "calls that have it are not sent all the same"
            } else {
                "clients see nothing of it"
            };
            Some(format!("the server's input schema of {} has no argument {name:?}: {effect}", change.name))
        } else if argument.hidden && argument.value.is_none() && required.contains(name) {
            Some(format!(
                "{name:?} is hidden and has no value, and the server requires it: calls of {} are not sent unless a plugin \
                 sets it",
                change.name
            ))
        } else {
            None
        }
    };
    change.arguments.iter().enumerate().filter_map(|(place, argument)| Some((place, fault(argument)?))).collect()
}

/// Checks that a client gave no argument that is hidden, and no other value than the fixed one.
///
/// # Errors
/// The places that do not fit, one per line.
pub fn check_given(arguments: &str, change: &ToolOverride) -> Result<(), String> {
    if change.arguments.is_empty() {
        return Ok(());
    }
    let given = RawObject::parse(arguments).map_err(|_| "arguments: must be an object".to_owned())?;
    let fault = |argument: &ArgumentOverride| {
        let (name, value) = (&argument.name, given.get(&argument.name)?);
        match &argument.value {
            _ if argument.hidden => Some(format!("arguments/{name}: the tool has no such argument")),
            Some(fixed) if serde_json::from_str(value.get()).ok().as_ref() != Some(fixed) => {
                Some(format!("arguments/{name}: is fixed to another value; leave it out"))
            }
            _ => None,
        }
    };
    let places: Vec<_> = change.arguments.iter().filter_map(fault).collect();
    if places.is_empty() { Ok(()) } else { Err(places.join("\n")) }
}

/// Returns the arguments with the fixed values, which replace what is there. Where none is fixed, the arguments keep
/// their bytes.
///
/// # Errors
/// If the arguments are not an object.
pub fn completed(arguments: &str, change: &ToolOverride) -> Result<Box<RawValue>, String> {
    let unreadable = |_| "arguments: must be an object".to_owned();
    let mut object = RawObject::parse(arguments).map_err(unreadable)?;
    if change.arguments.iter().all(|argument| argument.value.is_none()) {
        return RawValue::from_string(arguments.to_owned()).map_err(unreadable);
    }
    for argument in &change.arguments {
        if let Some(value) = &argument.value {
            object.set(&argument.name, to_raw(value));
        }
    }
    Ok(object.to_raw())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::plan::AnnotationsOverride;

    fn tool(definition: &str) -> Item {
        Item::parse(ItemKind::Tool, &RawValue::from_string(definition.into()).unwrap()).unwrap()
    }

    fn argument(name: &str, value: Option<Value>, hidden: bool) -> ArgumentOverride {
        ArgumentOverride { name: name.into(), value, hidden, description: None }
    }

    fn shown(definition: &Value, change: &ToolOverride) -> Value {
        serde_json::from_str(changed(&tool(&definition.to_string()), change).definition.get()).unwrap()
    }

    #[test]
    fn an_override_that_changes_no_part_of_the_definition_keeps_its_bytes() {
        let text = r#"{ "name": "a", "inputSchema": {"type":"object"} }"#;
        let change = ToolOverride { rename: Some("b".into()), timeout_ms: Some(1), ..ToolOverride::default() };
        assert_eq!(changed(&tool(text), &change).definition.get(), text);
    }

    #[test]
    fn annotations_are_replaced_one_by_one_and_count_as_hints() {
        let definition = r#"{"name":"a","annotations":{"readOnlyHint":true,"x":1.0,"openWorldHint":false}}"#;
        let annotations = AnnotationsOverride { read_only_hint: Some(false), ..AnnotationsOverride::default() };
        let item = changed(&tool(definition), &ToolOverride { annotations, ..ToolOverride::default() });
        let expected = r#"{"name":"a","annotations":{"readOnlyHint":false,"x":1.0,"openWorldHint":false}}"#;
        assert_eq!(item.definition.get(), expected);
        assert!(!item.hints.read_only && !item.hints.open_world && item.hints.destructive);
    }

    #[test]
    fn a_note_stands_before_the_description() {
        let description = |written: Value, own: Option<&str>| {
            let change = ToolOverride {
                deprecated: Some("Use b.".into()),
                description: own.map(str::to_owned),
                ..ToolOverride::default()
            };
            shown(&written, &change)["description"].as_str().unwrap().to_owned()
        };
        assert_eq!(description(json!({"name": "a", "description": "Reads."}), None), "Use b.\n\nReads.");
        assert_eq!(description(json!({"name": "a", "description": "Reads."}), Some("Ours.")), "Use b.\n\nOurs.");
        assert_eq!(description(json!({"name": "a"}), None), "Use b.");
        assert_eq!(description(json!({"name": "a", "description": ""}), None), "Use b.");
    }

    #[test]
    fn a_tool_with_an_answer_has_no_output_schema() {
        let change = ToolOverride { answer: Some("no".into()), ..ToolOverride::default() };
        let definition = json!({"name": "a", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}});
        assert_eq!(shown(&definition, &change), json!({"name": "a", "inputSchema": {"type": "object"}}));
    }

    #[test]
    fn hidden_arguments_are_nowhere_in_the_schema_and_fixed_ones_are_not_required() {
        let schema = json!({
            "type": "object", "required": ["path", "key", "mode"],
            "properties": {"path": {"type": "string"}, "key": {"type": "string"}, "mode": {"type": "string"}},
            "dependentRequired": {"key": ["path"]}, "allOf": [{"required": ["key"]}],
            "if": {"properties": {"key": {"const": "x"}}}, "then": {"required": ["key", "path"]},
        });
        let mut path = argument("path", None, false);
        path.description = Some("Where.".into());
        let arguments = vec![path, argument("key", Some(json!("sk")), true), argument("mode", Some(json!("r")), false)];
        let change = ToolOverride { arguments, ..ToolOverride::default() };
        let definition = shown(&json!({"name": "a", "inputSchema": schema}), &change);
        assert!(!definition.to_string().contains("key") && !definition.to_string().contains("sk"), "{definition}");
        assert_eq!(
            definition["inputSchema"],
            json!({
                "type": "object", "required": ["path"],
                "properties": {"path": {"type": "string", "description": "Where."}, "mode": {"type": "string", "const": "r"}},
                "dependentRequired": {}, "allOf": [{}], "if": {"properties": {}}, "then": {"required": ["path"]},
            })
        );
    }

    #[test]
    fn an_override_is_compared_with_the_schema_of_the_server() {
        let schema = r#"{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}"#;
        let schema = RawValue::from_string(schema.into()).unwrap();
        let arguments = vec![argument("a", Some(json!(1)), true), argument("b", None, true), argument("c", None, true)];
        let found = faults(Some(&schema), &ToolOverride { arguments, ..ToolOverride::default() });
        assert_eq!(found.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [1, 2]);
        assert!(found[0].1.contains("requires it") && found[1].1.contains("no argument \"c\""), "{found:?}");
    }

    #[test]
    fn a_client_gives_no_hidden_argument_and_no_other_value() {
        let arguments = vec![argument("key", Some(json!("sk")), true), argument("n", Some(json!(5)), false)];
        let change = ToolOverride { arguments, ..ToolOverride::default() };
        let check = |given: &str| check_given(given, &change);
        assert_eq!((check("{}"), check(r#"{"n":5,"other":1}"#)), (Ok(()), Ok(())));
        let both = check(r#"{"\u006bey":"sk","n":6}"#).unwrap_err();
        assert_eq!(
            both,
            "arguments/key: the tool has no such argument\narguments/n: is fixed to another value; leave it out"
        );
        assert_eq!(check("[]").unwrap_err(), "arguments: must be an object");
        assert_eq!(completed(r#"{"a":1.0,"key":2}"#, &change).unwrap().get(), r#"{"a":1.0,"key":"sk","n":5}"#);
    }
}
