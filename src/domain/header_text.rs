//! Text in header values (MCP 2026-07-28, transports): plain, or in base64 if a header value cannot carry it unchanged.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The prefix and the suffix of a header value whose text is encoded in base64.
const HEAD: &str = "=?base64?";
const TAIL: &str = "?=";

/// Encodes a text as a header value. The text is returned unchanged if it consists of printable ASCII characters, has
/// no space at either end, and cannot be mistaken for an encoded value.
pub fn encode(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|b| matches!(b, 0x20..=0x7e)) && text.trim() == text;
    let looks_encoded = text.starts_with(HEAD) && text.ends_with(TAIL);
    if plain && !looks_encoded { text.into() } else { format!("{HEAD}{}{TAIL}", BASE64_STANDARD.encode(text)).into() }
}

/// Decodes a header value. A value that is not marked as base64 is returned unchanged. Returns `None` if the base64 is
/// not canonical, or if the decoded bytes are not UTF-8.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let Some(encoded) = value.strip_prefix(HEAD).and_then(|rest| rest.strip_suffix(TAIL)) else {
        return Some(Cow::Borrowed(value));
    };
    String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_would_not_survive_are_encoded() {
        for plain in ["echo", "a b", ""] {
            assert_eq!(encode(plain), plain);
        }
        assert_eq!(encode(" a"), "=?base64?IGE=?=");
        assert_eq!(encode("=?base64?IGE=?="), "=?base64?PT9iYXNlNjQ/SUdFPT89?=");
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for text in ["echo", " a", "z\u{fc}rich", "a\nb", "\u{1f4a5}", "=?base64?IGE=?=", "=?base64??="] {
            let value = encode(text);
            assert!(value.bytes().all(|b| matches!(b, 0x20..=0x7e)), "{value}");
            assert_eq!(decode(&value).as_deref(), Some(text));
        }
        for broken in ["=?base64?!?=", "=?base64?IGE?=", "=?base64?/w==?="] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
