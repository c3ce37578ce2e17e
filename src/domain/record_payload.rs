//! Content of calls in their records.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

/// Maximum size of a plugin's metadata in a trace, in bytes.
pub const MAX_TRACE_METADATA: usize = 16 * 1024;
/// Maximum nesting depth of a plugin's metadata in a trace. Many parsers stop at 128 levels, and the answers and lists
/// that contain a trace add several levels around the metadata.
pub const MAX_TRACE_DEPTH: usize = 64;

/// Content of a call in its record, after redaction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Payload {
    /// The content.
    Content(#[cfg_attr(feature = "gateway", schemars(with = "serde_json::Value"))] Box<RawValue>),
    /// Why it was left out.
    Omitted(String),
}

impl Payload {
    /// Returns how many bytes it has.
    pub fn size(&self) -> usize {
        match self {
            Self::Content(content) => content.get().len(),
            Self::Omitted(why) => why.len(),
        }
    }
}

/// The sources of a run of a pipeline, after redaction.
#[derive(Clone, Debug)]
pub struct RunSources {
    /// The id of the run.
    pub run: String,
    /// The sources, as `_meta["hawsepipe.dev/sources"]` of the answer has them.
    pub sources: Vec<Payload>,
}

/// Returns a duration in milliseconds, as records have it.
pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
