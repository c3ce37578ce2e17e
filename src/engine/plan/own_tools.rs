//! The gateway's own tools, which clients see instead of the upstreams' (`toolDiscovery: Search`): their definitions, and
//! the checks of their arguments.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::schema::{Arguments, Room};
use crate::domain::plan::ArgumentValidation;
use crate::domain::raw::to_raw;
use crate::domain::skim::Skim;
use crate::domain::tool_name::{CALL_TOOL, SEARCH_TOOLS};

/// The number of tools that a search finds if the call names none.
const DEFAULT_LIMIT: usize = 10;
/// The largest number of tools that a search finds.
const MAX_LIMIT: usize = 50;
/// The longest query, in characters.
const MAX_QUERY: usize = 1024;
/// The maximum number of bytes of arguments, without those for another tool. They are parsed on a thread that serves calls, and
/// their values can take a hundred times the memory of their text.
const MAX_ARGUMENTS: usize = 32 << 10;

static SEARCH: LazyLock<OwnTool> = LazyLock::new(|| OwnTool::new(search_definition()));
static CALL: LazyLock<OwnTool> = LazyLock::new(|| OwnTool::new(call_definition()));

/// A tool of the gateway itself.
pub(crate) struct OwnTool {
    /// The definition that clients see.
    pub(crate) definition: Box<RawValue>,
    arguments: Arc<Arguments>,
}

/// The arguments of `search_tools`.
#[derive(Debug, Deserialize)]
pub(crate) struct SearchArguments {
    pub(crate) query: String,
    #[serde(default = "default_limit")]
    limit: f64,
}

/// The arguments of `call_tool`.
#[derive(Debug, Deserialize)]
pub(crate) struct CallArguments {
    pub(crate) name: String,
    pub(crate) arguments: Option<Box<RawValue>>,
}

impl OwnTool {
    fn new(definition: Value) -> Self {
        let schema = Arc::from(to_raw(&definition["inputSchema"]));
        let arguments =
            Arguments::reuse_or_compile(Some(&schema), ArgumentValidation::Enforce, None, &mut Room::default());
        Self { definition: to_raw(&definition), arguments }
    }

    /// Returns the gateway's own tool of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        match name {
            SEARCH_TOOLS => Some(&SEARCH),
            CALL_TOOL => Some(&CALL),
            _ => None,
        }
    }

    /// Checks the arguments of a call. Of those that `call_tool` passes on, only that they are an object: they are checked as
    /// those of the tool that they are for. The error says what does not fit.
    pub(crate) fn check(&self, arguments: Skim<'_>) -> Result<(), String> {
        let passes_on = arguments.member("arguments").is_some_and(|passed| passed.get().starts_with('{'));
        let own = if passes_on { arguments.with_members(&[("arguments", Some("{}"))]) } else { None };
        let own = own.as_deref().unwrap_or(arguments.get());
        if own.len() > MAX_ARGUMENTS {
            return Err(format!("arguments: {} bytes are more than the {MAX_ARGUMENTS} that they may have", own.len()));
        }
        self.arguments.check_at_once(own)
    }

    /// The definitions in the order in which clients see them.
    pub(crate) fn definitions() -> [&'static RawValue; 2] {
        [&SEARCH.definition, &CALL.definition]
    }
}

impl SearchArguments {
    /// The number of tools that are found at most. The schema allows only integers, of which 5.0 is one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn limit(&self) -> usize {
        (self.limit as usize).clamp(1, MAX_LIMIT)
    }
}

#[allow(clippy::cast_precision_loss)]
fn default_limit() -> f64 {
    DEFAULT_LIMIT as f64
}

fn search_definition() -> Value {
    json!({
        "name": SEARCH_TOOLS,
        "title": "Search tools",
        "description": format!(
            "Finds tools by words of their names, titles, descriptions and arguments, and returns their definitions, those \
             that fit best first. Call a tool that was found with {CALL_TOOL}, with arguments that fit its inputSchema. Search \
             again with other words if none of them does what is needed."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_QUERY,
                    "description": "Words that say what the tool does, such as: create calendar event",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "default": DEFAULT_LIMIT,
                    "description": "The maximum number of tools to return.",
                },
            },
            "required": ["query"],
            "additionalProperties": false,
        },
        "outputSchema": found_schema(),
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
    })
}

/// The schema of what a search finds.
fn found_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "tools": {
                "type": "array",
                "description": "The definitions of the tools that were found.",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "inputSchema": {"type": "object"}},
                    "required": ["name", "inputSchema"],
                },
            },
            "leftOut": {
                "type": "integer",
                "description": "How many more tools were found whose definitions are too large for one answer.",
            },
        },
        "required": ["tools"],
    })
}

fn call_definition() -> Value {
    json!({
        "name": CALL_TOOL,
        "title": "Call a tool",
        "description": format!(
            "Calls a tool that {SEARCH_TOOLS} found, and returns its result. Whether the tool changes anything is said by the \
             annotations in its own definition."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "description": "The name of the tool, as it was found."},
                "arguments": {
                    "type": "object",
                    "description": "The arguments of the tool. They must fit its inputSchema.",
                },
            },
            "required": ["name"],
            "additionalProperties": false,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::definition::for_clients;
    use crate::domain::item::ItemKind;

    fn skim(arguments: &str) -> Skim<'_> {
        Skim::from(serde_json::from_str::<&RawValue>(arguments).unwrap())
    }

    #[test]
    fn only_what_is_for_the_tool_itself_is_parsed() {
        let many = format!("[{}0]", r#"{"":0},"#.repeat(10_000));
        let call = OwnTool::named(CALL_TOOL).unwrap();
        assert_eq!(call.check(skim(&format!(r#"{{"name":"a","arguments":{{"a":{many}}}}}"#))), Ok(()));
        for own in
            [format!(r#"{{"name":"a","arguments":{many}}}"#), format!(r#"{{"name":"a","b":{many},"arguments":{{}}}}"#)]
        {
            let fault = call.check(skim(&own)).unwrap_err();
            assert!(fault.ends_with("bytes are more than the 32768 that they may have"), "{fault}");
        }
    }

    #[test]
    fn clients_can_read_the_definitions_and_their_schemas_are_enforced() {
        for name in [SEARCH_TOOLS, CALL_TOOL] {
            let tool = OwnTool::named(name).unwrap();
            assert!(for_clients(ItemKind::Tool, &tool.definition).is_ok());
            assert!(tool.arguments.are_checked());
        }
        assert!(OwnTool::named("Call_tool").is_none());
    }

    #[test]
    fn arguments_that_do_not_fit_are_named() {
        let faults = |name, arguments| OwnTool::named(name).unwrap().check(skim(arguments)).unwrap_err();
        for (arguments, expected) in [
            ("{}", "query"),
            (r#"{"query":""}"#, "arguments/query"),
            (r#"{"query":7}"#, "arguments/query"),
            (r#"{"query":"a","limit":0}"#, "arguments/limit"),
            (r#"{"query":"a","limit":51}"#, "arguments/limit"),
            (r#"{"query":"a","limit":1.5}"#, "arguments/limit"),
            (r#"{"query":"a","limit":"5"}"#, "arguments/limit"),
            (r#"{"query":"a","more":1}"#, "more"),
        ] {
            let faults = faults(SEARCH_TOOLS, arguments);
            assert!(faults.contains(expected), "{arguments}: {faults}");
        }
        for (arguments, expected) in [
            ("{}", "name"),
            (r#"{"name":null}"#, "arguments/name"),
            (r#"{"name":"a","arguments":[]}"#, "arguments/arguments"),
            (r#"{"name":"a","arguments":"{}"}"#, "arguments/arguments"),
            (r#"{"name":"a","args":{}}"#, "args"),
        ] {
            let faults = faults(CALL_TOOL, arguments);
            assert!(faults.contains(expected), "{arguments}: {faults}");
        }
        let limit = |json| serde_json::from_str::<SearchArguments>(json).unwrap().limit();
        assert_eq!([limit(r#"{"query":"a"}"#), limit(r#"{"query":"a","limit":3.0}"#)], [10, 3]);
    }
}
