//! What the gateway says of itself to clients that connect: capabilities, and the description of the server (MCP,
//! InitializeResult and DiscoverResult).

use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::announcement::{Announcement, LegacyTasks};
use crate::domain::extensions::TASKS;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::version::{LEGACY_VERSIONS, has_tasks};

/// The name that the gateway reports to clients.
const NAME: &str = env!("CARGO_PKG_NAME");
/// The version that the gateway reports to clients.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the capabilities that the gateway offers to clients of this version, with those that servers announce.
pub(super) fn capabilities(version: &str, said: &Announcement) -> Box<RawValue> {
    let mut offered = RawObject::default();
    for utility in ["completions", "logging"] {
        offered.set(utility, to_raw(&json!({})));
    }
    for list in ["prompts", "tools"] {
        offered.set(list, to_raw(&json!({"listChanged": true})));
    }
    offered.set("resources", to_raw(&json!({"listChanged": true, "subscribe": true})));
    let is_legacy = LEGACY_VERSIONS.contains(&version);
    let extensions = if is_legacy { said.extensions.without(TASKS) } else { said.extensions.clone() };
    for (name, open) in [("experimental", &said.experimental), ("extensions", &extensions)] {
        if !open.is_empty() {
            offered.set(name, to_raw(open));
        }
    }
    if let Some(LegacyTasks { cancel }) = said.tasks.filter(|_| has_tasks(version)) {
        let mut tasks = json!({"requests": {"tools": {"call": {}}}});
        if cancel {
            tasks["cancel"] = json!({});
        }
        offered.set("tasks", to_raw(&tasks));
    }
    offered.to_raw()
}

/// Returns the description of the server: that of the only upstream, if it has one, or the gateway's own.
pub(super) fn server_info(said: &Announcement) -> Box<RawValue> {
    let theirs = said.info.as_deref().and_then(|info| RawValue::from_string(info.to_owned()).ok());
    theirs.unwrap_or_else(|| to_raw(&json!({"name": NAME, "version": VERSION})))
}
