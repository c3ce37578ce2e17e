//! Checks whether clients can read the definition of an item, and removes members that some clients cannot read. Most
//! clients validate a list as a whole, so one invalid definition would hide the items of all upstreams from them.

use serde_json::value::RawValue;

use super::item::ItemKind;
use super::raw::RawObject;
use super::skim::Skim;
use super::tokens::owned;

/// A JSON type that a member of a definition can be required to have. Only the type of the value itself is checked, not
/// what the value contains.
#[derive(Clone, Copy)]
enum JsonType {
    Text,
    Flag,
    Number,
    Object,
    List,
}

impl JsonType {
    fn is_of(self, value: &RawValue) -> bool {
        let text = value.get();
        match self {
            Self::Text => text.starts_with('"'),
            Self::Flag => matches!(text, "true" | "false"),
            Self::Number => text.starts_with(|first: char| first == '-' || first.is_ascii_digit()),
            Self::Object => text.starts_with('{'),
            Self::List => text.starts_with('['),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Flag => "true or false",
            Self::Number => "a number",
            Self::Object => "an object",
            Self::List => "a list",
        }
    }
}

/// Members of a tool definition, each with the JSON type that clients expect (MCP, `Tool`).
const TOOL: [(&str, JsonType); 8] = [
    ("title", JsonType::Text),
    ("description", JsonType::Text),
    ("inputSchema", JsonType::Object),
    ("outputSchema", JsonType::Object),
    ("annotations", JsonType::Object),
    ("execution", JsonType::Object),
    ("icons", JsonType::List),
    ("_meta", JsonType::Object),
];
/// Members of a prompt's definition (MCP, `Prompt`).
const PROMPT: [(&str, JsonType); 5] = [
    ("title", JsonType::Text),
    ("description", JsonType::Text),
    ("arguments", JsonType::List),
    ("icons", JsonType::List),
    ("_meta", JsonType::Object),
];
/// Members of one element of a prompt's `arguments` (MCP, `PromptArgument`).
const PROMPT_ARGUMENT: [(&str, JsonType); 4] = [
    ("name", JsonType::Text),
    ("title", JsonType::Text),
    ("description", JsonType::Text),
    ("required", JsonType::Flag),
];
/// Members of the definition of a resource or of a template (MCP, `Resource`, `ResourceTemplate`).
const RESOURCE: [(&str, JsonType); 8] = [
    ("name", JsonType::Text),
    ("title", JsonType::Text),
    ("description", JsonType::Text),
    ("mimeType", JsonType::Text),
    ("size", JsonType::Number),
    ("annotations", JsonType::Object),
    ("icons", JsonType::List),
    ("_meta", JsonType::Object),
];
/// Members of a tool's `annotations`, each with the JSON type that clients expect (MCP, `ToolAnnotations`).
const ANNOTATIONS: [(&str, JsonType); 5] = [
    ("title", JsonType::Text),
    ("readOnlyHint", JsonType::Flag),
    ("destructiveHint", JsonType::Flag),
    ("idempotentHint", JsonType::Flag),
    ("openWorldHint", JsonType::Flag),
];

/// Returns the definition in a form that clients can read: optional members that are null are removed. The error names the
/// part that clients cannot read, or says why no client can call the tool.
pub fn for_clients(kind: ItemKind, definition: &RawValue) -> Result<Box<RawValue>, String> {
    let mut object = RawObject::parse(definition.get()).map_err(|_| "its definition is not an object".to_owned())?;
    let members: &[_] = match kind {
        ItemKind::Tool => &TOOL,
        ItemKind::Prompt => &PROMPT,
        ItemKind::Resource | ItemKind::Template => &RESOURCE,
    };
    let nulls = members.iter().map(|(name, _)| *name).filter(|name| is_null(&object, name));
    let dropped: Vec<_> = nulls.collect();
    dropped.iter().for_each(|name| object.remove(name));
    check(&object, "", members)?;
    match kind {
        ItemKind::Tool => check_tool(&object)?,
        ItemKind::Prompt => check_arguments(&object)?,
        ItemKind::Resource | ItemKind::Template => {
            object.get("name").ok_or("its name is missing")?;
        }
    }
    Ok(if dropped.is_empty() { definition.to_owned() } else { object.to_raw() })
}

/// Returns the definition of a tool for clients of the legacy era, whose output schemas have the type `object`; `None` if it is
/// the same.
pub fn for_legacy_clients(definition: &RawValue) -> Option<Box<RawValue>> {
    let definition = Skim::from(definition);
    let schema = definition.member("outputSchema")?;
    let is_of_object = schema.member("type").and_then(Skim::text).is_some_and(|kind| kind == "object");
    if is_of_object { None } else { owned(definition.with_members(&[("outputSchema", None)])?) }
}

/// Checks the members that only tools have.
fn check_tool(object: &RawObject) -> Result<(), String> {
    let input = object.get("inputSchema").ok_or("its inputSchema is missing")?;
    check_schema(input, "inputSchema")?;
    if let Some(output) = object.get("outputSchema").filter(|output| is_of_object(output)) {
        check_schema(output, "outputSchema")?;
    }
    if let Some(annotations) = object.get("annotations") {
        check(&parse(annotations)?, "annotations.", &ANNOTATIONS)?;
    }
    check_execution(object)
}

fn check_arguments(object: &RawObject) -> Result<(), String> {
    let Some(arguments) = object.get("arguments") else { return Ok(()) };
    let unreadable = "its arguments must be a list of objects";
    for (index, argument) in Skim::from(arguments).elements().ok_or(unreadable)?.enumerate() {
        let argument = &RawObject::parse(argument.get()).map_err(|_| unreadable)?;
        argument.get("name").ok_or_else(|| format!("its arguments[{index}].name is missing"))?;
        check(argument, &format!("arguments[{index}]."), &PROMPT_ARGUMENT)?;
    }
    Ok(())
}

fn is_null(object: &RawObject, name: &str) -> bool {
    object.get(name).is_some_and(|value| value.get() == "null")
}

fn parse(value: &RawValue) -> Result<RawObject, String> {
    RawObject::parse(value.get()).map_err(|_| "its definition cannot be read".to_owned())
}

fn check(object: &RawObject, path: &str, members: &[(&str, JsonType)]) -> Result<(), String> {
    let wrong = |(name, kind): &&(&str, JsonType)| object.get(name).is_some_and(|value| !kind.is_of(value));
    match members.iter().find(wrong) {
        Some((name, kind)) => Err(format!("its {path}{name} must be {}", kind.as_str())),
        None => Ok(()),
    }
}

fn is_of_object(schema: &RawValue) -> bool {
    RawObject::parse(schema.get()).is_ok_and(|schema| schema.get_str("type").as_deref() == Some("object"))
}

/// Checks the root of an input or output schema: its `type` must be `object`, the schemas of its properties must be
/// objects, and `required` must be a list of strings.
fn check_schema(schema: &RawValue, name: &str) -> Result<(), String> {
    if !is_of_object(schema) {
        return Err(format!("its {name}.type must be \"object\""));
    }
    let schema = parse(schema)?;
    check(&schema, &format!("{name}."), &[("properties", JsonType::Object), ("required", JsonType::List)])?;
    if let Some(properties) = schema.get("properties")
        && let Some((property, _)) = parse(properties)?.iter().find(|(_, schema)| !JsonType::Object.is_of(schema))
    {
        return Err(format!("its {name}.properties.{property:.60} must be an object"));
    }
    let required = schema.get("required");
    if required.is_some_and(|required| serde_json::from_str::<Vec<String>>(required.get()).is_err()) {
        return Err(format!("its {name}.required must be a list of strings"));
    }
    Ok(())
}

/// Checks the tool's `execution` member (MCP, `ToolExecution`).
fn check_execution(object: &RawObject) -> Result<(), String> {
    let Some(execution) = object.get("execution") else { return Ok(()) };
    let execution = parse(execution)?;
    let Some(support) = execution.get("taskSupport") else { return Ok(()) };
    match support.get() {
        r#""forbidden""# | r#""optional""# | r#""required""# => Ok(()),
        _ => Err("its execution.taskSupport must be forbidden, optional or required".to_owned()),
    }
}

/// Whether a tool can be called as a task only (MCP 2025-11-25, tasks: tool-level negotiation).
pub fn runs_as_task_only(definition: &RawValue) -> bool {
    let required = |object: RawObject| {
        let execution = RawObject::parse(object.get("execution")?.get()).ok()?;
        execution.get_str("taskSupport").map(|support| support == "required")
    };
    // Few definitions have the member, so that few are parsed.
    let has_member = memchr::memmem::find(definition.get().as_bytes(), b"execution").is_some();
    has_member && RawObject::parse(definition.get()).ok().and_then(required).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        read_as(ItemKind::Tool, text)
    }

    fn read_as(kind: ItemKind, text: &str) -> Result<String, String> {
        for_clients(kind, &RawValue::from_string(text.into()).unwrap()).map(|definition| definition.get().to_owned())
    }

    #[test]
    fn a_definition_that_clients_read_keeps_its_bytes() {
        for good in [
            r#"{"name":"a","inputSchema":{"type":"object"}}"#,
            r#"{ "name":"a", "inputSchema":{"type": "object","properties":{"n":{"type":"number"}},"required":["n"]}}"#,
            r#"{"name":"a","title":"A","description":"","inputSchema":{"type":"object"},"icons":[],"x":[1.0],
               "outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"A"},
               "execution":{"taskSupport":"optional"},"_meta":{}}"#,
            r#"{"name":"a","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}"#,
        ] {
            assert_eq!(read(good).unwrap(), good);
        }
    }

    #[test]
    fn what_clients_cannot_read_is_named() {
        let with = |member: &str| format!(r#"{{"name":"a","inputSchema":{{"type":"object"}},{member}}}"#);
        let schema = |schema: &str| format!(r#"{{"name":"a","inputSchema":{schema}}}"#);
        for (bad, words) in [
            ("5".to_owned(), "its definition is not an object"),
            (r#"{"name":"a"}"#.to_owned(), "its inputSchema is missing"),
            (schema("null"), "its inputSchema is missing"),
            (schema("[]"), "its inputSchema must be an object"),
            (schema("{}"), r#"its inputSchema.type must be "object""#),
            (schema(r#"{"type":"objekt"}"#), r#"its inputSchema.type must be "object""#),
            (schema(r#"{"type":"object","properties":[]}"#), "its inputSchema.properties must be an object"),
            (schema(r#"{"type":"object","properties":{"p":true}}"#), "its inputSchema.properties.p must be an object"),
            (schema(r#"{"type":"object","required":[1]}"#), "its inputSchema.required must be a list of strings"),
            (with(r#""description":7"#), "its description must be a string"),
            (with(r#""outputSchema":{"type":"object","required":true}"#), "its outputSchema.required must be a list"),
            (with(r#""annotations":{"readOnlyHint":"yes"}"#), "its annotations.readOnlyHint must be true or false"),
            (with(r#""execution":{"taskSupport":"maybe"}"#), "its execution.taskSupport must be"),
        ] {
            let fault = read(&bad).unwrap_err();
            assert!(fault.starts_with(words), "{bad}: {fault}");
        }
    }

    #[test]
    fn what_only_some_clients_read_is_dropped() {
        let bare = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
        let with = |member: &str| format!(r#"{{"name":"a",{member},"inputSchema":{{"type":"object"}}}}"#);
        for member in [r#""description":null"#, r#""annotations":null"#] {
            assert_eq!(read(&with(member)).unwrap(), bare);
        }
        let legacy = |definition: &str| for_legacy_clients(&RawValue::from_string(definition.into()).unwrap());
        let of_array = with(r#""outputSchema":{"type":"array"}"#);
        assert_eq!(read(&of_array).unwrap(), of_array);
        assert_eq!(legacy(&of_array).unwrap().get(), bare);
        assert!(legacy(bare).is_none() && legacy(&with(r#""outputSchema":{"type":"object"}"#)).is_none());
    }

    #[test]
    fn prompts_and_resources_have_their_own_members() {
        for (kind, good) in [
            (ItemKind::Prompt, r#"{"name":"a","arguments":[{"name":"b","required":true}],"x":1.0}"#),
            (ItemKind::Prompt, r#"{"name":"a"}"#),
            (ItemKind::Resource, r#"{"uri":"a:b","name":"b","size":12,"annotations":{"audience":["user"]}}"#),
            (ItemKind::Template, r#"{"uriTemplate":"a:{b}","name":"b","mimeType":"text/plain"}"#),
        ] {
            assert_eq!(read_as(kind, good).unwrap(), good);
        }
        assert_eq!(
            read_as(ItemKind::Resource, r#"{"uri":"a:b","name":"b","size":null}"#).unwrap(),
            r#"{"uri":"a:b","name":"b"}"#
        );
        for (kind, bad, words) in [
            (ItemKind::Prompt, r#"{"name":"a","arguments":[{"name":1}]}"#, "its arguments[0].name must be a string"),
            (ItemKind::Prompt, r#"{"name":"a","arguments":[{}]}"#, "its arguments[0].name is missing"),
            (ItemKind::Prompt, r#"{"name":"a","arguments":[1]}"#, "its arguments must be a list of objects"),
            (ItemKind::Resource, r#"{"uri":"a:b"}"#, "its name is missing"),
            (ItemKind::Resource, r#"{"uri":"a:b","name":"b","size":"large"}"#, "its size must be a number"),
            (ItemKind::Template, r#"{"uriTemplate":"a","name":"b","mimeType":1}"#, "its mimeType must be a string"),
        ] {
            assert_eq!(read_as(kind, bad).unwrap_err(), words, "{bad}");
        }
    }
}
