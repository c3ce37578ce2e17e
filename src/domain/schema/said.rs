//! What is said of schemas and values, without repeating what is long.

use std::fmt::{self, Write};

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;

/// The maximum number of bytes of what an error says of one mismatch.
pub const MAX_LINE: usize = 2048;
/// The length of a message, in bytes, from which on it does not contain the value.
const MAX_QUOTED: usize = 512;

/// Returns the beginning of a text, which can quote all of a value.
pub fn shortened(text: &dyn fmt::Display) -> String {
    let mut short = Short(String::new());
    if write!(short, "{text}").is_err() {
        short.0.push('\u{2026}');
    }
    short.0
}

/// Describes a mismatch with the value, unless that is long.
pub fn with_value(error: &ValidationError<'_>) -> String {
    let text = match error.kind() {
        ValidationErrorKind::PropertyNames { error } => return with_value(error),
        _ => error.to_string(),
    };
    if text.len() > MAX_QUOTED { without_value(error) } else { text }
}

/// Describes a mismatch without the value, of which the library's message can still name members.
pub fn without_value(error: &ValidationError<'_>) -> String {
    error.masked().to_string()
}

/// A text that ends after [`MAX_LINE`] bytes.
struct Short(String);

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.floor_char_boundary(MAX_LINE.saturating_sub(self.0.len()));
        self.0.push_str(&text[..end]);
        if end == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
