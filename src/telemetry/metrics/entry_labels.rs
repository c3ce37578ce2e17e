//! The labels of the counter of entries.

use crate::domain::method::Method;
use crate::domain::plugin::{Mode, Phase};

/// The outcome of an entry of a chain on one content.
#[derive(Clone, Copy, Debug)]
pub struct EntryLabels<'a> {
    /// The plugin, as `namespace/name`.
    pub plugin: &'a str,
    /// The chain, as `namespace/name`.
    pub chain: &'a str,
    /// The method of the content.
    pub method: Method,
    /// The phase of the chain.
    pub phase: Phase,
    /// The mode of the entry.
    pub mode: Mode,
    /// The status, such as `success`.
    pub status: &'a str,
    /// Why it has that status; empty if it succeeded or denied.
    pub reason: &'a str,
}
