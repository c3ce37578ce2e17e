//! How serializers write a text in JSON.

use serde_json::Value;

/// Returns how common serializers write a text in JSON: with slashes escaped or not (PHP), and what is beyond ASCII (Python),
/// or what HTML gives a meaning (Go, Gson, .NET), as `\\uXXXX` in digits of either case.
pub fn spellings(word: &str) -> Vec<String> {
    let quoted = Value::from(word).to_string();
    let json = &quoted[1..quoted.len() - 1];
    let escaped: [fn(char) -> bool; 5] = [
        |_| false,
        |c| !c.is_ascii(),
        |c| matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'),
        |c| matches!(c, '<' | '>' | '&' | '=' | '\'' | '\u{2028}' | '\u{2029}'),
        |c| !c.is_ascii() || matches!(c, '<' | '>' | '&' | '+' | '\'' | '`'),
    ];
    let mut all = Vec::new();
    for is_escaped in escaped {
        for slash in ["/", "\\/"] {
            for digits in [LOWER, UPPER] {
                all.push(spelled(json, is_escaped, slash, digits));
            }
        }
    }
    all
}

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

fn spelled(json: &str, is_escaped: fn(char) -> bool, slash: &str, digits: &[u8; 16]) -> String {
    let (mut text, mut units) = (String::with_capacity(json.len()), [0; 2]);
    for c in json.chars() {
        if c == '/' {
            text.push_str(slash);
        } else if is_escaped(c) {
            for unit in c.encode_utf16(&mut units) {
                text.push_str("\\u");
                text.extend([12, 8, 4, 0].map(|shift| char::from(digits[usize::from(*unit >> shift & 15)])));
            }
        } else {
            text.push(c);
        }
    }
    text
}
