//! Which process this is, so that it knows its own requests when an upstream's URL leads them back to it.

use std::sync::Arc;

/// The header of requests to upstreams that names the gateway's process.
pub const INSTANCE_HEADER: &str = "hawsepipe-instance";

/// A process as the header names it: unlike any other, and the same for as long as it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance(Arc<str>);

impl Instance {
    /// The process that goes by this word.
    pub fn new(word: &str) -> Self {
        Self(word.into())
    }

    /// The header's value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
