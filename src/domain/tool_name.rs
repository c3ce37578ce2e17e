//! Rules for the names of tools.

/// Maximum length of a tool name that clients see (MCP, tool names).
pub const MAX_NAME: usize = 128;

/// Whether the protocol allows `name`: 1 to 128 characters of `A-Z a-z 0-9 _ . -`.
pub fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_protocol_does_not_allow_are_refused() {
        for (name, valid) in [("a.b-c_D9", true), ("", false), ("a b", false), ("ä", false), ("a/b", false)] {
            assert_eq!(is_valid_name(name), valid, "{name}");
        }
        assert!(!is_valid_name(&"a".repeat(129)));
    }
}
