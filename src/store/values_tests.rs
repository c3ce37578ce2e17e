//! The values of plugins in memory and in a SQLite file.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::limits::HistoryLimits;
use super::{Store, StoreTarget};
use crate::domain::partition::StoreScope;
use crate::domain::values::{
    KeepValues, KeyRange, NewValue, PartitionFilter, PartitionOwner, StoredValue, ValueError, ValuePlace,
};

/// A day in milliseconds.
const DAY: u64 = 24 * 60 * 60 * 1000;

/// Returns the time in Unix milliseconds: the writer of a store removes what has ended before.
fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A store in memory or in a file of its own, which is removed at the end.
struct Values {
    store: Store,
    file: Option<PathBuf>,
    /// The maximum number of bytes of a partition.
    quota: u64,
}

impl Values {
    fn new(max_bytes: Option<u64>) -> Self {
        let store = Store::new(1);
        let file = max_bytes
            .map(|_| std::env::temp_dir().join(format!("hawsepipe-values-{}.db", uuid::Uuid::new_v4().simple())));
        let max_bytes = max_bytes.unwrap_or(1 << 20);
        let limits = HistoryLimits { per_plugin: 1, retention: Duration::from_hours(1), max_bytes };
        store.follow(&limits, file.clone().map(StoreTarget::Sqlite)).unwrap();
        Self { store, file, quota: 1000 }
    }

    fn both() -> [Self; 2] {
        [Self::new(None), Self::new(Some(64 << 20))]
    }

    async fn create(&self, partition: &str) {
        self.store.use_partition(&place(partition), &owner(partition), now()).await.unwrap();
    }

    async fn set(&self, partition: &str, key: &str, text: &str, ends: Option<u64>) -> Result<u64, ValueError> {
        let value = StoredValue { text: text.to_owned(), version: 0, is_bytes: false };
        let new = NewValue { key: key.to_owned(), value, expires_at: ends, if_version: None, quota: self.quota };
        self.store.set(&place(partition), new, now()).await.map(|written| written.bytes)
    }

    /// The partitions with the bytes that they take.
    async fn sizes(&self) -> Vec<(String, u64)> {
        let filter = PartitionFilter { plugin: "default/p".into(), ..PartitionFilter::default() };
        let found = self.store.partitions(&filter).await.unwrap();
        found.into_iter().map(|partition| (partition.conversation, partition.bytes)).collect()
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        for ending in ["", "-wal", "-shm"] {
            let _ = self.file.as_ref().map(|file| std::fs::remove_file(format!("{}{ending}", file.display())));
        }
    }
}

fn place(partition: &str) -> ValuePlace {
    ValuePlace { plugin: "default/p".into(), namespace: "default".into(), partition: partition.to_owned() }
}

fn owner(partition: &str) -> PartitionOwner {
    PartitionOwner { scope: StoreScope::Conversation, principal: "ann".into(), conversation: partition.to_owned() }
}

fn sized(partitions: &[(&str, u64)]) -> Vec<(String, u64)> {
    partitions.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
}

#[tokio::test]
async fn a_value_counts_with_its_key_and_its_row() {
    for values in Values::both() {
        values.create("a").await;
        assert_eq!(values.set("a", "ké", "12345", None).await, Ok(71));
        assert_eq!(values.set("a", "ké", "1", None).await, Ok(67));
        assert_eq!(values.set("a", "l", &"1".repeat(900), None).await, Err(ValueError::Full { used: 67, quota: 1000 }));
        assert_eq!(values.set("a", "l", "1", None).await, Ok(67 + 66));
        assert_eq!(values.store.delete(&place("a"), "ké").await, Ok(true));
        assert_eq!(values.sizes().await, sized(&[("a", 66)]));
    }
}

#[tokio::test]
async fn only_a_partition_that_exists_takes_values() {
    for values in Values::both() {
        assert_eq!(values.set("a", "k", "1", None).await, Err(ValueError::NoPartition));
        assert_eq!(values.store.get(&place("a"), "k", now()).await, Ok(None));
        values.store.touch_partition(&place("a"), now()).await.unwrap();
        assert_eq!(values.sizes().await, [], "reading creates none");
        for partition in ["a", "b"] {
            values.create(partition).await;
            values.set(partition, "k", "1", None).await.unwrap();
        }
        let filter = PartitionFilter {
            plugin: "default/p".into(),
            conversation: Some("a".into()),
            ..PartitionFilter::default()
        };
        assert_eq!(values.store.erase(&filter).await, Ok(1));
        assert_eq!(values.set("a", "k", "1", None).await, Err(ValueError::NoPartition));
        assert_eq!(values.sizes().await, sized(&[("b", 66)]));
    }
}

#[tokio::test]
async fn values_end_and_idle_conversations_are_removed() {
    for values in Values::both() {
        let begin = now();
        for partition in ["a", "b"] {
            values.create(partition).await;
            values.set(partition, "k", "1", None).await.unwrap();
            values.set(partition, "t", "22", Some(begin + DAY)).await.unwrap();
        }
        let later = begin + 2 * DAY;
        values.store.touch_partition(&place("b"), later).await.unwrap();
        let range = KeyRange { prefix: String::new(), after: None, limit: 10 };
        let keys = values.store.list(&place("b"), &range, later).await.unwrap();
        assert_eq!(keys.into_iter().map(|key| key.key).collect::<Vec<_>>(), ["k"]);
        let millis = |time: u64| i64::try_from(time).unwrap();
        match values.store.database_of_values().unwrap() {
            Some(database) => database.remove_values(millis(later), millis(begin + DAY)).await.unwrap(),
            None => values.store.values.use_partition(&place("c"), &owner("c"), later + 1, DAY).unwrap(),
        }
        let mut sizes = values.sizes().await;
        sizes.retain(|(name, _)| name != "c");
        assert_eq!(sizes, sized(&[("b", 66)]));
    }
}

#[tokio::test]
async fn values_take_at_most_half_of_a_file() {
    let mut values = Values::new(Some(1 << 20));
    values.quota = 100_000;
    for number in 0..8 {
        let partition = number.to_string();
        values.create(&partition).await;
        let bytes = values.set(&partition, "k", &"1".repeat(60_000), None).await.unwrap();
        assert_eq!(bytes, 60_065 * (number + 1));
    }
    values.create("8").await;
    let full = values.set("8", "k", &"1".repeat(60_000), None).await;
    assert_eq!(full, Err(ValueError::Full { used: 8 * 60_065, quota: 512 << 10 }));
    assert!(values.set("8", "k", "1", None).await.is_ok());
}
