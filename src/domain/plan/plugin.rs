//! A plugin in the plan: the digest of its code, and everything else that its workers need.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::image::ImagePlan;
use super::value::{NamedValue, ValueSource};
use super::wrapper::WrapperPlan;
use crate::domain::descriptor::Descriptor;
use crate::domain::digest::revision;
use crate::domain::ids::ObjectKey;
use crate::domain::plugin::{Encoding, Phase, PluginKind, Protocol, Role};

/// A plugin in the form that was accepted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginPlan {
    /// Namespace and name of the Plugin.
    pub key: ObjectKey,
    /// Document 000's Plugin.id: the first 8 hex characters of the SHA-256 of the plugin's `namespace/name`. It stays
    /// the same when the plugin is edited.
    pub id: String,
    /// The type of the plugin.
    #[serde(default, skip_serializing_if = "PluginKind::is_middleware")]
    pub kind: PluginKind,
    /// The version that the plugin says of itself (`spec.descriptor.version`), unless it is middleware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How the object and the file `plugin.json` beside its code describe the plugin. What the code says itself is not in it.
    #[serde(default, skip_serializing_if = "Descriptor::is_empty")]
    pub descriptor: Descriptor,
    /// SHA-256 of the plugin's code in hex, the key in [`Plan::code`]. Empty if the plan does not hold the code.
    pub digest: String,
    /// The file that contains the code, relative to the gateway's plugin folder, or absolute for a file of `image`. Set
    /// only for code that the operator cannot read. `digest` is empty until the gateway has read the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The image that contains the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImagePlan>,
    /// The SHA-256 that the code of `path` must have, in hex; `None` means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The protocol of the code of `path`; `None` means that its exports decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_protocol: Option<Protocol>,
    /// The phases that the code of `path` must serve; `None` means that its exports decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_phases: Option<Vec<Phase>>,
    /// The name of the file that the code is written to. The extension decides between ES module and CommonJS.
    pub file_name: String,
    /// The folder whose other files the code can import, for code from a `path`.
    pub folder: Option<PathBuf>,
    /// Digest of the other files in `folder`; empty if there is no folder.
    #[serde(default)]
    pub siblings: String,
    /// The plugin's role. It decides the failure policy of entries that do not set one.
    pub role: Role,
    /// The phases that the plugin serves; both if they are not known yet, none unless it is middleware.
    pub phases: Vec<Phase>,
    /// How workers exchange messages with the plugin. If the manifest says `Auto`, the code's exports decide.
    pub protocol: Protocol,
    /// How the plugin's program is started; `None` if the code is JavaScript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapper: Option<WrapperPlan>,
    /// For protocol Once: whether a warm worker runs the script again in a fresh context.
    #[serde(default)]
    pub reuse: bool,
    /// For protocol Lines: the format of the messages.
    #[serde(default)]
    pub encoding: Encoding,
    /// Whether the plugin is enabled (`spec.enabled`).
    pub enabled: bool,
    /// The `order` of entries that do not set their own.
    pub order: i64,
    /// Globs that match the names of upstreams on whose calls the plugin runs. Empty means all upstreams.
    pub filter_upstreams: Vec<String>,
    /// Globs that match the servers' own names of tools on whose calls the plugin runs. Empty means all tools.
    pub filter_tools: Vec<String>,
    /// Timeout in milliseconds; `None` means the gateway's default.
    pub timeout_ms: Option<u32>,
    /// The plugin's own configuration, not merged with those of its entries.
    pub config: Option<Box<RawValue>>,
    /// All environment variables of the plugin's workers, each with the source of its value.
    pub env: Vec<NamedValue>,
    /// The hosts that the plugin can connect to, as `host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<String>,
    /// For protocol Module: maximum number of concurrent executions in one worker.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub concurrency: u32,
    /// The number of warm workers; `None` means the gateway's `poolSizePerPlugin`.
    pub pool_size: Option<u32>,
    /// Number of executions after which a worker is replaced; `None` means the default of the protocol.
    #[serde(default)]
    pub max_executions: Option<u32>,
    /// Seconds after which a worker is replaced; `None` means 3600.
    #[serde(default)]
    pub max_lifetime_seconds: Option<u32>,
    /// The resources that executions and workers can use.
    pub limits: PluginLimits,
}

impl PluginPlan {
    /// Returns a digest of 12 hex characters that identifies this form of the plugin: its code, environment and
    /// settings.
    pub fn form(&self) -> String {
        revision(self)
    }

    /// Whether `egress` and `env` still contain every right that this form has: the hosts that it can connect to, and
    /// its environment variables. Variables with literal values are not rights.
    pub fn keeps_its_rights(&self, egress: &[String], env: &[NamedValue]) -> bool {
        let listed = self.egress.iter().all(|host| egress.contains(host));
        let mut given = self.env.iter().filter(|named| !matches!(named.value, ValueSource::Literal(_)));
        listed && given.all(|named| env.contains(named))
    }
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// The resources that one execution and one worker can use, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PluginLimits {
    /// Maximum size of the input content.
    pub max_input: u64,
    /// Maximum size of the output content.
    pub max_output: u64,
    /// Maximum output of a worker on standard error between the starts of two executions. If it is exceeded when an
    /// execution ends, the worker is replaced.
    pub max_stderr: u64,
    /// The memory of a worker's process, not counting what Node.js needs to start. A worker that uses three quarters of
    /// this memory is replaced.
    #[serde(default = "default_memory")]
    pub memory: u64,
    /// Maximum size of the values that the plugin stores in one partition.
    #[serde(default = "default_store", skip_serializing_if = "is_default_store")]
    pub store: u64,
}

/// The default of `store`: 64 MiB.
fn default_store() -> u64 {
    64 << 20
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_default_store(size: &u64) -> bool {
    *size == default_store()
}

/// The default of `memory`, which plans of earlier versions do not contain: 256 MiB.
fn default_memory() -> u64 {
    256 << 20
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            max_input: 8 << 20,
            max_output: 8 << 20,
            max_stderr: 64 << 10,
            memory: default_memory(),
            store: default_store(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a plugin in the form that earlier versions wrote.
    fn older() -> Value {
        json!({
            "key": {"namespace": "default", "name": "p"}, "id": "0a1b2c3d", "digest": "d", "file_name": "index.js",
            "folder": null, "siblings": "", "role": "Guard", "phases": ["Request"], "protocol": "Module",
            "reuse": false, "encoding": "JSON", "enabled": true, "order": 0, "filter_upstreams": [],
            "filter_tools": [], "timeout_ms": null, "config": null, "env": [], "pool_size": null,
            "max_executions": null, "max_lifetime_seconds": null,
            "limits": {"max_input": 1, "max_output": 1, "max_stderr": 1, "memory": 1},
        })
    }

    #[test]
    fn settings_that_came_later_are_written_only_where_they_are_set() {
        // Revisions are digests of this text, so the text of an older plan must not change.
        let mut plugin: PluginPlan = serde_json::from_value(older()).unwrap();
        assert_eq!(serde_json::to_value(&plugin).unwrap(), older());
        plugin.concurrency = 2;
        assert_eq!(serde_json::to_value(&plugin).unwrap()["concurrency"], 2);
    }
}
