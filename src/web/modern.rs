//! The modern, stateless era (MCP 2026-07-28): each POST carries its own envelope, and a client that closes the
//! response cancels its call.

use std::sync::Arc;

use axum::http::HeaderMap;

use super::client::Client;
use super::dispatch::ClientRequest;
use super::envelope::{ClientMessage, EnvelopeMeta, Params, text};
use super::listener_context::{ListenerContext, PathEndpoint};
use super::parking::Parking;
use super::requester::Requester;
use super::response::RpcResponse;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::rpc::{INVALID_PARAMS, INVALID_REQUEST, RpcError};
use crate::domain::version::Era;
use crate::engine::exchange::Exchange;
use crate::transport::mcp_headers::{
    Presence, VERSION_HEADER, check_routing, check_single, check_supported, header, is_of_modern_era, mean_modern_era,
    mismatch,
};

/// Whether a message belongs to this era.
pub(super) fn is_of(headers: &HeaderMap, incoming: &ClientMessage<'_>) -> bool {
    let ClientMessage::Request { method, params, .. } = incoming else { return mean_modern_era(headers) };
    let said = params.read_meta().is_some_and(|meta| meta.protocol_version.is_some());
    is_of_modern_era(headers, Some(method), said)
}

pub(super) async fn answer(
    gate: &Arc<ListenerContext>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    requester: &Requester,
    incoming: ClientMessage<'_>,
    exchange: &Exchange,
    parking: Option<&Parking>,
) -> RpcResponse {
    match incoming {
        // In this era, clients send no answers.
        ClientMessage::Answer { .. } => {
            let error = RpcError::new(INVALID_REQUEST, "the body must be a JSON-RPC request or notification");
            RpcResponse::modern_error("null", &error)
        }
        // Without a session, notifications have no effect, but they are accepted.
        ClientMessage::Notification { method, params } => {
            let supported = check_supported(header(headers, &VERSION_HEADER).unwrap_or_default());
            match supported
                .and_then(|()| check_routing(headers, &method, |param| params.text_of(param), Presence::Optional))
            {
                Ok(()) => RpcResponse::accepted(),
                Err(error) => RpcResponse::modern_error("null", &error),
            }
        }
        ClientMessage::Request { id, method, params } => match check_envelope(headers, &method, &params) {
            Err(error) => RpcResponse::modern_error(id, &error),
            Ok(meta) => {
                let client = Client::Modern { headers, meta: &meta };
                let (method, params) = (&*method, &*params);
                let request =
                    ClientRequest { gate, endpoint, client, requester, id, method, params, exchange, parking };
                let reply = request.reply().await;
                RpcResponse::reply(id, &reply, Era::Modern)
            }
        },
    }
}

/// Checks the envelope in the same order as the specification's reference servers.
fn check_envelope<'a>(headers: &HeaderMap, method: &str, params: &Params<'a>) -> Result<EnvelopeMeta<'a>, RpcError> {
    check_single(headers, &[&VERSION_HEADER])?;
    let invalid = |what: &str| RpcError::new(INVALID_PARAMS, what);
    let meta =
        params.read_meta().ok_or_else(|| invalid("`params._meta` must be an object with the envelope's keys"))?;
    let version = meta.protocol_version.ok_or_else(|| lacks("protocolVersion"))?;
    let capabilities = meta.client_capabilities.ok_or_else(|| lacks("clientCapabilities"))?;
    let version = text(version);
    if version.is_none() || header(headers, &VERSION_HEADER) != version.as_deref() {
        return Err(mismatch(format!("the {VERSION_HEADER} header does not match the body's protocol version")));
    }
    check_routing(headers, method, |param| params.text_of(param), Presence::Required)?;
    check_supported(version.as_deref().unwrap_or_default())?;
    let fault = ClientCapabilities::check(Some(capabilities), "io.modelcontextprotocol/clientCapabilities");
    fault.and_then(|()| meta.check_wanted()).map_err(|fault| invalid(&fault))?;
    Ok(meta)
}

fn lacks(key: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("io.modelcontextprotocol/{key} is missing in `params._meta`"))
}
