//! Values of headers and environment variables: written out, or named where they are secret.

use serde::{Deserialize, Serialize};

use crate::domain::ids::ObjectKey;

/// Where a value comes from. Secrets are resolved when the plan is linked, in the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueSource {
    /// Written in the manifest, or read from a ConfigMap.
    Literal(String),
    /// A key of a Secret in the object's own namespace.
    Secret {
        /// The Secret.
        secret: ObjectKey,
        /// The key in it.
        key: String,
        /// Whether it may be missing.
        optional: bool,
    },
    /// A variable of the gateway's own environment (standalone only).
    Environment(String),
}

/// A header or an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: ValueSource,
}
