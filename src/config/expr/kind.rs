//! The types of what an expression reads and yields, as far as they are known without a call.

/// The type of a variable or of a member, as far as it is known without a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A type that is known only during a call.
    Any,
    /// A boolean.
    Boolean,
    /// An integer or a double.
    Number,
    /// A string.
    Text,
    /// A list.
    List,
    /// A map with any keys.
    Map,
    /// A map with these members and no others.
    Members(&'static [Member]),
}

/// The name of a variable or of a member, and its type.
pub type Member = (&'static str, Kind);

impl Kind {
    /// The type in words, for messages.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Any => "a value",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::List => "a list",
            Self::Map | Self::Members(_) => "a map",
        }
    }
}
