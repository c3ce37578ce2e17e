//! The port of the values that plugins store (`ctx.store`).

use async_trait::async_trait;
use serde::Serialize;

use super::partition::StoreScope;

/// The maximum length of a key in bytes.
pub const MAX_KEY: usize = 512;
/// The maximum size of a value in bytes, as JSON.
pub const MAX_VALUE: usize = 1 << 20;
/// The number of partitions that the values of a plugin in one namespace can fill.
pub const FULL_PARTITIONS: u64 = 16;

/// The plugin that a step runs, as far as it stores values.
#[derive(Clone, Debug)]
pub struct StoringPlugin {
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// The maximum number of bytes of a partition.
    pub quota: u64,
}

/// Where a run's values are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValuePlace {
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// The namespace of the pipeline.
    pub namespace: String,
    /// The key of the partition; see [`StoreScope::partition`].
    pub partition: String,
}

impl ValuePlace {
    /// Returns the namespace and the partition in one text.
    pub fn tenant(&self) -> String {
        format!("{}/{}", self.namespace, self.partition)
    }
}

/// The owner of a partition, as the admin API shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOwner {
    /// The scope of the partition.
    pub scope: StoreScope,
    /// The name of the caller; empty for the scope `Shared`.
    pub principal: String,
    /// The conversation; empty for other scopes.
    pub conversation: String,
}

/// A value, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValue {
    /// The value as JSON, or bytes in base64; see [`StoredValue::is_bytes`].
    pub text: String,
    /// How often it was set since it has existed, from 1.
    pub version: u64,
    /// Whether `text` is the base64 of bytes.
    pub is_bytes: bool,
}

/// A value to set.
#[derive(Clone, Debug)]
pub struct NewValue {
    /// The key.
    pub key: String,
    /// The value; its version is not used.
    pub value: StoredValue,
    /// When the value ends, in Unix milliseconds; `None` if it does not.
    pub expires_at: Option<u64>,
    /// The version that the stored value must have; 0 if there must be none.
    pub if_version: Option<u64>,
    /// The maximum number of bytes in the partition.
    pub quota: u64,
}

/// A value that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The version of the value.
    pub version: u64,
    /// The bytes of all values of the plugin in the namespace.
    pub bytes: u64,
}

/// A key of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoredKey {
    /// The key.
    pub key: String,
    /// The version of its value.
    pub version: u64,
    /// The size of its value in bytes.
    pub size: u64,
}

/// Which keys to list.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// The keys begin with this text.
    pub prefix: String,
    /// The keys come after this one, in the order of their bytes; `None` for the first ones.
    pub after: Option<String>,
    /// The maximum number of keys.
    pub limit: usize,
}

/// A partition, as the owner of the gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PartitionView {
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// The namespace of the pipelines.
    pub namespace: String,
    /// The scope of the partition.
    pub scope: StoreScope,
    /// The name of the caller; absent for the scope `Shared`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// The conversation; absent for other scopes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub conversation: String,
    /// The number of values.
    pub keys: u64,
    /// The size of the values in bytes.
    pub bytes: u64,
    /// When a run last used it, in Unix milliseconds.
    pub used_at: u64,
}

/// Which partitions of a plugin are listed or erased.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionFilter {
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// Only those of this caller.
    pub principal: Option<String>,
    /// Only that of this conversation.
    pub conversation: Option<String>,
}

/// Why a value is not stored or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The stored value has another version: this one, 0 if there is none.
    #[error("the value has version {0}")]
    Conflict(u64),
    /// As many bytes of the partition are used, or of all that the plugin has in the namespace.
    #[error("{used} of {quota} bytes are used")]
    Full {
        /// The bytes that are used.
        used: u64,
        /// The bytes that may be used.
        quota: u64,
    },
    /// The partition does not exist; see [`KeepValues::use_partition`].
    #[error("the partition does not exist")]
    NoPartition,
    /// The store cannot be reached. The text is without credentials and values.
    #[error("{0}")]
    Unavailable(String),
}

/// Stores the values of plugins.
#[async_trait]
pub trait KeepValues: Send + Sync + 'static {
    /// Whether values survive the process.
    fn is_durable(&self) -> bool;

    /// Notes that a run uses a partition now, in Unix milliseconds. Does nothing if there is none.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn touch_partition(&self, place: &ValuePlace, now: u64) -> Result<(), ValueError>;

    /// As [`Self::touch_partition`]. Creates the partition if there is none.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn use_partition(&self, place: &ValuePlace, owner: &PartitionOwner, now: u64) -> Result<(), ValueError>;

    /// Returns a value that has not ended.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn get(&self, place: &ValuePlace, key: &str, now: u64) -> Result<Option<StoredValue>, ValueError>;

    /// Sets a value. When this returns, it is stored.
    ///
    /// # Errors
    /// If the version is another one, the partition is full or does not exist, or the store cannot be reached.
    async fn set(&self, place: &ValuePlace, value: NewValue, now: u64) -> Result<Written, ValueError>;

    /// Removes a value. Returns whether there was one.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn delete(&self, place: &ValuePlace, key: &str) -> Result<bool, ValueError>;

    /// Lists keys in the order of their bytes.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn list(&self, place: &ValuePlace, range: &KeyRange, now: u64) -> Result<Vec<StoredKey>, ValueError>;

    /// Lists partitions of a plugin.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn partitions(&self, filter: &PartitionFilter) -> Result<Vec<PartitionView>, ValueError>;

    /// Erases partitions of a plugin. Returns how many.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn erase(&self, filter: &PartitionFilter) -> Result<u64, ValueError>;
}

/// Stores no values: there is no run of a pipeline.
pub struct NoValues;

#[async_trait]
impl KeepValues for NoValues {
    fn is_durable(&self) -> bool {
        false
    }

    async fn touch_partition(&self, _: &ValuePlace, _: u64) -> Result<(), ValueError> {
        Err(none())
    }

    async fn use_partition(&self, _: &ValuePlace, _: &PartitionOwner, _: u64) -> Result<(), ValueError> {
        Err(none())
    }

    async fn get(&self, _: &ValuePlace, _: &str, _: u64) -> Result<Option<StoredValue>, ValueError> {
        Err(none())
    }

    async fn set(&self, _: &ValuePlace, _: NewValue, _: u64) -> Result<Written, ValueError> {
        Err(none())
    }

    async fn delete(&self, _: &ValuePlace, _: &str) -> Result<bool, ValueError> {
        Err(none())
    }

    async fn list(&self, _: &ValuePlace, _: &KeyRange, _: u64) -> Result<Vec<StoredKey>, ValueError> {
        Err(none())
    }

    async fn partitions(&self, _: &PartitionFilter) -> Result<Vec<PartitionView>, ValueError> {
        Err(none())
    }

    async fn erase(&self, _: &PartitionFilter) -> Result<u64, ValueError> {
        Err(none())
    }
}

fn none() -> ValueError {
    ValueError::Unavailable("there is no store of values here".to_owned())
}
