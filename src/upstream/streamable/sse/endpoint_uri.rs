//! The URI to which messages are posted.

use http::Uri;
use url::Url;

use crate::domain::upstream::UpstreamError;

/// Returns the URI that the event `endpoint` of the stream at `stream` names, which may be relative to that of the stream
/// (RFC 3986, section 5). It must have the same origin: messages carry the credentials that are meant for the server of the
/// stream.
pub(super) fn endpoint_uri(stream: &Uri, named: &str) -> Result<Uri, UpstreamError> {
    let fault = |what: &str| UpstreamError::Protocol(format!("the event `endpoint` of its stream names {what}"));
    if named.trim().is_empty() {
        return Err(fault("nothing"));
    }
    let base = Url::parse(&stream.to_string()).map_err(|_| fault("no URI that can be resolved"))?;
    let mut url = base.join(named).map_err(|_| fault("no URI"))?;
    if url.origin() != base.origin() || !url.username().is_empty() || url.password().is_some() {
        return Err(fault("a URI of another origin than that of the stream"));
    }
    url.set_fragment(None);
    Uri::try_from(url.as_str()).map_err(|_| fault("no URI"))
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
            ("../m?s=1", Some("http://h:8/m?s=1")),
            ("./b/../m", Some("http://h:8/a/m")),
            ("/x/../../m", Some("http://h:8/m")),
            ("../..//evil/m", Some("http://h:8//evil/m")),
            (r"\\evil\m", None),
            ("/\t/evil/m", None),
            ("//h:8/m", Some("http://h:8/m")),
            ("http://h/m", None),
            ("http://h:9/m", None),
            ("https://h:8/m", None),
            ("//evil/m", None),
            ("http://h:8@evil/m", None),
            ("http://user@h:8/m", None),
            ("file:///etc/passwd", None),
            ("javascript:x", None),
            ("/a b", Some("http://h:8/a%20b")),
            (" ", None),
            ("", None),
        ] {
            let found = at(stream, named).map(|found| found.to_ascii_lowercase());
            assert_eq!(found.as_deref(), uri.map(str::to_ascii_lowercase).as_deref(), "{named}");
        }
        assert!(at("http://h/sse", "http://h:80/m").is_some());
    }
}
