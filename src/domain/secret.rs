//! A value that must not be seen.

use std::fmt;

/// Text from a Secret or an environment variable. It does not print, log or serialise.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a value as it comes in.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
