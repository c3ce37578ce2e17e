//! The normal form of URIs, which conditions compare: servers can take URIs with the same one for the same resource.

use std::fmt::Write;

/// Returns the normal form of a URI (RFC 3986, section 6.2.2): scheme and host in lower case, no `.` and `..` in the path, and no
/// unreserved character percent-encoded. Characters that no URI has are encoded (RFC 3987, section 3.1). Of the scheme `file`, `localhost` is left out (RFC 8089),
/// and so are empty segments and a query; what a path is made of is not encoded, because servers decode all of it. Fragments, which no
/// request has (RFC 3986, section 6.1), are left out of `file`, `http` and `https`. `None` if the URI has this form, or no scheme.
pub fn normal_form(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme))?;
    let scheme = scheme.to_ascii_lowercase();
    let is_file = scheme == "file";
    let (hierarchy, tail) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    // A template can have either in braces.
    let tail = match &*scheme {
        _ if uri.contains('{') => tail,
        "file" => "",
        "http" | "https" => tail.split('#').next().unwrap_or_default(),
        _ => tail,
    };
    let (authority, path) = match hierarchy.strip_prefix("//") {
        Some(after) => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            (Some(normal_authority(authority)), path)
        }
        None => (None, hierarchy),
    };
    let path = without_dots(&decoded(path, is_file), is_file);
    let authority = match authority.as_deref() {
        None if is_file && path.starts_with('/') => Some(""),
        Some("localhost") if is_file => Some(""),
        authority => authority,
    };
    let authority = authority.map(|authority| format!("//{authority}")).unwrap_or_default();
    let normal = format!("{scheme}:{authority}{path}{}", decoded(tail, false));
    (normal != uri).then_some(normal)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn normal_authority(authority: &str) -> String {
    let (user, host) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    // The letters of what stays encoded are upper-case.
    let host = decoded(&decoded(host, false).to_ascii_lowercase(), false);
    decoded(user, false) + &host
}

/// Returns a text of which what need not be encoded is decoded, and the other way round.
fn decoded(text: &str, is_path_of_file: bool) -> String {
    let is_plain = |byte: u8| {
        byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || is_path_of_file && b"/!$&'()*+,;=:@".contains(&byte)
    };
    let (mut decoded, mut rest) = (String::with_capacity(text.len()), text.as_bytes());
    let encode = |text: &mut String, byte: u8| {
        // A string takes all that is written.
        let _ = write!(text, "%{byte:02X}");
    };
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, encoded(after)) {
            (b'%', Some(byte)) => {
                rest = &after[2..];
                if is_plain(byte) { decoded.push(char::from(byte)) } else { encode(&mut decoded, byte) }
            }
            // Templates have braces.
            (b'{' | b'}', _) => decoded.push(char::from(byte)),
            (byte, _) if byte.is_ascii_graphic() && !b"\"<>\\^`|".contains(&byte) => decoded.push(char::from(byte)),
            (byte, _) => encode(&mut decoded, byte),
        }
    }
    decoded
}

/// Returns the byte that these two digits are.
fn encoded(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Returns a path without `.` and `..` (RFC 3986, section 5.2.4), and without empty segments if that is asked for.
fn without_dots(path: &str, without_empty: bool) -> String {
    let (root, rest) = path.strip_prefix('/').map_or(("", path), |rest| ("/", rest));
    let (mut kept, mut ends_with_slash) = (Vec::new(), false);
    for segment in rest.split('/') {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            "" if without_empty => {}
            segment => kept.push(segment),
        }
        ends_with_slash = matches!(segment, "." | "..") || segment.is_empty() && without_empty;
    }
    let end = if ends_with_slash && !kept.is_empty() { "/" } else { "" };
    format!("{root}{}{end}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of forms")]
    fn uris_of_one_resource_have_one_form() {
        for (uri, normal) in [
            ("file:///pub/secret", "file:///pub/secret"),
            ("FILE:///pub/secret", "file:///pub/secret"),
            ("file://localhost/pub/secret", "file:///pub/secret"),
            ("file://LOCAL%48ost/pub/secret", "file:///pub/secret"),
            ("file:/pub/secret", "file:///pub/secret"),
            ("file:///pub/%73ecret", "file:///pub/secret"),
            ("file:///pub/x/../secret", "file:///pub/secret"),
            ("file:///pub/x/%2e%2E/./secret", "file:///pub/secret"),
            ("file:///pub/x%2F..%2fsecret", "file:///pub/secret"),
            ("file:///../../pub//secret", "file:///pub/secret"),
            ("file:////pub/secret", "file:///pub/secret"),
            ("file:///pub/a%40b%2b", "file:///pub/a@b+"),
            ("file:///pub/%2573ecret", "file:///pub/%2573ecret"),
            ("file:///pub/\u{fc} x", "file:///pub/%C3%BC%20x"),
            ("file:///pub/%c3%bc", "file:///pub/%C3%BC"),
            ("file:///pub/x/..", "file:///pub/"),
            ("file:///pub/", "file:///pub/"),
            ("file:///", "file:///"),
            ("file://host/pub/./x", "file://host/pub/x"),
            ("file:relative/../x", "file:x"),
            ("HTTPS://User@Example.COM:443/%7Ea/b/../c?q=%7e%2f#%41", "https://User@example.com:443/~a/c?q=~%2F"),
            ("file:///pub/secret?x#a", "file:///pub/secret"),
            ("file:///pub/secret#", "file:///pub/secret"),
            ("file:///pub/{name}{?x}", "file:///pub/{name}{?x}"),
            ("http://a/b#c", "http://a/b"),
            ("note:b#%63", "note:b#c"),
            ("http://a/b%2Fc//d", "http://a/b%2Fc//d"),
            ("http://a/b//", "http://a/b//"),
            ("http://a/b/..//", "http://a//"),
            ("http://a/b//.", "http://a/b//"),
            ("http://a", "http://a"),
            ("note:a%2", "note:a%2"),
            ("note:x/../secret", "note:secret"),
            ("db://t/{row}/%2e", "db://t/{row}/"),
            ("no scheme", "no scheme"),
            ("1:x/../y", "1:x/../y"),
            ("", ""),
        ] {
            let found = normal_form(uri);
            assert_eq!(found.as_deref().unwrap_or(uri), normal, "{uri}");
            assert_eq!(found.is_some(), uri != normal, "{uri}");
            assert_eq!(normal_form(normal), None, "the form of {uri} is stable");
        }
    }
}
