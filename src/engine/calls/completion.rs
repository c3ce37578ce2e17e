//! Completions of the arguments of prompts and of templates of resources (MCP, completion). They go to the server that has
//! the prompt or the template. Chains do not see them, so that there are none for what a chain checks.

use serde_json::json;
use serde_json::value::RawValue;

use super::Calls;
use super::finish::add_modern_members;
use super::request_beside::RequestBeside;
use crate::domain::apps;
use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::item::ItemKind;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError};
use crate::domain::upstream::{Answer, OutCompletion, UpstreamError};
use crate::domain::version::Era;
use crate::engine::chains::meta::CallMeta;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::tool_result::ResultFacts;
use crate::engine::request::{Caller, Endpoint, ItemName, Reply};

/// A request for completions of an argument.
pub struct CompletionRequest<'a> {
    /// The endpoint that received the request.
    pub endpoint: Endpoint<'a>,
    /// The client that sent the request.
    pub caller: &'a Caller,
    /// All of `params`.
    pub params: Option<&'a RawValue>,
    /// `params._meta`.
    pub meta: Option<&'a RawValue>,
    /// Reserves memory for the answer.
    pub reservation: &'a Reservation,
}

/// The prompt, resource or template that the argument belongs to.
struct Reference {
    kind: ItemKind,
    /// The name of the prompt, or a URI or template.
    name: String,
    /// `params`, without `_meta`.
    params: RawObject,
}

impl Reference {
    /// Reads the parameters. The error says what is wrong with them.
    fn read(params: Option<&RawValue>) -> Result<Self, String> {
        let mut params = params.and_then(|params| RawObject::parse(params.get()).ok()).unwrap_or_default();
        params.remove("_meta");
        let argument = params.get("argument").and_then(|argument| RawObject::parse(argument.get()).ok());
        if argument.is_none_or(|argument| argument.get_str("name").and(argument.get_str("value")).is_none()) {
            return Err("`argument` must be an object with the strings `name` and `value`".to_owned());
        }
        let reference = params.get("ref").and_then(|reference| RawObject::parse(reference.get()).ok());
        let reference = reference.unwrap_or_default();
        let (kind, member) = match reference.get_str("type").as_deref() {
            Some("ref/prompt") => (ItemKind::Prompt, "name"),
            Some("ref/resource") => (ItemKind::Resource, "uri"),
            _ => return Err("`ref/type` must be ref/prompt or ref/resource".to_owned()),
        };
        let name = reference.get_str(member).ok_or_else(|| format!("`ref/{member}` must be a string"))?;
        let is_template = kind == ItemKind::Resource && name.contains('{');
        Ok(Self { kind: if is_template { ItemKind::Template } else { kind }, name, params })
    }

    /// Returns the parameters for the server that has the item, with its own name of the item.
    fn params_for(mut self, own_name: &str) -> RawObject {
        let member = if self.kind == ItemKind::Prompt { "name" } else { "uri" };
        if own_name != self.name
            && let Some(mut reference) = self.params.get("ref").and_then(|it| RawObject::parse(it.get()).ok())
        {
            reference.set(member, to_raw(&own_name));
            self.params.set("ref", reference.to_raw());
        }
        self.params
    }
}

/// Asks the server that has the item for completions. A server that completes nothing has an empty completion, and so
/// has an item on which something acts that checks what passes: it would see neither the arguments nor the answer.
pub async fn complete(calls: &Calls, request: CompletionRequest<'_>) -> Reply {
    let reference = match Reference::read(request.params) {
        Ok(reference) => reference,
        Err(message) => return Reply::Error(RpcError::new(INVALID_PARAMS, message)),
    };
    match calls.until_calls_end(complete_argument(calls, &request, reference)).await {
        // An item that does not exist is an invalid parameter here (MCP, completion: error handling).
        Err(Reply::Error(error)) if error.code == RESOURCE_NOT_FOUND => {
            Reply::Error(RpcError { code: INVALID_PARAMS, ..error })
        }
        Ok(reply) | Err(reply) => reply,
    }
}

async fn complete_argument(
    calls: &Calls,
    request: &CompletionRequest<'_>,
    reference: Reference,
) -> Result<Reply, CallEnd> {
    let CompletionRequest { endpoint, caller, reservation, .. } = *request;
    let name = reference.name.clone();
    let item = ItemName { endpoint, kind: reference.kind, name: &name };
    let beside = RequestBeside { item, caller, counts: true };
    let routed = calls.beside(beside).await?;
    let params = reference.params_for(&routed.found.route.item.name);
    let completion = OutCompletion {
        members: params.iter().map(|(name, value)| (name.to_owned().into(), value.to_owned())).collect(),
        meta: CallMeta::read(request.meta).onward,
        timeout: routed.timeout(),
    };
    let completed = match routed.found.item.is_checked() {
        true => Ok(None),
        false => calls.servers.complete(&routed.upstream().target, &completion).await,
    };
    let is_checked = calls.recheck_beside(beside, &routed)?;
    let completed = if is_checked { Ok(None) } else { completed };
    let completed = completed.map_err(|error| calls.ends.request_failed(routed.plan(), &error))?;
    let answer = match completed.and_then(|answer| answer.unless_checked(is_checked)) {
        Some(answer) => answer,
        None => Answer::Result(to_raw(&json!({"completion": {"values": [], "total": 0, "hasMore": false}}))),
    };
    let facts = ResultFacts::of(&answer);
    if facts.asks_back {
        let error = UpstreamError::Protocol("it asks for input before it completes an argument".to_owned());
        return Err(calls.ends.request_failed(routed.plan(), &error));
    }
    let (Answer::Result(text) | Answer::Error(text)) = &answer;
    reservation.resize(text.get().len() as u64).map_err(|NoRoom| CallEnd::no_room())?;
    Ok(match answer {
        Answer::Result(mut result) => {
            if caller.era == Era::Modern {
                add_modern_members(&mut result, ItemKind::Prompt, facts.typed, false);
            }
            Reply::Result(result)
        }
        Answer::Error(error) => Reply::UpstreamError(public_error(error, endpoint, &routed.plan().key.name)),
    })
}

/// Returns an error of this upstream with the URIs that apps have on the endpoint.
fn public_error(error: Box<RawValue>, endpoint: Endpoint<'_>, upstream: &str) -> Box<RawValue> {
    match endpoint {
        Endpoint::All => apps::published_error(&error, upstream).unwrap_or(error),
        Endpoint::One(_) => error,
    }
}
