//! What a plugin changed, line by line.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::cli::output::{Colour, paint};

/// How long the best of all diffs is looked for; then a good one does.
const PATIENCE: Duration = Duration::from_secs(1);
/// Lines around a change.
const AROUND: usize = 3;

/// The unified diff of two contents. JSON on one line is laid out first, since a diff of one line shows nothing.
/// `coloured` where people read it.
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

/// The JSON of an object or array over several lines; none of another text.
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
        // What is only written differently is shown as it is written.
        assert!(diff(r#"{"a":1}"#, r#"{ "a": 1 }"#, false).contains("+{ \"a\": 1 }"));
    }
}
