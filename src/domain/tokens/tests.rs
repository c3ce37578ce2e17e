//! The tokenizer against `serde_json`.

use serde_json::Value;

use super::*;

/// Checks a text against `serde_json`.
fn check(text: &[u8]) {
    let parsed: Option<&RawValue> = serde_json::from_slice(text).ok();
    assert_eq!(valid(text).is_some(), parsed.is_some(), "{}", String::from_utf8_lossy(text));
    if let (Some(text), Some(parsed)) = (valid(text), parsed) {
        let trimmed = text.trim_matches([' ', '\t', '\r', '\n']);
        assert_eq!(raw(trimmed).map(RawValue::get), Some(parsed.get()));
        assert_eq!(length_of_first(trimmed.as_bytes()), Some(trimmed.len()));
    }
}

const TEXTS: &[&str] = &[
    "",
    " ",
    "{}",
    "[]",
    " { } ",
    "[[],{}]",
    "{\"a\":1}",
    "{\"a\" : [1 , 2.5e-3,-0] }\n",
    "nul",
    "null",
    "truefalse",
    "tru",
    "true ",
    "[1,]",
    "{,}",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "[1 2]",
    "[1}",
    "{]",
    "[",
    "]",
    "1 1",
    "01",
    "-",
    "-a",
    "1.",
    ".5",
    "1e",
    "1e+",
    "1E-5",
    "+1",
    "1.0.0",
    "0x1",
    "\u{feff}1",
    "\"",
    "\"\\\"",
    "\"a\" \"b\"",
    "[\u{a0}1]",
    r#""\a""#,
    r#""\u12""#,
    r#""\u12g4""#,
    r#""\uD800""#,
    r#""\/\b\f\n\r\t\"\\""#,
    r#""\v""#,
    r#""\e""#,
    r#""\U0041""#,
];

#[test]
fn texts_are_valid_if_they_are_for_the_library() {
    TEXTS.iter().for_each(|text| check(text.as_bytes()));
    for bytes in [&b"\"\xff\""[..], b"\"\x1f\"", b"\"\x7f\"", b"\x00", b"\"\n\"", b"[\"\xe2\x82\"]"] {
        check(bytes);
    }
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert!(valid(deep.as_bytes()).is_some());
}

/// Strings of each length around the borders of blocks, with each kind of piece at each place.
#[test]
fn strings_end_where_they_end_for_the_library() {
    let pieces =
        ["\\\\", "\\\"", "\\n", "\\u00e9", "\\ud83d", "é", "😀", "\\", "\\x", "\u{1}", "\"", "\\u1", "\\u12\"4"];
    for length in (0..20_usize).chain(44..80).chain(120..140) {
        for piece in pieces {
            for place in [0, 1, length / 2, length.saturating_sub(2), length.saturating_sub(1), length] {
                for fill in ["a", "\\\\", "\\\""] {
                    let fill = |length: usize| fill.repeat(length / fill.len());
                    let text =
                        format!("[\"{}{piece}{}\",1]", fill(place.min(length)), fill(length - place.min(length)));
                    check(text.as_bytes());
                    (0..text.len()).for_each(|end| check(&text.as_bytes()[..end]));
                }
            }
        }
    }
}

/// Changes each byte of some texts.
#[test]
fn texts_with_a_wrong_byte_are_valid_if_they_are_for_the_library() {
    let texts = [
        r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"{\"a\": [1.5, true]}\n\u00e9"}],"n":-1e+5}}"#,
        r#"[null,false,"\\\\\\",{"a":{"b":[[],{}]}} , 0.25E-7 ]"#,
    ];
    for text in texts {
        assert!(serde_json::from_str::<Value>(text).is_ok());
        for place in 0..text.len() {
            for byte in (0..=127).chain([0x80, 0xc3, 0xff]) {
                let mut changed = text.as_bytes().to_vec();
                changed[place] = byte;
                check(&changed);
            }
        }
    }
}

#[test]
fn depth_is_counted_outside_strings() {
    assert!(!too_deep(br#"{"a":"[[[[\"[[["}"#));
    assert!(!too_deep("[".repeat(128).as_bytes()));
    assert!(too_deep("[".repeat(129).as_bytes()));
    assert!(too_deep(format!(r#"{{"a\\":{}"#, "[".repeat(128)).as_bytes()));
    assert!(!too_deep(br#"{"a\"#));
}
