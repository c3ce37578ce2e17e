//! The files of plugins, as inputs of the compiler.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::domain::reason::Reason;

/// Plugin files by their paths relative to the plugin folder. A file that cannot be used is represented by the reason.
pub type Files = BTreeMap<String, Result<FileCode, Unread>>;

/// The reason why a plugin file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unread {
    /// Whether the file cannot be found or read, exceeds a limit on size or number, or is not UTF-8 text.
    pub reason: Reason,
    /// Human-readable explanation.
    pub message: String,
}

impl Unread {
    /// Creates the error from its reason and message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The content of a plugin file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCode {
    /// Text of the file.
    pub text: String,
    /// Folder that contains the file. The code can import the other files in this folder.
    pub folder: PathBuf,
    /// Text of the file `plugin.json` in the folder; `None` if there is none.
    pub descriptor: Option<String>,
    /// Digest of the other files in the folder that the code can import. When it changes, the plugin's workers are
    /// replaced.
    pub siblings: String,
}
