//! Values of headers and environment variables, either literal or a reference to a secret.

use serde::{Deserialize, Serialize};

use crate::domain::ids::ObjectKey;

/// The source of a value. Secrets are resolved when the gateway links the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueSource {
    /// A value that the manifest contains, or that was read from a ConfigMap.
    Literal(String),
    /// The value of a key of a Secret in the object's own namespace.
    Secret {
        /// Namespace and name of the Secret.
        secret: ObjectKey,
        /// The key in the Secret.
        key: String,
        /// Whether the header or variable is left out, rather than reported as a problem, if the value is missing.
        optional: bool,
    },
    /// A variable of the gateway's own environment, or a text that refers to some of them (standalone only).
    Environment(String),
}

/// A header or an environment variable, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedValue {
    /// The name of the header or variable.
    pub name: String,
    /// Where the value comes from.
    pub value: ValueSource,
}
