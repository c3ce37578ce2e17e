//! Log lines that plugins send over the wire.

use super::headers::LogHeader;
use crate::domain::plugin::Metadata;
use crate::node::log_mask::LogMask;

/// Writes a line from a plugin to the gateway's log. `metadata` is that of the call that it is about; `None` if it came outside
/// of calls.
pub(super) fn log_line(log_mask: &LogMask, header: &[u8], text: &[u8], metadata: Option<&Metadata<'_>>) {
    let Ok(header) = serde_json::from_slice::<LogHeader>(header) else { return };
    let (plugin, text) = (log_mask.name(), log_mask.masked(String::from_utf8_lossy(text)));
    let (request_id, chain) = (metadata.map(|data| data.request_id), metadata.map(|data| data.chain));
    match header.level.as_str() {
        "error" | "warn" => tracing::warn!(target: "hawsepipe::plugin", plugin, chain, request_id, "{text}"),
        "debug" => tracing::debug!(target: "hawsepipe::plugin", plugin, chain, request_id, "{text}"),
        _ => tracing::info!(target: "hawsepipe::plugin", plugin, chain, request_id, "{text}"),
    }
}
