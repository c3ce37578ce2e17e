//! The methods that both eras share: `tools/list` and `tools/call`.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::envelope::{Params, object, text};
use super::outbox::{Outbox, OutboxSender, WantedNotices};
use crate::domain::raw::to_raw;
use crate::domain::rpc::{INVALID_PARAMS, METHOD_NOT_FOUND, RpcError};
use crate::engine::{CallRequest, Caller, CheckMirrored, Endpoint, Engine, Reply};

/// The name that the gateway reports to clients.
pub(super) const NAME: &str = env!("CARGO_PKG_NAME");
/// The version that the gateway reports to clients.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The principal of calls from clients that are not authenticated.
pub(super) const ANONYMOUS: &str = "anonymous";

/// The result of `tools/list`. In the modern era, the result also says for how long and by whom it may be cached.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListResult<'a> {
    tools: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(flatten)]
    kept: Option<CacheHints>,
}

/// How a modern result may be cached (MCP 2026-07-28, caching).
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CacheHints {
    result_type: &'static str,
    ttl_ms: u32,
    cache_scope: &'static str,
}

/// Allows anyone to cache a complete result for five seconds, because lists do not depend on the client.
pub(super) const KEPT: CacheHints = CacheHints { result_type: "complete", ttl_ms: 5000, cache_scope: "public" };

pub(super) async fn list_tools(
    engine: &Engine,
    endpoint: Endpoint<'_>,
    params: &Params<'_>,
    kept: Option<CacheHints>,
) -> Reply {
    let cursor = match params.cursor.map(text) {
        Some(None) => return invalid("`cursor` must be a string"),
        cursor => cursor.flatten(),
    };
    match engine.list_tools(endpoint, cursor.as_deref()).await {
        Ok(page) => {
            let result = ListResult { tools: &page.tools, next_cursor: page.next_cursor, kept };
            Reply::Result(to_raw(&result))
        }
        Err(error) => Reply::Error(error),
    }
}

/// Runs a call with the id and the parameters of a client's request.
pub(super) async fn call_tool(
    engine: &Arc<Engine>,
    endpoint: Endpoint<'_>,
    caller: &Caller,
    (id, params): (&str, &Params<'_>),
    wanted: WantedNotices<'_>,
    outbox: &Outbox,
    check_mirrored: Option<&CheckMirrored<'_>>,
) -> Reply {
    let wanted = if outbox.is_read() { wanted } else { WantedNotices::default() };
    let Some(name) = params.name.and_then(text) else { return invalid("`name` must be a tool's name") };
    if params.arguments.is_some_and(|arguments| object(arguments).is_none()) {
        return invalid("`arguments` must be an object");
    }
    let request = CallRequest {
        endpoint,
        caller,
        rpc_id: Some(id),
        name: &name,
        arguments: params.arguments,
        meta: params.meta,
        wants_progress: wanted.progress.is_some(),
        log_level: wanted.log_level,
        client: &OutboxSender { wanted, outbox },
        reservation: outbox.reservation(),
        check_mirrored,
        within: None,
    };
    engine.call(request).await
}

/// Returns the reply to a request whose method the gateway does not serve.
pub(super) fn unknown_method(method: &str) -> Reply {
    Reply::Error(RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {method:.128}")))
}

fn invalid(message: &str) -> Reply {
    Reply::Error(RpcError::new(INVALID_PARAMS, message))
}
