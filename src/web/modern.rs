//! The modern, stateless era (MCP 2026-07-28): each POST carries its own envelope, and a client that closes the
//! response cancels its call.

use std::net::IpAddr;

use axum::http::HeaderMap;
use serde_json::json;

use super::client::Client;
use super::dispatch::ClientRequest;
use super::envelope::{ClientMessage, EnvelopeMeta, Params, text};
use super::gate::{Gate, PathEndpoint};
use super::headers::{Presence, VERSION_HEADER, check_routing, check_single, header, mismatch};
use super::outbox::Outbox;
use super::response::{RpcResponse, SESSION_HEADER};
use crate::domain::method::Method;
use crate::domain::rpc::{INVALID_PARAMS, INVALID_REQUEST, RpcError, UNSUPPORTED_VERSION};
use crate::domain::version::{Era, LEGACY_VERSIONS, MODERN_VERSIONS, UNSPOKEN_VERSION};

/// Whether the headers indicate this era: they name a modern version, or, outside of a session, any version other than
/// those that use `initialize`.
pub(super) fn is_meant(headers: &HeaderMap) -> bool {
    headers.get(VERSION_HEADER).is_some_and(|version| {
        let is = |known: &&str| version.as_bytes() == known.as_bytes();
        let known_to_initialize = LEGACY_VERSIONS.iter().chain([&UNSPOKEN_VERSION]).any(is);
        names_version(headers) || !(known_to_initialize || headers.contains_key(SESSION_HEADER))
    })
}

/// Whether a message belongs to this era. A request outside of a session belongs to it even if only its body names a
/// version; such a request is then refused because its headers do not match.
pub(super) fn is_of(headers: &HeaderMap, incoming: &ClientMessage<'_>) -> bool {
    let ClientMessage::Request { method, params, .. } = incoming else { return is_meant(headers) };
    let said = params.read_meta().is_some_and(|meta| meta.protocol_version.is_some());
    let by_body = said && !headers.contains_key(SESSION_HEADER);
    // `initialize` can offer any version, and is answered with one that is supported (MCP 2025-11-25, version
    // negotiation).
    by_body
        || if Method::parse(method) == Some(Method::Initialize) { names_version(headers) } else { is_meant(headers) }
}

fn names_version(headers: &HeaderMap) -> bool {
    headers.get(VERSION_HEADER).is_some_and(|v| MODERN_VERSIONS.iter().any(|known| v.as_bytes() == known.as_bytes()))
}

pub(super) async fn answer(
    gate: &Gate,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    peer: IpAddr,
    incoming: ClientMessage<'_>,
    outbox: &Outbox,
) -> RpcResponse {
    match incoming {
        // In this era, clients send no answers.
        ClientMessage::Answer => {
            let error = RpcError::new(INVALID_REQUEST, "the body must be a JSON-RPC request or notification");
            RpcResponse::modern_error("null", &error)
        }
        // Without a session, notifications have no effect, but they are accepted.
        ClientMessage::Notification { method, params } => {
            let supported = supported(header(headers, VERSION_HEADER).unwrap_or_default());
            match supported.and_then(|()| check_routing(headers, &method, &params, Presence::Optional)) {
                Ok(()) => RpcResponse::accepted(),
                Err(error) => RpcResponse::modern_error("null", &error),
            }
        }
        ClientMessage::Request { id, method, params } => match check_envelope(headers, &method, &params) {
            Err(error) => RpcResponse::modern_error(id, &error),
            Ok(meta) => {
                let client = Client::Modern { headers, peer, meta: &meta };
                let request = ClientRequest { gate, endpoint, client, id, method: &method, params: &params, outbox };
                let reply = request.reply().await;
                RpcResponse::reply(id, &reply, Era::Modern)
            }
        },
    }
}

/// Checks the envelope in the same order as the specification's reference servers.
fn check_envelope<'a>(headers: &HeaderMap, method: &str, params: &Params<'a>) -> Result<EnvelopeMeta<'a>, RpcError> {
    check_single(headers, &[VERSION_HEADER])?;
    let invalid = |what: &str| RpcError::new(INVALID_PARAMS, what);
    let meta =
        params.read_meta().ok_or_else(|| invalid("`params._meta` must be an object with the envelope's keys"))?;
    let version = meta.protocol_version.ok_or_else(|| lacks("protocolVersion"))?;
    meta.client_capabilities.ok_or_else(|| lacks("clientCapabilities"))?;
    let version = text(version);
    if version.is_none() || header(headers, VERSION_HEADER) != version.as_deref() {
        return Err(mismatch(format!("the {VERSION_HEADER} header does not match the body's protocol version")));
    }
    check_routing(headers, method, params, Presence::Required)?;
    supported(version.as_deref().unwrap_or_default())?;
    Ok(meta)
}

fn lacks(key: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, format!("io.modelcontextprotocol/{key} is missing in `params._meta`"))
}

fn supported(version: &str) -> Result<(), RpcError> {
    if MODERN_VERSIONS.contains(&version) {
        return Ok(());
    }
    let data = json!({"supported": MODERN_VERSIONS, "requested": version.chars().take(64).collect::<String>()});
    Err(RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version").with_data(data))
}
