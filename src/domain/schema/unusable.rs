//! Which schemas cannot be used.

use std::fmt;

/// The largest schema, in bytes.
pub const MAX_SCHEMA: usize = 256 * 1024;
/// The maximum number of places of a schema: its JSON values, with references followed. A check tries each of them on each
/// value at most once, so their product bounds what a check costs.
pub const MAX_PLACES: usize = 10_000;
/// The maximum number of schemas in one another, with references followed.
pub const MAX_DEPTH: usize = 64;

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is no JSON Schema. The text says where and why.
    Invalid(String),
    /// It has more than [`MAX_SCHEMA`] bytes.
    TooLarge,
    /// It has a reference or a keyword that is not followed. The text names it.
    Unfollowed(String),
    /// It is recursive, has more than [`MAX_PLACES`], or nests deeper than [`MAX_DEPTH`].
    Unfolds,
    /// This pattern is not valid, or is not matched in linear time.
    Pattern(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => write!(f, "it is not a JSON Schema: {why}"),
            Self::TooLarge => write!(f, "it has more than {MAX_SCHEMA} bytes"),
            Self::Unfollowed(what) => write!(f, "it has {what}, which is not followed here"),
            Self::Unfolds => write!(
                f,
                "it is recursive, or has more than {MAX_PLACES} places or {MAX_DEPTH} levels with its references followed"
            ),
            Self::Pattern(pattern) => write!(
                f,
                "the pattern {pattern} is not valid, is too large, or cannot be matched in linear time, as one that looks \
                 around or refers back"
            ),
        }
    }
}
