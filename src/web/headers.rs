//! Headers that repeat parts of the body, so that intermediaries need not read the body (MCP 2026-07-28, Streamable
//! HTTP). Intermediaries that route or filter by these headers rely on this gateway to refuse requests whose headers
//! differ from the body.

use axum::http::HeaderMap;
use serde_json::value::RawValue;

use super::envelope::{Params, text};
use crate::domain::header_text::decode;
use crate::domain::method::{ItemParam, Method};
use crate::domain::mirror::Mirrored;
use crate::domain::rpc::{HEADER_MISMATCH, RpcError};

/// The header that repeats the body's method.
const METHOD_HEADER: &str = "mcp-method";
/// The header that names the target of the method: a tool, a prompt or a resource.
const NAME_HEADER: &str = "mcp-name";

/// How strictly the headers are checked: they are required, or they must match the body only if they are present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
}

/// Checks that `Mcp-Method` and `Mcp-Name` agree with the body.
pub(super) fn check_routing(
    headers: &HeaderMap,
    method: &str,
    params: &Params<'_>,
    presence: Presence,
) -> Result<(), RpcError> {
    check_single(headers, &[METHOD_HEADER, NAME_HEADER])?;
    let is_due = |name| presence == Presence::Required || headers.contains_key(name);
    if is_due(METHOD_HEADER) && header(headers, METHOD_HEADER) != Some(method) {
        return Err(mismatch(format!("the {METHOD_HEADER} header does not match the body's method")));
    }
    let named = match Method::parse(method).and_then(Method::item) {
        Some(ItemParam::Name) => params.name,
        Some(ItemParam::Uri) => params.uri,
        None => None,
    };
    if let Some(named) = named.and_then(text)
        && is_due(NAME_HEADER)
        && header(headers, NAME_HEADER).and_then(decode).as_deref() != Some(&*named)
    {
        return Err(mismatch(format!("the {NAME_HEADER} header does not match what the body names")));
    }
    Ok(())
}

/// Checks that a marked argument and its header are either both present and equal, or both absent.
pub(super) fn check_mirrored(
    headers: &HeaderMap,
    argument: &Mirrored,
    arguments: Option<&RawValue>,
) -> Result<(), RpcError> {
    let mut sent = headers.get_all(&argument.header).iter();
    let value = arguments.and_then(|arguments| argument.value(arguments));
    let agrees = match (value, sent.next(), sent.next()) {
        (None, None, _) => true,
        (Some(value), Some(sent), None) => {
            sent.to_str().ok().and_then(decode).is_some_and(|sent| argument.agrees(&value, &sent))
        }
        _ => false,
    };
    if agrees {
        return Ok(());
    }
    Err(mismatch(format!("the {} header does not match the argument {}", argument.header, argument.path.join("."))))
}

/// Checks that none of these headers is present twice, because another reader might use the other value.
pub(super) fn check_single(headers: &HeaderMap, names: &[&str]) -> Result<(), RpcError> {
    match names.iter().find(|name| headers.get_all(**name).iter().nth(1).is_some()) {
        Some(name) => Err(mismatch(format!("the {name} header stands more than once"))),
        None => Ok(()),
    }
}

/// Returns the error for a header that does not match the body.
pub(super) fn mismatch(what: String) -> RpcError {
    RpcError::new(HEADER_MISMATCH, what)
}

/// Returns the text of a header; `None` if it is absent or contains anything other than visible ASCII.
pub(super) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// The header that names the protocol version.
pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";
