//! Shows what a plugin changed, as a unified diff.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::cli::output::{Colour, paint};

/// How long to search for the smallest diff. After this time, a larger diff is accepted.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of unchanged lines to show before and after a change.
const AROUND: usize = 3;

/// Returns the unified diff of two contents, in colours if `coloured` is set. If both contents are JSON, each is first
/// spread over several lines, because a diff of a single long line is not readable.
pub fn diff(before: &str, after: &str, coloured: bool) -> String {
    let (before, after) = match (laid_out(before), laid_out(after)) {
        (Some(old), Some(new)) if old != new => (old, new),
        _ => (before.to_owned(), after.to_owned()),
    };
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before.as_str(), after.as_str());
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(AROUND).iter_hunks() {
        let _ = writeln!(text, "{}", hunk.header());
        for change in hunk.iter_changes() {
            let (sign, colour) = match change.tag() {
                ChangeTag::Delete => ("-", Some(Colour::Red)),
                ChangeTag::Insert => ("+", Some(Colour::Green)),
                ChangeTag::Equal => (" ", None),
            };
            let line = format!("{sign}{}", change.value().trim_end_matches('\n'));
            let line = colour.filter(|_| coloured).map_or_else(|| line.clone(), |colour| paint(colour, &line));
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

/// Spreads a JSON object or array over several lines. Returns `None` for any other text.
fn laid_out(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    (value.is_object() || value.is_array()).then(|| serde_json::to_string_pretty(&value).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_shown() {
        let before = (0..100).map(|n| format!("line {n}\n")).collect::<String>();
        let text = diff(&before, &before.replace("line 50", "LINE 50"), false);
        assert!(text.contains("\n-line 50\n+LINE 50\n"), "{text}");
        assert!(!text.contains("line 40"), "{text}");
    }

    #[test]
    fn json_is_laid_out() {
        let text = diff(r#"{"a":{"b":1},"c":2}"#, r#"{"a":{"b":3},"c":2}"#, false);
        assert!(text.contains("-    \"b\": 1\n+    \"b\": 3\n"), "{text}");
        // If only the formatting differs, the original texts are compared.
        assert!(diff(r#"{"a":1}"#, r#"{ "a": 1 }"#, false).contains("+{ \"a\": 1 }"));
    }
}
