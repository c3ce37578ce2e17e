//! Headers that repeat parts of the body, so that intermediaries need not read the body (MCP 2026-07-28, Streamable
//! HTTP). Intermediaries that route or filter by these headers rely on this gateway to refuse requests whose headers
//! differ from the body.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::header_text::decode;
use crate::domain::method::{ItemParam, Method};
use crate::domain::mirror::Mirrored;
use crate::domain::rpc::{HEADER_MISMATCH, RpcError, UNSUPPORTED_VERSION};
use crate::domain::version::{LEGACY_VERSIONS, MODERN_VERSIONS};

/// The header with which a client continues a stream.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The header that names a session of the legacy era.
pub const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// The header that names the protocol version.
pub const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The header that repeats the body's method.
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
/// The header that names the target of the method: a tool, a prompt or a resource.
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// How strictly the headers are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// They are required.
    Required,
    /// They must match the body if they are present.
    Optional,
}

/// Replaces several equal values of `MCP-Protocol-Version` by one. Some proxies send a client's header twice, as two lines
/// or as one line with a comma (RFC 9110, section 5.3).
pub fn merge_versions(headers: &mut HeaderMap) {
    let mut values =
        headers.get_all(&VERSION_HEADER).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let Some(first) = values.next().map(<[u8]>::trim_ascii) else { return };
    let mut others = values.map(<[u8]>::trim_ascii).peekable();
    if others.peek().is_none() || others.any(|other| other != first) {
        return;
    }
    if let Ok(version) = HeaderValue::from_bytes(first) {
        headers.insert(&VERSION_HEADER, version);
    }
}

/// Checks that `Mcp-Method` and `Mcp-Name` agree with the body. `param` returns a text of the body's `params`.
///
/// # Errors
/// [`HEADER_MISMATCH`], if they do not.
pub fn check_routing<'a>(
    headers: &HeaderMap,
    method: &str,
    param: impl FnOnce(ItemParam) -> Option<Cow<'a, str>>,
    presence: Presence,
) -> Result<(), RpcError> {
    check_single(headers, &[&METHOD_HEADER, &NAME_HEADER])?;
    let is_due = |name: &HeaderName| presence == Presence::Required || headers.contains_key(name);
    if is_due(&METHOD_HEADER) && header(headers, &METHOD_HEADER) != Some(method) {
        return Err(differs(headers, &METHOD_HEADER, "the body's method"));
    }
    if let Some(named) = Method::parse(method).and_then(Method::item).and_then(param)
        && is_due(&NAME_HEADER)
        && header(headers, &NAME_HEADER).and_then(decode).as_deref() != Some(&*named)
    {
        return Err(differs(headers, &NAME_HEADER, "what the body names"));
    }
    Ok(())
}

/// Checks that a marked argument and its header are either both present and equal, or both absent.
///
/// # Errors
/// [`HEADER_MISMATCH`], if they are not.
pub fn check_mirrored(headers: &HeaderMap, argument: &Mirrored, arguments: Option<&RawValue>) -> Result<(), RpcError> {
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
///
/// # Errors
/// [`HEADER_MISMATCH`], if one is.
pub fn check_single(headers: &HeaderMap, names: &[&HeaderName]) -> Result<(), RpcError> {
    match names.iter().find(|name| headers.get_all(**name).iter().nth(1).is_some()) {
        Some(name) => Err(mismatch(format!("the {name} header stands more than once"))),
        None => Ok(()),
    }
}

/// Returns the error for a header that is missing, or differs from a part of the body.
fn differs(headers: &HeaderMap, name: &HeaderName, part: &str) -> RpcError {
    mismatch(match headers.contains_key(name) {
        true => format!("the {name} header does not match {part}"),
        false => format!("the {name} header is missing: it repeats {part}"),
    })
}

/// Returns the error for a header that does not match the body.
pub fn mismatch(what: String) -> RpcError {
    RpcError::new(HEADER_MISMATCH, what)
}

/// Returns the text of a header; `None` if it is absent or contains anything other than visible ASCII.
pub fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Checks that the gateway supports a version of the modern era.
///
/// # Errors
/// [`UNSUPPORTED_VERSION`] with the supported ones, of which a client can choose another.
pub fn check_supported(version: &str) -> Result<(), RpcError> {
    if MODERN_VERSIONS.contains(&version) {
        return Ok(());
    }
    let data = json!({"supported": MODERN_VERSIONS, "requested": version.chars().take(64).collect::<String>()});
    Err(RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version").with_data(data))
}

/// Whether a message belongs to the modern era. `method` is that of a request. A request outside of a session belongs to
/// it even if only its body names a version; such a request is then refused because its headers do not match.
pub fn is_of_modern_era(headers: &HeaderMap, method: Option<&str>, body_names_version: bool) -> bool {
    // `initialize` can offer any version, and is answered with one that is supported (MCP 2025-11-25, version
    // negotiation).
    let by_header = match method.and_then(Method::parse) {
        Some(Method::Initialize) => names_modern_version(headers),
        _ => mean_modern_era(headers),
    };
    by_header || body_names_version && !headers.contains_key(&SESSION_HEADER)
}

/// Whether the headers indicate the modern era: they name a modern version, or, outside of a session, any version other
/// than those that use `initialize`.
pub fn mean_modern_era(headers: &HeaderMap) -> bool {
    headers.get(&VERSION_HEADER).is_some_and(|version| {
        let is = |known: &&str| version.as_bytes() == known.as_bytes();
        MODERN_VERSIONS.iter().any(is) || !(LEGACY_VERSIONS.iter().any(is) || headers.contains_key(&SESSION_HEADER))
    })
}

fn names_modern_version(headers: &HeaderMap) -> bool {
    headers.get(&VERSION_HEADER).is_some_and(|v| MODERN_VERSIONS.iter().any(|known| v.as_bytes() == known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_versions_become_one() {
        for (lines, merged) in [
            (&["2025-11-25"][..], &["2025-11-25"][..]),
            (&["2025-11-25", "2025-11-25"], &["2025-11-25"]),
            (&["2025-11-25 ,2025-11-25", "2025-11-25"], &["2025-11-25"]),
            (&["2025-11-25", "2025-06-18"], &["2025-11-25", "2025-06-18"]),
            (&["2025-11-25,"], &["2025-11-25,"]),
            (&[], &[]),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(&VERSION_HEADER, HeaderValue::from_static(line));
            }
            merge_versions(&mut headers);
            assert_eq!(headers.get_all(&VERSION_HEADER).iter().collect::<Vec<_>>(), merged, "{lines:?}");
        }
    }
}
