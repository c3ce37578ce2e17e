//! How much of the history a gateway keeps, and where.

use serde::{Deserialize, Serialize};

use crate::domain::ids::ObjectKey;

/// The settings of the history beside the memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryPlan {
    /// Days for which a database keeps rows.
    pub retention_days: u32,
    /// The database; `None` if the manifest names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StorePlan>,
    /// If the content of calls is kept, the rules of what is taken out of it before; `None` if it is not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact: Option<Vec<String>>,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorePlan {
    /// A file in the state folder.
    Embedded {
        /// Maximum size of the file, in bytes.
        max_size: u64,
    },
    /// A PostgreSQL database.
    Postgres {
        /// The Secret with the URL.
        secret: ObjectKey,
        /// The key in the Secret.
        key: String,
    },
}

impl Default for HistoryPlan {
    fn default() -> Self {
        Self { retention_days: 30, store: None, redact: None }
    }
}

impl HistoryPlan {
    /// Default maximum size of a file, in bytes.
    pub const MAX_SIZE: u64 = 256 << 20;

    /// Whether all settings are the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
