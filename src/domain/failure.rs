//! The failure of a plugin.

use super::reason::Reason;

/// Why an execution returned no usable output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The category of the failure.
    pub reason: Reason,
    /// Details for the log and the record. They contain no secrets, and no content unless the plugin itself put content
    /// into its `error`.
    pub message: String,
    /// The message with the text of an exception that the plugin threw, or the line that its process printed last. Such text is
    /// content: only those who have the content of the call get it. `None` if `message` is all.
    pub text: Option<String>,
    /// Whether the message or the text has words of the plugin. They can quote content that clients must not see.
    pub quotes: bool,
}

impl Failure {
    /// Creates a failure whose message has no words of the plugin. A message longer than [`MAX_MESSAGE`] is cut.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: cut(message.into()), text: None, quotes: false }
    }

    /// Like [`Self::new`], for a message with words of the plugin.
    pub fn quoting(reason: Reason, message: impl Into<String>) -> Self {
        Self { quotes: true, ..Self::new(reason, message) }
    }

    /// Adds the message that has the text of an exception.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        Self { text: Some(cut(text.into())), quotes: true, ..self }
    }

    /// The message for those who have the content of the call.
    pub fn full(&self) -> &str {
        self.text.as_deref().unwrap_or(&self.message)
    }

    /// Changes the message and the text.
    #[must_use]
    pub fn map(self, change: impl Fn(String) -> String) -> Self {
        Self { message: change(self.message), text: self.text.map(&change), ..self }
    }
}

/// Number of bytes after which the message of a failure, a denial or a progress report is cut. A plugin could otherwise
/// put its whole input into the message, and the record of the execution stores the messages of failures and denials.
pub const MAX_MESSAGE: usize = 1024;

/// Cuts a message after [`MAX_MESSAGE`] bytes.
pub(super) fn cut(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push_str("...");
    }
    message
}
