//! Spellings of URIs that a server may take for the same: by RFC 3986, 6.2.2, by the URL Standard of the WHATWG, whose
//! parser the official TypeScript and Python SDKs apply to what they are asked for, and beyond both where a server is likely
//! to see no difference.

use std::iter;

use url::Url;

/// Returns a URI as it is and in other spellings, with and without its query and fragment.
pub(super) fn spellings(uri: &str) -> Vec<String> {
    let mut all = Vec::new();
    for form in iter::once(uri.to_owned()).chain(standard(uri)) {
        all.extend([spelling(&form, is_unreserved), plainest(&form), decoded(&form, |_| true)]);
        all.push(bare(&form).to_owned());
        all.push(form);
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the spelling in which resources are compared: two with the same one are taken for one.
pub(super) fn plainest(uri: &str) -> String {
    spelling(uri, |_| true)
}

/// Returns a URI in lower case, without the percent-encoding of the bytes that `decodes` admits, without its query and its
/// fragment, without dot segments, and with single slashes, none of them at the end.
pub(super) fn spelling(uri: &str, decodes: impl Fn(u8) -> bool) -> String {
    let plain = decoded(uri, decodes).to_ascii_lowercase().replace('\\', "/");
    let (scheme, rest) = bare(&plain).split_at(bare(&plain).find(':').map_or(0, |colon| colon + 1));
    // The authority is no segment (RFC 3986, 5.2.4).
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
        None => ("", rest),
    };
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    let start = if rest.starts_with('/') { "/" } else { "" };
    let parts: Vec<_> = iter::once(authority).filter(|authority| !authority.is_empty()).chain(segments).collect();
    format!("{scheme}{start}{}", parts.join("/"))
}

/// Returns the form that the URL Standard gives a URI, without user information; `None` if it is no URL.
pub(super) fn standard(uri: &str) -> Option<String> {
    let mut url = Url::parse(uri).ok()?;
    // A URL without an authority has no user information.
    let _ = (url.set_username(""), url.set_password(None));
    Some(url.into())
}

/// Returns what stands before the query and the fragment.
fn bare(uri: &str) -> &str {
    uri.split(['?', '#']).next().unwrap_or_default()
}

/// Returns a text without the percent-encoding of the bytes that `decodes` admits.
pub(super) fn decoded(text: &str, decodes: impl Fn(u8) -> bool) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let escaped = escaped.filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|byte| decodes(*byte)) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// RFC 3986, 2.3.
pub(super) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_stands_for_many() {
        for (uri, plain) in [
            ("FILE:///Secret%2Fa", "file:/secret/a"),
            ("file:///x//..\\secret/./a/?x#y", "file:/secret/a"),
            ("mem://r1", "mem:/r1"),
            ("mem://../a/b", "mem:/../a/b"),
            ("mem://a/../../b", "mem:/a/b"),
            ("urn:A:%62", "urn:a:b"),
            ("a/b?c:d", "a/b"),
            ("", ""),
        ] {
            assert_eq!(plainest(uri), plain, "{uri}");
        }
        assert_eq!(spelling("mem://%74/a%2Fb", is_unreserved), "mem:/t/a%2fb");
    }

    #[test]
    fn the_form_of_the_url_standard_has_no_user_information() {
        for (uri, form) in [
            ("http:user:word@Example.com:80\\a/../b", Some("http://example.com/b")),
            ("file:secret/a", Some("file:///secret/a")),
            (" file://localhost/a ", Some("file:///a")),
            ("mem:a", Some("mem:a")),
            ("a/b", None),
        ] {
            assert_eq!(standard(uri).as_deref(), form, "{uri}");
        }
    }
}
