//! The JSON headers of the frames between gateway and worker host.

use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::value::RawValue;

use crate::domain::descriptor::Descriptor;
use crate::domain::plugin::Input;
use crate::node::thrown::Thrown;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallHeader<'a> {
    pub(super) id: u64,
    /// Milliseconds until the call's deadline.
    pub(super) timeout_ms: u64,
    /// The maximum number of bytes of the body of a frame of the call.
    pub(super) max_output: usize,
    pub(super) input: &'a Input<'a>,
}

/// The header of the frame with what `initialize` of a plugin gets.
#[derive(Serialize)]
pub(super) struct InitializeHeader<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) config: Option<&'a RawValue>,
    /// What is known of the plugin before its code runs. A factory gets it.
    pub(super) descriptor: &'a Descriptor,
}

/// A header that names a call.
#[derive(Serialize, Deserialize)]
pub(super) struct IdHeader {
    pub(super) id: u64,
}

#[derive(Deserialize)]
pub(super) struct LogHeader {
    pub(super) level: String,
}

/// The header of the frame that reports that the plugin is loaded.
#[derive(Deserialize)]
pub(super) struct ReadyHeader {
    pub(super) version: u32,
    /// The value that `getDescriptor` of the plugin returned.
    pub(super) descriptor: Option<Box<RawValue>>,
}

/// The header of a failure: why there is no answer, or why the plugin is not loaded.
#[derive(Deserialize)]
pub(super) struct FailureHeader {
    pub(super) id: u64,
    pub(super) reason: String,
    #[serde(flatten)]
    pub(super) thrown: Thrown,
    /// The refusal of the gateway that the plugin did not handle.
    pub(super) refusal: Option<RefusalHeader>,
}

/// A refusal of the gateway, as its worker repeats it.
#[derive(Deserialize)]
pub(super) struct RefusalHeader {
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Deserialize)]
pub(super) struct ProgressHeader {
    pub(super) id: u64,
    pub(super) progress: Number,
    pub(super) total: Option<Number>,
    pub(super) message: Option<String>,
}

/// A plugin's request. The arguments are the frame's body.
#[derive(Deserialize)]
pub(super) struct AskHeader {
    /// The id of the call during which the plugin makes the request.
    pub(super) id: u64,
    /// The id that the reply must name.
    pub(super) ask: u64,
    /// The tool to call.
    #[serde(default)]
    pub(super) tool: String,
    /// The request, if it is no call of a tool.
    pub(super) op: Option<String>,
    /// The number of bytes of arguments that are too large to be sent.
    pub(super) bytes: Option<u64>,
}

/// The header of a reply. The result or the error is the frame's body.
#[derive(Serialize)]
pub(super) struct ReplyHeader {
    pub(super) ask: u64,
    pub(super) error: bool,
}
