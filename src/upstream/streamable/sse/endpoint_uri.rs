//! The URI to which messages are posted.

use http::Uri;

use crate::domain::upstream::UpstreamError;

/// Returns the URI that the event `endpoint` of the stream at `stream` names. It must have the same origin: messages
/// carry the credentials that are meant for the server of the stream.
pub(super) fn endpoint_uri(stream: &Uri, named: &str) -> Result<Uri, UpstreamError> {
    let fault = |what: &str| UpstreamError::Protocol(format!("the event `endpoint` of its stream names {what}"));
    let named = named.split('#').next().unwrap_or_default().trim();
    if named.is_empty() {
        return Err(fault("nothing"));
    }
    let (scheme, authority) = (stream.scheme_str().unwrap_or_default(), stream.authority().map_or("", |a| a.as_str()));
    let path = stream.path();
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let whole = match named {
        _ if has_scheme(named) => named.to_owned(),
        _ if named.starts_with("//") => format!("{scheme}:{named}"),
        _ if named.starts_with('/') => format!("{scheme}://{authority}{named}"),
        _ if named.starts_with('?') => format!("{scheme}://{authority}{path}{named}"),
        _ => format!("{scheme}://{authority}{folder}/{named}"),
    };
    let uri: Uri = whole.parse().map_err(|_| fault("no URI"))?;
    if origin(&uri) != origin(stream) || uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(fault("a URI of another origin than that of the stream"));
    }
    Ok(uri)
}

/// Whether a reference begins with a scheme (RFC 3986, section 3.1).
fn has_scheme(reference: &str) -> bool {
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    reference.split_once(':').is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.bytes().all(is_of_scheme))
}

/// Scheme, host and port.
fn origin(uri: &Uri) -> Option<(String, String, u16)> {
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let default = if scheme == "https" { 443 } else { 80 };
    let (host, port) = (uri.host()?.to_ascii_lowercase(), uri.port_u16().unwrap_or(default));
    Some((scheme, host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_of_the_origin_of_its_stream() {
        let at =
            |stream: &str, named: &str| endpoint_uri(&stream.parse().unwrap(), named).ok().map(|uri| uri.to_string());
        let stream = "http://h:8/a/sse?x=1";
        for (named, uri) in [
            ("/messages?sessionId=1", Some("http://h:8/messages?sessionId=1")),
            ("messages?s=a:b", Some("http://h:8/a/messages?s=a:b")),
            ("?s=1", Some("http://h:8/a/sse?s=1")),
            ("http://h:8/m#f", Some("http://h:8/m")),
            ("HTTP://H:8/m", Some("http://h:8/m")),
            ("//h:8/m", Some("http://h:8/m")),
            ("http://h/m", None),
            ("http://h:9/m", None),
            ("https://h:8/m", None),
            ("//evil/m", None),
            ("http://h:8@evil/m", None),
            ("http://user@h:8/m", None),
            ("file:///etc/passwd", None),
            ("javascript:x", None),
            ("/a b", None),
            ("", None),
        ] {
            let found = at(stream, named).map(|found| found.to_ascii_lowercase());
            assert_eq!(found.as_deref(), uri.map(str::to_ascii_lowercase).as_deref(), "{named}");
        }
        assert!(at("http://h/sse", "http://h:80/m").is_some());
    }
}
