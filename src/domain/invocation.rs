//! Invocations of tools (document 003, ToolInvocationRequest and ToolExecutionResult).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::question::{COMPLETE, RESULT_TYPE};
use super::raw::{RawObject, to_raw};
use super::rpc::{REQUEST_CANCELLED, REQUEST_TIMEOUT, RpcError};

/// The maximum length of a text without line breaks that is shown within a line.
const MAX_INLINE: usize = 80;
/// The maximum length of a content that is shown unfolded.
const MAX_BLOCK: usize = 4000;

/// What an invocation comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InvocationSource {
    /// A code block in a user's document.
    UserCodeblock,
    /// A model.
    #[default]
    AiAutonomous,
}

/// The state of an invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum InvocationStatus {
    /// The invocation waits until its upstream is known, or until it is sent to its upstream again.
    Pending,
    /// The call runs.
    Executing,
    /// The tool returned a result.
    Success,
    /// The call was refused or failed, or the tool reported an error.
    Error,
    /// The call did not end in time.
    Timeout,
    /// The invocation was cancelled.
    Cancelled,
}

impl InvocationStatus {
    /// Whether the invocation has ended.
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Pending | Self::Executing)
    }
}

/// The part of an invocation that its client chooses.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewInvocation {
    /// Name of the upstream; `None` for the first enabled upstream that has the tool.
    pub server_id: Option<String>,
    /// The upstream's own name for the tool. Without `server_id`, also the name that clients see.
    pub tool_name: String,
    /// The arguments of the tool; `None` for none.
    #[cfg_attr(feature = "gateway", schemars(with = "Option<serde_json::Map<String, serde_json::Value>>"))]
    pub parameters: Option<Arc<RawValue>>,
    /// What the invocation comes from.
    #[serde(default)]
    pub source: InvocationSource,
    /// The document that contains the request.
    pub document_path: Option<String>,
    /// The line of the request in the document, from 1.
    pub section_line: Option<u32>,
    /// The place in the document, as in `_meta["hawsepipe.dev/section"]`. `None` for the line of the document.
    pub section: Option<Map<String, Value>>,
}

/// An invocation of a tool, with the fields of document 003. Times are in RFC 3339, in UTC with milliseconds.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Invocation {
    /// The id, a UUIDv7. The record of the call has the same one.
    pub id: String,
    /// Name of the upstream; `None` until the upstream that has the tool is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// The upstream's own name for the tool.
    pub tool_name: String,
    /// The arguments of the tool.
    #[cfg_attr(feature = "gateway", schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub parameters: Arc<RawValue>,
    /// What the invocation comes from.
    pub source: InvocationSource,
    /// The document that contains the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_path: Option<String>,
    /// The line of the request in the document, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_line: Option<u32>,
    /// The place in the document, for which bindings of sections count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<Map<String, Value>>,
    /// The state.
    pub status: InvocationStatus,
    /// When the invocation was created.
    pub submitted_at: String,
    /// When the call began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the invocation ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// How often the call was sent to the upstream again.
    pub retry_attempt: u32,
    /// How often it can be sent again, if the upstream's retry settings and the hints of the tool allow it.
    pub max_retries: u32,
    /// The output of a tool that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolExecutionResult>,
    /// Why there is no output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<InvocationError>,
}

impl Invocation {
    /// Returns the number of bytes that the invocation holds, apart from its small fields.
    pub fn bytes(&self) -> u64 {
        let content = self.result.as_ref().map_or(0, |result| result.content.get().len());
        let error = self.error.as_ref().map_or(0, InvocationError::bytes);
        (self.parameters.get().len() + content + error) as u64
    }
}

/// Why an invocation has no result.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub struct InvocationError {
    /// The message for people.
    pub message: String,
    /// The code of the JSON-RPC error; `None` if the tool itself reported the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// Details for programs: the `data` of the JSON-RPC error, or the `_meta` of the tool's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "gateway", schemars(with = "Option<serde_json::Value>"))]
    pub data: Option<Arc<RawValue>>,
}

impl InvocationError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: None, data: None }
    }

    fn bytes(&self) -> usize {
        self.message.len() + self.data.as_ref().map_or(0, |data| data.get().len())
    }
}

impl From<RpcError> for InvocationError {
    fn from(RpcError { code, message, data, .. }: RpcError) -> Self {
        Self { message, code: Some(code), data: data.as_ref().map(|data| to_raw(data).into()) }
    }
}

/// The output of a tool (document 003, ToolExecutionResult).
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolExecutionResult {
    /// A text as a string, structured content as its JSON, an image as its content block. If there are several blocks and
    /// not all are texts, the list of content blocks.
    #[cfg_attr(feature = "gateway", schemars(with = "serde_json::Value"))]
    pub content: Arc<RawValue>,
    /// How the content is to be rendered.
    pub content_type: ContentType,
    /// The duration of the call in milliseconds.
    pub execution_duration: f64,
    /// The number of tokens that the tool used, if it reports that in `_meta`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_used: Option<u64>,
    /// How much room the content needs.
    pub display_format: DisplayFormat,
}

/// How a content is to be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ContentType {
    /// Plain text.
    Text,
    /// Structured content, or a text that is a JSON object or list, or content blocks of several types.
    Json,
    /// A resource of the type `text/markdown`.
    Markdown,
    /// A content block of type `image`, or a list of content blocks with such blocks.
    Image,
}

/// How much room a content needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DisplayFormat {
    /// A short text without line breaks.
    Inline,
    /// Anything else of ordinary size.
    Block,
    /// Long content.
    Collapsed,
}

/// The end of an invocation: its state, and a result or an error.
pub type InvocationEnd = (InvocationStatus, Result<ToolExecutionResult, InvocationError>);

/// Returns the end of an invocation that got this result of `tools/call` after `duration` milliseconds.
pub fn end_of_result(result: &RawValue, duration: f64) -> InvocationEnd {
    let failed = |error| (InvocationStatus::Error, Err(error));
    let Ok(result) = RawObject::parse(result.get()) else {
        return failed(InvocationError::new("the result of the tool cannot be read"));
    };
    if let Some(kind) = result.get_str(RESULT_TYPE).filter(|kind| kind != COMPLETE) {
        let message = format!("the server answers with {kind:.40}, which needs an MCP client");
        return failed(InvocationError::new(message));
    }
    if result.get("isError").is_some_and(|flag| flag.get() == "true") {
        let text = texts(&blocks(&result)).unwrap_or_else(|| "the tool reports an error without a text".to_owned());
        let data = result.get("_meta").map(|meta| meta.to_owned().into());
        return failed(InvocationError { data, ..InvocationError::new(text) });
    }
    (InvocationStatus::Success, Ok(read(&result, duration)))
}

/// Returns the end of an invocation whose call ended with this error of the gateway.
pub fn end_of_error(error: RpcError) -> InvocationEnd {
    let status = match error.code {
        REQUEST_TIMEOUT => InvocationStatus::Timeout,
        REQUEST_CANCELLED => InvocationStatus::Cancelled,
        _ => InvocationStatus::Error,
    };
    (status, Err(error.into()))
}

/// Returns the end of an invocation whose upstream answered with this JSON-RPC error.
pub fn end_of_upstream_error(error: &RawValue) -> InvocationEnd {
    let read: Option<RpcError> = serde_json::from_str(error.get()).ok();
    let error = read.map_or_else(|| InvocationError::new(error.get()), Into::into);
    (InvocationStatus::Error, Err(error))
}

fn read(result: &RawObject, execution_duration: f64) -> ToolExecutionResult {
    let (content_type, content) = content_of(result);
    let display_format = match content.get() {
        _ if content_type == ContentType::Image => DisplayFormat::Block,
        json if json.len() > MAX_BLOCK => DisplayFormat::Collapsed,
        json if content_type == ContentType::Text && json.len() <= MAX_INLINE && !json.contains("\\n") => {
            DisplayFormat::Inline
        }
        _ => DisplayFormat::Block,
    };
    let tokens_used = result.get("_meta").and_then(tokens_used);
    ToolExecutionResult { content, content_type, execution_duration, tokens_used, display_format }
}

fn content_of(result: &RawObject) -> (ContentType, Arc<RawValue>) {
    let blocks = blocks(result);
    let is = |block: &RawObject, kind: &str| block.get_str("type").as_deref() == Some(kind);
    if blocks.iter().any(|(_, block)| is(block, "image")) {
        return (ContentType::Image, one_or_all(&blocks));
    }
    if let Some(structured) = result.get("structuredContent").filter(|structured| !wraps_text(structured)) {
        return (ContentType::Json, structured.to_owned().into());
    }
    match &blocks[..] {
        [(_, block)] => of_block(block).unwrap_or_else(|| (ContentType::Json, one_or_all(&blocks))),
        _ => match texts(&blocks) {
            Some(text) => (ContentType::Text, to_raw(&text).into()),
            None => (ContentType::Json, one_or_all(&blocks)),
        },
    }
}

/// Returns the content of the only block; `None` if it has no text.
fn of_block(block: &RawObject) -> Option<(ContentType, Arc<RawValue>)> {
    let resource = block.get("resource").and_then(|resource| RawObject::parse(resource.get()).ok());
    let holder = resource.as_ref().unwrap_or(block);
    let text = holder.get_str("text")?;
    if holder.get_str("mimeType").as_deref() == Some("text/markdown") {
        return Some((ContentType::Markdown, to_raw(&text).into()));
    }
    let json: Option<Box<RawValue>> = Some(text.trim_start())
        .filter(|text| text.starts_with(['{', '[']))
        .and_then(|_| serde_json::from_str(&text).ok());
    Some(match json {
        Some(json) => (ContentType::Json, json.into()),
        None => (ContentType::Text, to_raw(&text).into()),
    })
}

/// Whether structured content is only a text: servers wrap one as `{"result": text}` so that it fits an object schema.
fn wraps_text(structured: &RawValue) -> bool {
    let Ok(object) = RawObject::parse(structured.get()) else { return false };
    object.iter().count() == 1 && object.get("result").is_some_and(|text| text.get().starts_with('"'))
}

/// A content block, as it came and parsed.
type Block = (Box<RawValue>, RawObject);

fn blocks(result: &RawObject) -> Vec<Block> {
    let list: Vec<Box<RawValue>> =
        result.get("content").and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    let parsed = |raw: Box<RawValue>| RawObject::parse(raw.get()).ok().map(|block| (raw, block));
    list.into_iter().filter_map(parsed).collect()
}

/// Returns the texts of the blocks, one below the other; `None` if a block is not a text.
fn texts(blocks: &[Block]) -> Option<String> {
    let texts: Option<Vec<_>> = blocks.iter().map(|(_, block)| block.get_str("text")).collect();
    texts.map(|texts| texts.join("\n"))
}

fn one_or_all(blocks: &[Block]) -> Arc<RawValue> {
    match blocks {
        [(block, _)] => block.clone().into(),
        _ => to_raw(&blocks.iter().map(|(block, _)| block).collect::<Vec<_>>()).into(),
    }
}

/// Returns the number of tokens in a `_meta`: `tokensUsed`, or the total of `usage`.
fn tokens_used(meta: &RawValue) -> Option<u64> {
    let meta = RawObject::parse(meta.get()).ok()?;
    let usage = meta.get("usage").and_then(|usage| RawObject::parse(usage.get()).ok()).unwrap_or_default();
    let of = |object: &RawObject, name: &str| object.get(name)?.get().parse().ok();
    of(&meta, "tokensUsed").or_else(|| of(&usage, "totalTokens")).or_else(|| of(&usage, "total_tokens"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(result: &Value) -> (Value, Value, Value) {
        let (status, ended) = end_of_result(&to_raw(result), 1.5);
        assert_eq!(status, InvocationStatus::Success);
        let mut result = serde_json::to_value(ended.unwrap()).unwrap();
        (result["contentType"].take(), result["displayFormat"].take(), result["content"].take())
    }

    #[test]
    fn the_type_of_a_content_is_that_of_its_blocks() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let image = json!({"type": "image", "mimeType": "image/png", "data": "aGk="});
        let page = json!({"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/markdown", "text": "# Hi"}});
        let link = json!({"type": "resource_link", "uri": "a:b", "name": "b"});
        for (content_of, kind, format, expected) in [
            (json!([text("hi")]), "text", "inline", json!("hi")),
            (json!([text("a\nb")]), "text", "block", json!("a\nb")),
            (json!([text(&"a".repeat(5000))]), "text", "collapsed", json!("a".repeat(5000))),
            (json!([text("a"), text("b")]), "text", "block", json!("a\nb")),
            (json!([text("{\"a\": 1}")]), "json", "block", json!({"a": 1})),
            (json!([text("{a}")]), "text", "inline", json!("{a}")),
            (json!([page]), "markdown", "block", json!("# Hi")),
            (json!([image]), "image", "block", image.clone()),
            (json!([text("a"), image]), "image", "block", json!([text("a"), image])),
            (json!([link]), "json", "block", link.clone()),
            (json!([]), "text", "inline", json!("")),
        ] {
            let found = content(&json!({"content": content_of}));
            assert_eq!(found, (json!(kind), json!(format), expected), "{content_of}");
        }
        let structured = json!({"content": [text("{}")], "structuredContent": {"a": 1}});
        assert_eq!(content(&structured), (json!("json"), json!("block"), json!({"a": 1})));
        let wrapped = json!({"content": [text("hi")], "structuredContent": {"result": "hi"}});
        assert_eq!(content(&wrapped).2, json!("hi"));
    }

    #[test]
    fn an_error_of_a_tool_is_its_text_and_tokens_are_read_where_they_are_reported() {
        let failed = json!({"content": [{"type": "text", "text": "no"}], "isError": true, "_meta": {"a": 1}});
        let (status, ended) = end_of_result(&to_raw(&failed), 1.0);
        let error = serde_json::to_value(ended.unwrap_err()).unwrap();
        assert_eq!((status, error), (InvocationStatus::Error, json!({"message": "no", "data": {"a": 1}})));
        let asks = end_of_result(&to_raw(&json!({"resultType": "input_required"})), 1.0);
        assert!(asks.1.unwrap_err().message.contains("input_required"));
        for (meta, tokens) in [
            (json!({"tokensUsed": 7}), Some(7)),
            (json!({"usage": {"totalTokens": 8}}), Some(8)),
            (json!({"usage": {"total_tokens": 9}}), Some(9)),
            (json!({"usage": 9, "tokensUsed": -1}), None),
        ] {
            assert_eq!(tokens_used(&to_raw(&meta)), tokens, "{meta}");
        }
    }
}
