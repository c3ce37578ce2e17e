//! Finds in the last lines that a process printed why it ended.

use super::sandbox::MAX_DESCRIPTORS;

/// The maximum number of characters of a line that is quoted.
const QUOTED: usize = 300;
/// V8, Node.js and the C++ library say these words if memory ran out.
const OUT_OF_MEMORY: [&str; 3] = ["out of memory", "std::bad_alloc", "llocation failed"];

/// Whether memory ran out.
pub fn is_out_of_memory(text: &str) -> bool {
    OUT_OF_MEMORY.iter().any(|words| text.contains(words))
}

/// Returns the last line that is not a part of an error's stack, or, if an error was printed last, the line that names it.
/// A SyntaxError is named with its place only, because it quotes the text that could not be parsed.
pub fn cause(lines: &[String]) -> Option<String> {
    let is_trailer = |line: &str| line.is_empty() || line.starts_with("Node.js v") || line.starts_with("(Use `node");
    let last = lines.iter().rposition(|line| !is_trailer(line.trim()))?;
    // A warning is above the code that it is about, and a line that points to a place in it.
    let last = if lines[last].trim().chars().all(|c| c == '^') { last.checked_sub(2)? } else { last };
    let is_within_error = lines[last].starts_with([' ', '\t', '}']);
    let named = || lines[..=last].iter().rposition(|line| starts_with_error(line)).unwrap_or(last);
    let at = if is_within_error { named() } else { last };
    let line = &lines[at];
    if line.starts_with("SyntaxError") {
        return Some(syntax_error(&lines[at + 1..]));
    }
    Some(line.trim().chars().take(QUOTED).collect())
}

/// Adds the limit to the message of an error that says that too many files are open.
pub fn with_limit_of_files(message: String) -> String {
    if !message.contains("EMFILE") {
        return message;
    }
    format!("{message} (a worker can have {MAX_DESCRIPTORS} files and connections open)")
}

/// Whether the line begins with the name of an error, as `TypeError: ...` or `Error [ERR_X]: ...`.
pub fn starts_with_error(line: &str) -> bool {
    let Some((name, _)) = line.split_once(':') else { return false };
    let name = name.split_once(' ').map_or(name, |(name, _)| name);
    name.ends_with("Error") && name.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Describes a SyntaxError by its stack, as `host.mjs` does.
fn syntax_error(stack: &[String]) -> String {
    let mut frames = stack.iter().map_while(|line| line.trim().strip_prefix("at ")).peekable();
    let by_parse = frames.peek().is_some_and(|frame| frame.starts_with("JSON.parse"));
    let what =
        if by_parse { "JSON.parse was given text that is not JSON" } else { "it threw a SyntaxError while it ran" };
    let place = frames.map(|frame| frame.rsplit_once('(').map_or(frame, |(_, place)| place).trim_end_matches(')'));
    let place =
        place.filter(|place| !place.starts_with("node:") && place.contains(':')).map(|place| format!(", at {place}"));
    format!("{what}{}", place.take(1).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause_of(text: &str) -> Option<String> {
        cause(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_cause_is_the_error_or_the_last_line() {
        let uncaught =
            "/x/p.mjs:1\nthrow new Error('late')\n^\n\nError: late\n    at f (/x/p.mjs:1:7)\n\nNode.js v24.0.0\n";
        let with_members = "Error: a\n    at f (/x/p.mjs:1:7) {\n  code: 'X'\n}\n\nNode.js v24.0.0\n";
        for (text, expected) in [
            (uncaught, Some("Error: late")),
            (with_members, Some("Error: a")),
            ("Error: tried again\nno configuration\n", Some("no configuration")),
            (
                "Uncaught 'x'\n(Use `node --trace-uncaught ...` to show where)\n\nNode.js v24.0.0\n",
                Some("Uncaught 'x'"),
            ),
            ("Warning: unsettled await at p.mjs:1\nawait x\n^\n\n\n", Some("Warning: unsettled await at p.mjs:1")),
            ("\n", None),
        ] {
            assert_eq!(cause_of(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_syntax_error_has_its_place_and_no_content() {
        let of_json = "SyntaxError: Unexpected token 's', \"s3cret\" is not valid JSON\n    at JSON.parse (<anonymous>)\n    \
                       at node:internal/x:1:2\n    at run (/x/p.mjs:3:7)\n";
        assert_eq!(cause_of(of_json).unwrap(), "JSON.parse was given text that is not JSON, at /x/p.mjs:3:7");
        let other = "SyntaxError: Invalid regular expression: /s3cret(/\n    at new RegExp (<anonymous>)\n    at /x/p.mjs:1:2\n";
        assert_eq!(cause_of(other).unwrap(), "it threw a SyntaxError while it ran, at /x/p.mjs:1:2");
    }
}
