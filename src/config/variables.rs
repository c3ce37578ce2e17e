//! The variables that a CEL expression can read.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// The variables of one evaluation. Each variable that the expression reads must be set.
#[derive(Default)]
pub struct Variables<'a> {
    /// The variable `call`, with the members `method`, `name`, `arguments`, `userQuery`, `maxTokens` and `session`.
    pub call: Option<CallVariable<'a>>,
    /// The variable `tool`, with the members `name`, `upstreamName`, `annotations` and `_meta`.
    pub tool: Option<ToolVariable<'a>>,
    /// The variable `upstream`, with the members `name`, `namespace` and `labels`.
    pub upstream: Option<UpstreamVariable<'a>>,
    /// The variable `identity`, with the members `method`, `subject`, `groups`, `claims` and `scopes`.
    pub identity: Option<IdentityVariable<'a>>,
    /// The variable `content`, with the members `text`, `type` and `size`.
    pub content: Option<ContentVariable<'a>>,
}

/// The variable `call`. A string is empty, and a number is 0, if the call does not have the value.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallVariable<'a> {
    /// MCP method.
    pub method: &'a str,
    /// Name of the tool, prompt or resource, as the client sent it.
    pub name: &'a str,
    /// Arguments of the call.
    #[serde(serialize_with = "as_cel")]
    pub arguments: serde_json::Value,
    /// The user's question, from the call's `_meta`.
    pub user_query: &'a str,
    /// Token limit, from the call's `_meta`.
    pub max_tokens: i64,
    /// Id of the session.
    pub session: &'a str,
}

/// The variable `tool`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolVariable<'a> {
    /// Name that clients see.
    pub name: &'a str,
    /// Name that the server uses.
    pub upstream_name: &'a str,
    /// Annotations of the tool, with the defaults that MCP defines.
    pub annotations: AnnotationsVariable,
    /// `_meta` of the tool's definition, `{}` if it has none.
    #[serde(rename = "_meta", serialize_with = "as_cel")]
    pub meta: serde_json::Value,
}

/// Annotations of a tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools)]
pub struct AnnotationsVariable {
    /// Whether the tool changes nothing (`readOnlyHint`).
    pub read_only_hint: bool,
    /// Whether the tool can destroy data (`destructiveHint`).
    pub destructive_hint: bool,
    /// Whether calling the tool again with the same arguments has no further effect (`idempotentHint`).
    pub idempotent_hint: bool,
    /// Whether the tool reaches the outside world (`openWorldHint`).
    pub open_world_hint: bool,
}

/// The variable `upstream`.
#[derive(Serialize)]
pub struct UpstreamVariable<'a> {
    /// Name of the MCPUpstream.
    pub name: &'a str,
    /// Namespace of the MCPUpstream.
    pub namespace: &'a str,
    /// Labels of the MCPUpstream.
    pub labels: &'a BTreeMap<String, String>,
}

/// The variable `identity`: the caller.
#[derive(Serialize)]
pub struct IdentityVariable<'a> {
    /// How the caller was authenticated. Always `anonymous`.
    pub method: &'a str,
    /// The authenticated subject.
    pub subject: &'a str,
    /// Groups of the subject.
    pub groups: &'a [String],
    /// Claims of the caller's token.
    pub claims: serde_json::Value,
    /// Scopes of the caller's token.
    pub scopes: &'a [String],
}

/// The variable `content`: the part of the request or response that the entry's plugin would receive.
#[derive(Serialize)]
pub struct ContentVariable<'a> {
    /// Text of the content.
    pub text: &'a str,
    /// Type of the content: `text` or `json`.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// Size of the content in bytes.
    pub size: i64,
}

/// Serializes integers as signed CEL integers, with which `3` in an expression can be added, and those that are too large
/// for it as unsigned ones.
fn as_cel<S: Serializer>(value: &serde_json::Value, serializer: S) -> Result<S::Ok, S::Error> {
    struct Signed<'a>(&'a serde_json::Value);
    impl Serialize for Signed<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            as_cel(self.0, serializer)
        }
    }
    match value {
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(integer) => serializer.serialize_i64(integer),
            None => number.serialize(serializer),
        },
        serde_json::Value::Array(items) => serializer.collect_seq(items.iter().map(Signed)),
        serde_json::Value::Object(members) => serializer.collect_map(members.iter().map(|(k, v)| (k, Signed(v)))),
        other => other.serialize(serializer),
    }
}
