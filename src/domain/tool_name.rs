//! Rules for the names of tools, and for names by which it is remembered that an upstream had a tool or a prompt.

use super::digest::sha256_hex;

/// Maximum length of a tool name that clients see (MCP, tool names).
pub const MAX_NAME: usize = 128;

/// What stands before the name of a prompt among the names that are remembered. No name of a tool begins like this.
pub const SEEN_PROMPT: &str = "prompt/";

/// The name of the gateway's own tool that finds tools.
pub const SEARCH_TOOLS: &str = "search_tools";
/// The name of the gateway's own tool that calls a tool that was found.
pub const CALL_TOOL: &str = "call_tool";
/// The names of the gateway's own tools, which clients see instead of the upstreams' (`toolDiscovery: Search`).
pub const OWN_TOOLS: [&str; 2] = [SEARCH_TOOLS, CALL_TOOL];

/// Whether `name` can be remembered: it is valid for a tool, or is such a name after [`SEEN_PROMPT`].
pub fn is_seen_name(name: &str) -> bool {
    name.len() <= MAX_NAME && is_valid_name(name.strip_prefix(SEEN_PROMPT).unwrap_or(name))
}

/// Whether the protocol allows `name`: 1 to 128 characters of `A-Z a-z 0-9 _ . -`.
pub fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// Returns the name of a tool, or a short form of it if it has more than `most` characters: its beginning, `_`, and 8
/// hexadecimal digits of the SHA-256 of the whole name.
pub fn shortened(name: String, most: Option<u32>) -> String {
    let Some(most) = most.map(|most| most as usize).filter(|most| name.len() > *most) else { return name };
    let beginning: String = name.chars().take(most.saturating_sub(9)).collect();
    format!("{beginning}_{:.8}", sha256_hex(name.as_bytes()))
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
        for (name, valid) in [("a", true), ("prompt/a", true), ("prompt/", false), ("tool/a", false)] {
            assert_eq!(is_seen_name(name), valid, "{name}");
        }
        assert!(!is_seen_name(&format!("prompt/{}", "a".repeat(122))));
    }
}
