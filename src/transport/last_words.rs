//! The last lines that a process wrote and that are no messages. They say why it ended.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of lines. `npm` says what is missing up to 10 lines before its last one.
const LINES: usize = 12;
/// The maximum number of bytes of all lines together, and of one.
const BYTES: usize = 1024;
const LINE: usize = 400;
/// What stands between two lines, since a log message and a condition have one line.
const BETWEEN: &str = " | ";

/// The last lines, within bounds.
#[derive(Debug, Default)]
pub struct LastWords(Mutex<VecDeque<String>>);

impl LastWords {
    /// Adds a line, which must be printable and hold no secrets. Empty lines and the calls of a stack trace are left
    /// out: they would push out the message before them.
    pub fn add(&self, line: &str) {
        let text = line.trim();
        if text.is_empty() || line.len() > text.len() && text.starts_with("at ") {
            return;
        }
        let mut lines = self.lock();
        lines.push_back(match text.len() > LINE {
            true => format!("{}...", &text[..text.floor_char_boundary(LINE)]),
            false => text.to_owned(),
        });
        while lines.len() > LINES || lines.iter().map(|line| line.len() + BETWEEN.len()).sum::<usize>() > BYTES {
            lines.pop_front();
        }
    }

    /// Returns the lines as one. Empty if there are none.
    pub fn text(&self) -> String {
        self.lock().make_contiguous().join(BETWEEN)
    }

    /// Forgets all lines.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(lines: &[&str]) -> String {
        let words = LastWords::default();
        lines.iter().for_each(|line| words.add(line));
        words.text()
    }

    #[test]
    fn the_message_of_an_exception_stays_and_its_stack_does_not() {
        let calls: Vec<_> = (0..20).map(|number| format!("    at f{number} (file:1:1)")).collect();
        let calls: Vec<_> = calls.iter().map(String::as_str).collect();
        let said = [&["  throw err;", "", "Error: Cannot find module 'x'"][..], &calls, &["Node.js v22"]].concat();
        assert_eq!(kept(&said), "throw err; | Error: Cannot find module 'x' | Node.js v22");
        assert_eq!(kept(&["at last"]), "at last");
        assert_eq!(kept(&[]), "");
    }

    #[test]
    fn the_last_lines_stay_within_bounds() {
        let many: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(kept(&many), many[88..].join(" | "));
        let long = "\u{e4}".repeat(5000);
        assert_eq!(kept(&["first", &long]), format!("first | {}...", "\u{e4}".repeat(200)));
        let text = kept(&[&long[..], &long, &long, "last"]);
        assert!(text.len() <= BYTES && text.ends_with(" | last"), "{text}");
    }
}
