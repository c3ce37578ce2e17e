//! How serializers write a text in JSON.

use serde_json::Value;

/// Returns how common serializers write a text in JSON: with slashes escaped or not (PHP), and what is beyond ASCII (Python),
/// or what HTML gives a meaning (Go, Gson, .NET, which counts quotes among that), as `\uXXXX` in digits of either case. Some
/// can be the same.
pub fn spellings(word: &str) -> Vec<String> {
    let quoted = Value::from(word).to_string();
    let json = &quoted[1..quoted.len() - 1];
    let escaped: [fn(char) -> bool; 4] = [
        |c| !c.is_ascii(),
        |c| matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}'),
        |c| matches!(c, '<' | '>' | '&' | '=' | '\'' | '\u{2028}' | '\u{2029}'),
        |c| !c.is_ascii() || matches!(c, '"' | '<' | '>' | '&' | '+' | '\'' | '`'),
    ];
    let slashes = if json.contains('/') { &["/", "\\/"][..] } else { &["/"] };
    let mut all = Vec::new();
    for slash in slashes {
        all.push(json.replace('/', slash));
        // Most values have nothing to escape, and some are large.
        for is_escaped in escaped.into_iter().filter(|is_escaped| json.contains(*is_escaped)) {
            all.extend([LOWER, UPPER].map(|digits| spelled(json, is_escaped, slash, digits)));
        }
    }
    all
}

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// `json` has no quote without a backslash before it.
fn spelled(json: &str, is_escaped: fn(char) -> bool, slash: &str, digits: &[u8; 16]) -> String {
    let (mut text, mut units) = (String::with_capacity(json.len()), [0; 2]);
    let mut rest = json.chars();
    while let Some(first) = rest.next() {
        let after = if first == '\\' { rest.next() } else { None };
        let c = after.filter(|after| *after == '"').unwrap_or(first);
        if c == '/' {
            text.push_str(slash);
        } else if is_escaped(c) {
            for unit in c.encode_utf16(&mut units) {
                text.push_str("\\u");
                text.extend([12, 8, 4, 0].map(|shift| char::from(digits[usize::from(*unit >> shift & 15)])));
            }
        } else {
            text.push(first);
            text.extend(after);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_written_in_both_ways() {
        assert_eq!(spellings("plain"), ["plain"]);
        let all = spellings("pa\"ss\\\"w\\ö\n");
        for said in [
            r#"pa\"ss\\\"w\\ö\n"#,
            r#"pa\"ss\\\"w\\\u00f6\n"#,
            r#"pa\u0022ss\\\u0022w\\\u00f6\n"#,
            r#"pa\u0022ss\\\u0022w\\\u00F6\n"#,
        ] {
            assert!(all.iter().any(|one| one == said), "{said}: {all:?}");
        }
    }
}
