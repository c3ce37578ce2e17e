//! Log lines that plugins send over the wire.

use super::headers::LogHeader;
use crate::node::log_mask::LogMask;

/// Writes a line from a plugin to the gateway's log.
pub(super) fn log_line(log_mask: &LogMask, header: &[u8], text: &[u8]) {
    let Ok(header) = serde_json::from_slice::<LogHeader>(header) else { return };
    let (plugin, call, text) = (log_mask.name(), header.id, log_mask.masked(String::from_utf8_lossy(text)));
    match header.level.as_str() {
        "error" | "warn" => tracing::warn!(target: "hawsepipe::plugin", plugin, call, "{text}"),
        "debug" => tracing::debug!(target: "hawsepipe::plugin", plugin, call, "{text}"),
        _ => tracing::info!(target: "hawsepipe::plugin", plugin, call, "{text}"),
    }
}
