//! What a CEL expression may read of a call.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// The variables of one evaluation. What is absent must not be read by the expression.
#[derive(Default)]
pub struct Variables<'a> {
    /// `call {method, name, arguments, userQuery, maxTokens, session}`
    pub call: Option<CallVariable<'a>>,
    /// `tool {name, upstreamName, annotations, _meta}`
    pub tool: Option<ToolVariable<'a>>,
    /// `upstream {name, namespace, labels}`
    pub upstream: Option<UpstreamVariable<'a>>,
    /// `identity {method, subject, groups, claims, scopes}`
    pub identity: Option<IdentityVariable<'a>>,
    /// `content {text, type, size}`
    pub content: Option<ContentVariable<'a>>,
}

/// The call; texts are empty and numbers 0 where absent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallVariable<'a> {
    /// The MCP method.
    pub method: &'a str,
    /// The name that the client used.
    pub name: &'a str,
    /// Its arguments.
    #[serde(serialize_with = "as_cel")]
    pub arguments: serde_json::Value,
    /// What the user asked.
    pub user_query: &'a str,
    /// The call's own limit.
    pub max_tokens: i64,
    /// The session's id.
    pub session: &'a str,
}

/// The tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolVariable<'a> {
    /// The name that clients see.
    pub name: &'a str,
    /// The server's own.
    pub upstream_name: &'a str,
    /// Hints, the protocol's defaults filled in.
    pub annotations: AnnotationsVariable,
    /// The definition's `_meta`.
    #[serde(rename = "_meta")]
    pub meta: serde_json::Value,
}

/// A tool's hints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools)]
pub struct AnnotationsVariable {
    /// Whether the tool changes nothing (`readOnlyHint`).
    pub read_only_hint: bool,
    /// Whether the tool may destroy data (`destructiveHint`).
    pub destructive_hint: bool,
    /// Whether calling it again with the same arguments has no further effect (`idempotentHint`).
    pub idempotent_hint: bool,
    /// Whether the tool reaches the outside world (`openWorldHint`).
    pub open_world_hint: bool,
}

/// The upstream.
#[derive(Serialize)]
pub struct UpstreamVariable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// The caller.
#[derive(Serialize)]
pub struct IdentityVariable<'a> {
    /// How it was found out: `anonymous`.
    pub method: &'a str,
    /// Who.
    pub subject: &'a str,
    /// Its groups.
    pub groups: &'a [String],
    /// A token's claims.
    pub claims: serde_json::Value,
    /// A token's scopes.
    pub scopes: &'a [String],
}

/// The content that an entry would see.
#[derive(Serialize)]
pub struct ContentVariable<'a> {
    /// The text.
    pub text: &'a str,
    /// `text` or `json`.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// Bytes.
    pub size: i64,
}

/// Writes integers as CEL's signed ones, so that `3` in JSON equals `3` in an expression.
fn as_cel<S: Serializer>(value: &serde_json::Value, serializer: S) -> Result<S::Ok, S::Error> {
    struct Signed<'a>(&'a serde_json::Value);
    impl Serialize for Signed<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            as_cel(self.0, serializer)
        }
    }
    match value {
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => serializer.serialize_i64(integer),
            (None, Some(float)) => serializer.serialize_f64(float),
            (None, None) => serializer.serialize_none(),
        },
        serde_json::Value::Array(items) => serializer.collect_seq(items.iter().map(Signed)),
        serde_json::Value::Object(members) => serializer.collect_map(members.iter().map(|(k, v)| (k, Signed(v)))),
        other => other.serialize(serializer),
    }
}
