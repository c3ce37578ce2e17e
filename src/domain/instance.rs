//! The identity of this process, sent to upstreams in a header. If an upstream's URL leads back to the gateway, the
//! process recognises its own requests by that header.

use std::sync::Arc;

/// The header that names the gateway's process in requests to upstreams.
pub const INSTANCE_HEADER: &str = "hawsepipe-instance";

/// The identity of a process, as the header carries it: unique, and constant while the process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance(Arc<str>);

impl Instance {
    /// Creates an identity from a unique text.
    pub fn new(word: &str) -> Self {
        Self(word.into())
    }

    /// Returns the value of the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
