//! Foreign text in messages.

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

#[cfg(test)]
mod tests {
    use super::Quoted;

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
