//! The JSON headers of the frames between gateway and worker host.

use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::domain::plugin::Input;

/// The header of a [`FrameKind::Call`](super::frame::FrameKind::Call) frame.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallHeader<'a> {
    pub(super) id: u64,
    /// Milliseconds until the answer comes too late.
    pub(super) timeout_ms: u64,
    pub(super) input: &'a Input<'a>,
}

/// What names a call.
#[derive(Serialize, Deserialize)]
pub(super) struct IdHeader {
    pub(super) id: u64,
}

/// Of a line for the log.
#[derive(Deserialize)]
pub(super) struct LogHeader {
    #[serde(default)]
    pub(super) id: u64,
    pub(super) level: String,
}

/// The header of the frame that says that the plugin is loaded.
#[derive(Deserialize)]
pub(super) struct ReadyHeader {
    pub(super) version: u32,
}

/// Why there is no answer, or no plugin.
#[derive(Deserialize)]
pub(super) struct FailureHeader {
    pub(super) id: u64,
    pub(super) reason: String,
    pub(super) message: String,
    #[serde(default)]
    pub(super) stack: String,
}

/// How far the plugin is.
#[derive(Deserialize)]
pub(super) struct ProgressHeader {
    pub(super) id: u64,
    pub(super) progress: Number,
    pub(super) total: Option<Number>,
    pub(super) message: Option<String>,
}

/// What is asked, apart from the arguments, which are the frame's body.
#[derive(Deserialize)]
pub(super) struct AskHeader {
    /// The call that it is asked within.
    pub(super) id: u64,
    /// The id that its answer must name.
    pub(super) ask: u64,
    /// The tool to call.
    pub(super) tool: String,
}

/// An answer's header. The result, or the error, is the frame's body.
#[derive(Serialize)]
pub(super) struct ReplyHeader {
    pub(super) ask: u64,
    pub(super) error: bool,
}
