//! Checks whether content that a plugin changed is still what the protocol allows.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::definition::for_clients;
use crate::domain::item::{Item, ItemKind};
use crate::domain::method::Method;
use crate::domain::plugin::Failure;
use crate::domain::raw::RawObject;
use crate::domain::reason::Reason;
use crate::domain::skim::Skim;

/// The members of a content block that are validated when a plugin has changed a result.
#[derive(Deserialize)]
struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

impl ContentBlock<'_> {
    fn lacks_text(&self) -> bool {
        self.kind == "text" && self.text.as_ref().is_none_or(|text| !text.get().starts_with('"'))
    }
}

/// Validates the content of a request or a question that was `before`. That of other requests than tool calls must still
/// name the same item, because chains and conditions were chosen by it.
pub(in crate::engine) fn valid_params(method: Method, before: &str, text: &str) -> Result<(), Failure> {
    let object = RawObject::parse(text).map_err(|_| invalid("the arguments must stay a JSON object"))?;
    match method {
        Method::GetPrompt | Method::ReadResource => {
            let name = if method == Method::GetPrompt { "name" } else { "uri" };
            let named = RawObject::parse(before).ok().and_then(|object| object.get_str(name));
            let fault = || invalid(&format!("the parameters must keep `{name}` as it is"));
            if object.get_str(name) == named { Ok(()) } else { Err(fault()) }
        }
        Method::CreateMessage => valid_sampling(&object),
        Method::Elicit => valid_elicitation(&object),
        _ => Ok(()),
    }
}

/// Validates the result of a request, or a client's answer to a question.
pub(in crate::engine) fn valid_result(method: Method, text: &str) -> Result<Box<RawValue>, Failure> {
    let object = RawObject::parse(text).map_err(|_| invalid("the result must stay a JSON object"))?;
    match method {
        Method::GetPrompt => valid_messages(&object)?,
        Method::ReadResource => valid_contents(&object)?,
        Method::CreateMessage => valid_sample(&object)?,
        Method::Elicit => valid_input(&object)?,
        _ => valid_tool_result(&object)?,
    }
    raw(text)
}

/// Validates the definition of an item that was `before`: clients must be able to read it, and it must be of the same item.
pub(in crate::engine) fn valid_definition(
    kind: ItemKind,
    before: &RawValue,
    text: &str,
) -> Result<Box<RawValue>, Failure> {
    let changed = raw(text)?;
    let item = Item::parse(kind, &changed).map_err(|fault| invalid(&fault))?;
    if Item::parse(kind, before).is_ok_and(|before| before.name != item.name) {
        return Err(invalid(&format!("the definition must keep `{}` as it is", kind.name_member())));
    }
    for_clients(kind, &changed).map_err(|fault| invalid(&fault))
}

/// Validates the parameters of `sampling/createMessage` (MCP, CreateMessageRequest).
fn valid_sampling(object: &RawObject) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        role: Cow<'a, str>,
        #[serde(borrow, rename = "content")]
        _content: &'a RawValue,
    }
    let messages = object.get("messages").ok_or_else(|| invalid("the question has no `messages`"))?;
    let messages: Vec<Message<'_>> = serde_json::from_str(messages.get())
        .map_err(|_| invalid("`messages` must be a list of objects with a `role` and a `content`"))?;
    if messages.iter().any(|message| !matches!(&*message.role, "user" | "assistant")) {
        return Err(invalid("the `role` of a message must be user or assistant"));
    }
    Ok(())
}

/// Validates the parameters of `elicitation/create` (MCP, ElicitRequest).
fn valid_elicitation(object: &RawObject) -> Result<(), Failure> {
    object.get_str("message").ok_or_else(|| invalid("the question has no `message`, a string"))?;
    if object.get("requestedSchema").is_some_and(|schema| !schema.get().starts_with('{')) {
        return Err(invalid("`requestedSchema` must be an object"));
    }
    Ok(())
}

/// Validates an answer to `sampling/createMessage` (MCP, CreateMessageResult).
fn valid_sample(object: &RawObject) -> Result<(), Failure> {
    if !matches!(object.get_str("role").as_deref(), Some("user" | "assistant")) {
        return Err(invalid("the `role` of the answer must be user or assistant"));
    }
    if object.get("content").is_none() || object.get_str("model").is_none() {
        return Err(invalid("the answer must have a `content`, and a `model`, a string"));
    }
    Ok(())
}

/// Validates an answer to `elicitation/create` (MCP, ElicitResult).
fn valid_input(object: &RawObject) -> Result<(), Failure> {
    if !matches!(object.get_str("action").as_deref(), Some("accept" | "decline" | "cancel")) {
        return Err(invalid("the `action` of the answer must be accept, decline or cancel"));
    }
    if object.get("content").is_some_and(|content| !content.get().starts_with('{')) {
        return Err(invalid("the `content` of the answer must be an object"));
    }
    Ok(())
}

/// Validates a result of `prompts/get` (MCP, GetPromptResult).
fn valid_messages(object: &RawObject) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        role: Cow<'a, str>,
        #[serde(borrow)]
        content: ContentBlock<'a>,
    }
    let messages = object.get("messages").ok_or_else(|| invalid("the result has no `messages`"))?;
    let messages: Vec<Message<'_>> = serde_json::from_str(messages.get())
        .map_err(|_| invalid("`messages` must be a list of objects with a `role` and a `content` that has a `type`"))?;
    if messages.iter().any(|message| !matches!(&*message.role, "user" | "assistant")) {
        return Err(invalid("the `role` of a message must be user or assistant"));
    }
    if messages.iter().any(|message| message.content.lacks_text()) {
        return Err(invalid("a message of type text has no `text`"));
    }
    Ok(())
}

/// Validates a result of `resources/read` (MCP, ReadResourceResult).
fn valid_contents(object: &RawObject) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Contents<'a> {
        #[serde(borrow, rename = "uri")]
        _uri: Cow<'a, str>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        blob: Option<&'a RawValue>,
    }
    let contents = object.get("contents").ok_or_else(|| invalid("the result has no `contents`"))?;
    let contents: Vec<Contents<'_>> = serde_json::from_str(contents.get())
        .map_err(|_| invalid("`contents` must be a list of objects with a `uri`"))?;
    let is_text = |value: Option<&RawValue>| value.is_some_and(|value| value.get().starts_with('"'));
    if contents.iter().any(|contents| !is_text(contents.text) && !is_text(contents.blob)) {
        return Err(invalid("each of `contents` must have `text` or `blob`, a string"));
    }
    Ok(())
}

/// Validates a result of `tools/call` (MCP, CallToolResult).
fn valid_tool_result(object: &RawObject) -> Result<(), Failure> {
    let blocks = object.get("content").ok_or_else(|| invalid("the result has no `content`"))?;
    let blocks: Vec<ContentBlock> =
        serde_json::from_str(blocks.get()).map_err(|_| invalid("`content` must be a list of objects with a `type`"))?;
    if blocks.iter().any(ContentBlock::lacks_text) {
        return Err(invalid("a block of type text has no `text`"));
    }
    // Servers write null for what is absent.
    if object.get("isError").is_some_and(|flag| !matches!(flag.get(), "true" | "false" | "null")) {
        return Err(invalid("`isError` must be true or false"));
    }
    Ok(())
}

pub(in crate::engine) fn valid_error(text: &str) -> Result<Box<RawValue>, Failure> {
    let object = RawObject::parse(text).map_err(|_| invalid("the error must stay a JSON object"))?;
    let code = object.get("code").and_then(|code| code.get().parse::<i64>().ok());
    if code.is_none() || object.get_str("message").is_none() {
        return Err(invalid("an error has a `code`, an integer, and a `message`"));
    }
    raw(text)
}

fn raw(text: &str) -> Result<Box<RawValue>, Failure> {
    let json = Skim::of(text.as_bytes()).and_then(Skim::raw);
    json.map(RawValue::to_owned).ok_or_else(|| invalid("it is not JSON"))
}

/// Returns the failure of a plugin that returned such content.
pub(in crate::engine) fn invalid(what: &str) -> Failure {
    Failure::new(Reason::InvalidOutput, format!("returned content that is not valid: {what}"))
}
