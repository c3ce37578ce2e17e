//! JSON with comments and trailing commas, as editors accept it in the files of MCP clients.

/// Returns the text with spaces in the place of comments and of commas behind the last member or element. All else keeps its
/// place, so that errors have the right position.
pub(super) fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.char_indices();
    // The place in `plain` of a comma that no value follows yet.
    let mut comma = None;
    while let Some((at, char)) = chars.next() {
        let comment = match char {
            '/' => comment(&text[at..]),
            _ => None,
        };
        if let Some(comment) = comment {
            plain.extend(comment.chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
            comment.chars().skip(1).for_each(|_| _ = chars.next());
            continue;
        }
        match char {
            '}' | ']' => {
                if let Some(comma) = comma.take() {
                    plain.replace_range(comma..=comma, " ");
                }
            }
            ',' => comma = Some(plain.len()),
            char if char.is_whitespace() => {}
            _ => comma = None,
        }
        plain.push(char);
        if char == '"' {
            push_string(&mut plain, &mut chars);
        }
    }
    plain
}

/// Returns the comment that a text begins with; one that does not end is none.
fn comment(text: &str) -> Option<&str> {
    if text.starts_with("//") {
        return Some(&text[..text.find('\n').unwrap_or(text.len())]);
    }
    let inside = text.strip_prefix("/*")?;
    Some(&text[..inside.find("*/")? + 4])
}

/// Copies the rest of a string.
fn push_string(plain: &mut String, chars: &mut impl Iterator<Item = (usize, char)>) {
    let mut is_escaped = false;
    for (_, char) in chars {
        plain.push(char);
        if char == '"' && !is_escaped {
            return;
        }
        is_escaped = char == '\\' && !is_escaped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_become_spaces() {
        for (text, expected) in [
            (r#"{"a": 1, // é "x", }"#, r#"{"a": 1,            "#),
            ("{\"a\": [1, /* ]\n*/ 2,],}", "{\"a\": [1,     \n   2 ] }"),
            (r#"{"a": "// \" /* ,]"}"#, r#"{"a": "// \" /* ,]"}"#),
            (r#"{"a": "\\", /**/ }"#, r#"{"a": "\\"       }"#),
            ("[1,\n // c\n ]", "[1 \n     \n ]"),
            ("[1,,]", "[1, ]"),
            ("/ /* x", "/ /* x"),
        ] {
            assert_eq!(without_comments(text), expected, "{text}");
        }
    }
}
