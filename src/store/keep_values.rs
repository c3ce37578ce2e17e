//! The values of plugins: in the database if there is one, else in memory.

use std::sync::Arc;

use async_trait::async_trait;

use super::Store;
use super::connections::Connections;
use super::limits::IDLE_CONVERSATION;
use crate::domain::values::{
    KeepValues, KeyRange, NewValue, PartitionFilter, PartitionOwner, PartitionView, StoredKey, StoredValue, ValueError,
    ValuePlace, Written,
};

impl Store {
    /// Returns the database; `None` if the plan names none.
    pub(super) fn database_of_values(&self) -> Result<Option<Arc<Connections>>, ValueError> {
        if let Some(why) = self.not_open.load_full() {
            return Err(ValueError::Unavailable(why.to_string()));
        }
        Ok(self.database.load_full().map(|database| Arc::clone(&database.connections)))
    }
}

#[async_trait]
impl KeepValues for Store {
    fn is_durable(&self) -> bool {
        self.not_open.load().is_some() || self.database.load().is_some()
    }

    async fn touch_partition(&self, place: &ValuePlace, now: u64) -> Result<(), ValueError> {
        match self.database_of_values()? {
            Some(database) => database.touch_partition(place, now).await,
            None => {
                self.values.touch_partition(place, now);
                Ok(())
            }
        }
    }

    async fn use_partition(&self, place: &ValuePlace, owner: &PartitionOwner, now: u64) -> Result<(), ValueError> {
        match self.database_of_values()? {
            Some(database) => database.use_partition(place, owner, now).await,
            None => {
                let idle_ms = u64::try_from(IDLE_CONVERSATION.as_millis()).unwrap_or(u64::MAX);
                self.values.use_partition(place, owner, now, idle_ms)
            }
        }
    }

    async fn get(&self, place: &ValuePlace, key: &str, now: u64) -> Result<Option<StoredValue>, ValueError> {
        match self.database_of_values()? {
            Some(database) => database.value(place, key, now).await,
            None => Ok(self.values.get(place, key, now)),
        }
    }

    async fn set(&self, place: &ValuePlace, value: NewValue, now: u64) -> Result<Written, ValueError> {
        match self.database_of_values()? {
            Some(database) => database.set_value(place, value, now).await,
            None => self.values.set(place, value, now),
        }
    }

    async fn delete(&self, place: &ValuePlace, key: &str) -> Result<bool, ValueError> {
        match self.database_of_values()? {
            Some(database) => database.delete_value(place, key).await,
            None => Ok(self.values.delete(place, key)),
        }
    }

    async fn list(&self, place: &ValuePlace, range: &KeyRange, now: u64) -> Result<Vec<StoredKey>, ValueError> {
        match self.database_of_values()? {
            Some(database) => database.keys(place, range, now).await,
            None => Ok(self.values.list(place, range, now)),
        }
    }

    async fn partitions(&self, filter: &PartitionFilter) -> Result<Vec<PartitionView>, ValueError> {
        match self.database_of_values()? {
            Some(database) => database.partitions(filter).await,
            None => Ok(self.values.partitions(filter)),
        }
    }

    async fn erase(&self, filter: &PartitionFilter) -> Result<u64, ValueError> {
        match self.database_of_values()? {
            Some(database) => database.erase_partitions(filter).await,
            None => Ok(self.values.erase(filter)),
        }
    }
}
