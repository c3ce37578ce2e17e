//! A plugin: its code by digest, and all that its workers are made of.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::value::{NamedValue, ValueSource};
use crate::domain::digest::revision;
use crate::domain::ids::ObjectKey;
use crate::domain::plugin::{Encoding, Phase, Protocol, Role};

/// A plugin in the form that was accepted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginPlan {
    /// Its object.
    pub key: ObjectKey,
    /// 8 hex characters of the hash of its identity: document 000's Plugin.id, stable over edits.
    pub id: String,
    /// SHA-256 of its code in hex; the key into [`Plan::code`]. Empty where the plan does not hold the code.
    pub digest: String,
    /// File below the gateway's plugin folder, for code that only the gateway can read; `digest` is empty until it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The digest that the code of `path` must have, hex; none is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The protocol of the code of `path`; none is what its exports say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_protocol: Option<Protocol>,
    /// Phases that the code of `path` must serve; none is what its exports say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_phases: Option<Vec<Phase>>,
    /// File name that the code is written under: its ending tells ESM from CommonJS.
    pub file_name: String,
    /// The folder whose other files the code may import, for code from a `path`.
    pub folder: Option<PathBuf>,
    /// Digest of those other files; empty where there is no folder.
    #[serde(default)]
    pub siblings: String,
    /// What it is for.
    pub role: Role,
    /// Phases it serves; both where nobody knows yet.
    pub phases: Vec<Phase>,
    /// How it is spoken with, `Auto` resolved where the code is known.
    pub protocol: Protocol,
    /// With Once: whether the script is run again in a fresh context of a warm worker.
    #[serde(default)]
    pub reuse: bool,
    /// With Lines: what its messages are.
    #[serde(default)]
    pub encoding: Encoding,
    /// `spec.enabled`.
    pub enabled: bool,
    /// Of an entry that names none.
    pub order: i64,
    /// Globs over upstream names; empty is all.
    pub filter_upstreams: Vec<String>,
    /// Globs over tool names; empty is all.
    pub filter_tools: Vec<String>,
    /// Milliseconds; none is the gateway's default.
    pub timeout_ms: Option<u32>,
    /// Its own configuration.
    pub config: Option<Box<RawValue>>,
    /// Its environment, all of it.
    pub env: Vec<NamedValue>,
    /// Where it may connect to, as `host:port`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<String>,
    /// Calls at once in one worker, of a Module.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub concurrency: u32,
    /// Warm workers; none is the gateway's `poolSizePerPlugin`.
    pub pool_size: Option<u32>,
    /// Executions after which a worker is replaced; none is the gateway's.
    #[serde(default)]
    pub max_executions: Option<u32>,
    /// Seconds after which a worker is replaced; none is the gateway's.
    #[serde(default)]
    pub max_lifetime_seconds: Option<u32>,
    /// What executions and workers may use.
    pub limits: PluginLimits,
}

impl PluginPlan {
    /// By which two forms of a plugin are told apart: code, environment, settings. 12 hex characters.
    pub fn form(&self) -> String {
        revision(self)
    }

    /// Whether `egress` and `env` grant every right that this form has. A literal value is not a right.
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

/// Bytes that one execution may use, and a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PluginLimits {
    /// Content in.
    pub max_input: u64,
    /// Content out.
    pub max_output: u64,
    /// Standard error a call; beyond it the worker is replaced.
    pub max_stderr: u64,
    /// Memory of a worker's process, beside what Node.js takes to start; with three quarters of it the worker is replaced.
    #[serde(default = "default_memory")]
    pub memory: u64,
}

/// 256 MiB. Plans of versions before this one do not say.
fn default_memory() -> u64 {
    256 << 20
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self { max_input: 8 << 20, max_output: 8 << 20, max_stderr: 64 << 10, memory: default_memory() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A plugin as versions before this one wrote it.
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
        // Revisions are digests of this text, so that of an older plan stays what it was.
        let mut plugin: PluginPlan = serde_json::from_value(older()).unwrap();
        assert_eq!(serde_json::to_value(&plugin).unwrap(), older());
        plugin.concurrency = 2;
        assert_eq!(serde_json::to_value(&plugin).unwrap()["concurrency"], 2);
    }
}
