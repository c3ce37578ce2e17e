//! Requests of both eras: one dispatch by method.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::client::Client;
use super::client_sender::{ClientSender, WantedNotices};
use super::continued::go_on;
use super::envelope::{Params, object, text};
use super::gate::{Gate, PathEndpoint};
use super::parked::Binding;
use crate::domain::log_level::LogLevel;
use crate::domain::method::Method;
use crate::domain::mirror::Mirrored;
use crate::domain::raw::to_raw;
use crate::domain::rpc::{INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_CANCELLED, RpcError};
use crate::domain::upstream::InputRound;
use crate::domain::version::{Era, MODERN_VERSIONS};
use crate::engine::access::session::Session;
use crate::engine::exchange::Exchange;
use crate::engine::{CallRequest, Caller, Reply};

/// The name that the gateway reports to clients.
pub(super) const NAME: &str = env!("CARGO_PKG_NAME");
/// The version that the gateway reports to clients.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A client's request, whose envelope was checked by the rules of its era.
pub(super) struct ClientRequest<'a> {
    pub(super) gate: &'a Arc<Gate>,
    pub(super) endpoint: &'a PathEndpoint,
    pub(super) client: Client<'a>,
    /// The id as raw JSON.
    pub(super) id: &'a str,
    pub(super) method: &'a str,
    pub(super) params: &'a Params<'a>,
    pub(super) exchange: &'a Exchange,
}

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
struct CacheHints {
    result_type: &'static str,
    ttl_ms: u32,
    cache_scope: &'static str,
}

/// Allows anyone to cache a complete result for five seconds, because lists do not depend on the client.
const KEPT: CacheHints = CacheHints { result_type: "complete", ttl_ms: 5000, cache_scope: "public" };

impl ClientRequest<'_> {
    /// Answers the request. A method that its era does not have is unknown to it.
    pub(super) async fn reply(&self) -> Reply {
        let method = Method::parse(self.method).filter(|method| method.is_of(self.client.era()));
        match (method, self.client) {
            (Some(Method::CallTool), Client::Legacy(session)) => self.call_tool_in(session).await,
            (Some(Method::CallTool), Client::Modern { .. }) => self.call_tool().await,
            (Some(Method::ListTools), _) => self.list_tools().await,
            (Some(Method::SetLogLevel), Client::Legacy(session)) => set_log_level(session, self.params),
            (Some(Method::Ping), _) => Reply::Result(to_raw(&json!({}))),
            (Some(Method::Discover), _) => discover(),
            _ => Reply::Error(unknown_method(self.method)),
        }
    }

    async fn list_tools(&self) -> Reply {
        let cursor = match self.params.cursor.map(text) {
            Some(None) => return invalid("`cursor` must be a string"),
            cursor => cursor.flatten(),
        };
        let kept = (self.client.era() == Era::Modern).then_some(KEPT);
        match self.gate.engine.list_tools(self.endpoint.as_engine(), cursor.as_deref()).await {
            Ok(page) => {
                let result = ListResult { tools: &page.tools, next_cursor: page.next_cursor, kept };
                Reply::Result(to_raw(&result))
            }
            Err(error) => Reply::Error(error),
        }
    }

    /// Calls a tool, until the client of the session cancels the call.
    async fn call_tool_in(&self, session: &Session) -> Reply {
        let cancelled = session.begin(self.id);
        let _in_flight = InFlight { session, id: self.id };
        tokio::select! {
            reply = self.call_tool() => reply,
            // In this era each POST gets an answer, even the POST of a cancelled request.
            () = cancelled.cancelled() => Reply::Error(RpcError::new(REQUEST_CANCELLED, "Request cancelled")),
        }
    }

    async fn call_tool(&self) -> Reply {
        let Self { gate, params, exchange, client, .. } = self;
        let wanted = if exchange.is_read() { client.wanted(params) } else { WantedNotices::default() };
        let Some(name) = params.name.and_then(text) else { return invalid("`name` must be a tool's name") };
        if params.arguments.is_some_and(|arguments| object(arguments).is_none()) {
            return invalid("`arguments` must be an object");
        }
        let caller = client.caller(&gate.engine);
        let round = match self.round(&caller, &name).await {
            Ok(round) => round,
            Err(reply) => return reply,
        };
        let check_mirrored = |marked: &[Mirrored]| client.check_mirrored(marked, params.arguments);
        let request = CallRequest {
            endpoint: self.endpoint.as_engine(),
            caller: &caller,
            rpc_id: Some(self.id),
            name: &name,
            arguments: params.arguments,
            meta: params.meta,
            round,
            wants_progress: wanted.progress.is_some(),
            log_level: wanted.log_level,
            client: &ClientSender {
                wanted,
                exchange,
                session: client.session(),
                parking: client.parking(),
                capabilities: caller.capabilities,
                shutdown: &gate.shutdown,
            },
            reservation: exchange.reservation(),
            check_mirrored: Some(&check_mirrored),
            within: None,
        };
        gate.engine.call(request).await
    }
}

impl ClientRequest<'_> {
    /// Returns what the client answers to an earlier result that asked for input. Only the modern era has calls that are
    /// repeated with answers. If this gateway itself asked, because the call waits here, continues that call and returns
    /// its reply as an error.
    async fn round(&self, caller: &Caller, tool: &str) -> Result<InputRound, Reply> {
        let Client::Modern { parking, .. } = self.client else { return Ok(InputRound::default()) };
        let round = self.params.round().map_err(invalid)?;
        let Some(parking) = parking.filter(|_| !caller.capabilities.is_empty()) else { return Ok(round) };
        let binding = Binding::new(&caller.principal, self.endpoint.upstream(), tool, self.params.arguments);
        if let Some(state) = round.state.as_deref().and_then(text)
            && let Some(reply) = go_on(self.gate, &state, binding, round.responses.as_deref()).await
        {
            return Err(reply);
        }
        parking.allow(self.id, binding);
        Ok(round)
    }
}

/// A running call, which the client can cancel by the id of its request.
struct InFlight<'a> {
    session: &'a Session,
    id: &'a str,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.session.finish(self.id);
    }
}

fn discover() -> Reply {
    let mut result = json!(KEPT);
    result["supportedVersions"] = json!(MODERN_VERSIONS);
    result["capabilities"] = json!({"logging": {}, "tools": {}});
    result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": {"name": NAME, "version": VERSION}});
    Reply::Result(to_raw(&result))
}

/// `logging/setLevel`: sets the lowest level of log messages for later calls of the session.
fn set_log_level(session: &Session, params: &Params<'_>) -> Reply {
    let Some(level) = params.level.and_then(|level| LogLevel::parse(level.get())) else {
        return invalid("`level` must be debug, info, notice, warning, error, critical, alert or emergency");
    };
    session.set_log_level(level);
    Reply::Result(to_raw(&json!({})))
}

/// Returns the error for a request whose method the gateway does not serve.
pub(super) fn unknown_method(method: &str) -> RpcError {
    RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {method:.128}"))
}

fn invalid(message: &str) -> Reply {
    Reply::Error(RpcError::new(INVALID_PARAMS, message))
}
