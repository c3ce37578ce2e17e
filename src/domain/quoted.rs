//! Foreign text in messages and on terminals.

use std::fmt::{self, Display, Formatter};

/// A text in quotes and with escapes, as `{:?}` prints it, cut after this number of characters. `{:.9?}` cuts nothing:
/// the precision has no effect on the `Debug` form of a text.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str, pub usize);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(self.1).and_then(|(end, _)| self.0.get(..end)) {
            Some(cut) => write!(f, "{cut:?}..."),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// Whether a character shows nothing itself and can make two texts look the same: it has no width, or it turns the direction of
/// others (Unicode, `Default_Ignorable_Code_Point` and `Bidi_Control`; and the separators of lines).
pub fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns text without the characters that a terminal obeys: control characters, and those that turn the direction in which
/// a line is shown.
pub fn harmless(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c.is_control() || turns(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Returns text as [`harmless`] does, but with its tabs and line breaks.
pub fn harmless_lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(harmless).collect::<Vec<_>>().join("\t");
    text.split('\n').map(|text| line(text.strip_suffix('\r').unwrap_or(text))).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{Quoted, harmless, harmless_lines};

    #[test]
    fn what_a_terminal_obeys_is_replaced() {
        assert_eq!(harmless("a\u{202e}b\u{7}c\u{1b}[2J"), "a\u{fffd}b\u{fffd}c\u{fffd}[2J");
        assert_eq!(harmless("Grüße, \u{4f60}\u{597d}"), "Grüße, \u{4f60}\u{597d}");
        assert_eq!(harmless_lines("a\tb\r\n\rc\u{9b}m\n"), "a\tb\n\u{fffd}c\u{fffd}m\n");
    }

    #[test]
    fn texts_are_cut_between_characters_and_escaped() {
        for (text, most, expected) in [
            ("", 0, r#""""#),
            ("ab", 2, r#""ab""#),
            ("abc", 2, r#""ab"..."#),
            ("\u{e4}\u{f6}\u{fc}", 2, "\"\u{e4}\u{f6}\"..."),
            ("a\n\"b", 3, r#""a\n\""..."#),
        ] {
            assert_eq!(Quoted(text, most).to_string(), expected, "{text}");
        }
    }
}
