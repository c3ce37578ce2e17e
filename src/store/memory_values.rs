//! The values that plugins store (`ctx.store`), in memory: those of a gateway without a database. They end with the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::values::{charge, size};
use crate::domain::partition::StoreScope;
use crate::domain::values::{
    FULL_PARTITIONS, KeyRange, NewValue, PartitionFilter, PartitionOwner, PartitionView, StoredKey, StoredValue,
    ValueError, ValuePlace, Written,
};

/// The maximum number of bytes of all values.
const MAX_BYTES: u64 = 16 << 20;
/// The maximum number of partitions. The conversation that was used least recently makes room for another partition.
const MAX_PARTITIONS: usize = 10_000;

/// All values, by plugin and partition.
#[derive(Default)]
pub(super) struct MemoryValues(Mutex<BTreeMap<(String, String), Partition>>);

struct Partition {
    owner: PartitionOwner,
    namespace: String,
    used_at: u64,
    /// The bytes that all values take.
    bytes: u64,
    values: BTreeMap<String, Kept>,
}

struct Kept {
    value: StoredValue,
    expires_at: Option<u64>,
}

impl Kept {
    fn has_ended(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

impl Partition {
    /// Removes values that have ended.
    fn sweep(&mut self, now: u64) {
        self.values.retain(|_, kept| !kept.has_ended(now));
        self.bytes = self.values.iter().map(|(key, kept)| charge(key, size(&kept.value))).sum();
    }

    fn remove(&mut self, key: &str) -> bool {
        let removed = self.values.remove(key);
        self.bytes -= removed.as_ref().map_or(0, |kept| charge(key, size(&kept.value)));
        removed.is_some()
    }

    fn is_of(&self, filter: &PartitionFilter) -> bool {
        let fits = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|wanted| wanted == own);
        fits(&filter.principal, &self.owner.principal) && fits(&filter.conversation, &self.owner.conversation)
    }
}

fn id(place: &ValuePlace) -> (String, String) {
    (place.plugin.clone(), place.tenant())
}

impl MemoryValues {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Partition>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the use of a partition, if there is one.
    pub(super) fn touch_partition(&self, place: &ValuePlace, now: u64) {
        if let Some(partition) = self.lock().get_mut(&id(place)) {
            partition.used_at = now;
            partition.sweep(now);
        }
    }

    /// Creates a partition if there is none. Conversations that nobody has used for `idle_ms` are removed.
    pub(super) fn use_partition(
        &self,
        place: &ValuePlace,
        owner: &PartitionOwner,
        now: u64,
        idle_ms: u64,
    ) -> Result<(), ValueError> {
        let mut all = self.lock();
        all.retain(|_, it| it.owner.scope != StoreScope::Conversation || now.saturating_sub(it.used_at) < idle_ms);
        if all.len() >= MAX_PARTITIONS && !all.contains_key(&id(place)) {
            let conversations = all.iter().filter(|(_, it)| it.owner.scope == StoreScope::Conversation);
            let Some(oldest) = conversations.min_by_key(|(_, it)| it.used_at).map(|(id, _)| id.clone()) else {
                let message = format!("{MAX_PARTITIONS} partitions are in memory, as many as can be: use a database");
                return Err(ValueError::Unavailable(message));
            };
            all.remove(&oldest);
        }
        let partition = all.entry(id(place)).or_insert_with(|| Partition {
            owner: owner.clone(),
            namespace: place.namespace.clone(),
            used_at: now,
            bytes: 0,
            values: BTreeMap::new(),
        });
        partition.used_at = now;
        Ok(())
    }

    pub(super) fn get(&self, place: &ValuePlace, key: &str, now: u64) -> Option<StoredValue> {
        let all = self.lock();
        let kept = all.get(&id(place))?.values.get(key).filter(|kept| !kept.has_ended(now))?;
        Some(kept.value.clone())
    }

    pub(super) fn set(&self, place: &ValuePlace, new: NewValue, now: u64) -> Result<Written, ValueError> {
        let mut all = self.lock();
        let of_plugin =
            all.iter().filter(|((plugin, _), it)| *plugin == place.plugin && it.namespace == place.namespace);
        let of_plugin: u64 = of_plugin.map(|(_, it)| it.bytes).sum();
        let whole: u64 = all.values().map(|it| it.bytes).sum();
        let Some(partition) = all.get_mut(&id(place)) else {
            return Err(ValueError::NoPartition);
        };
        let known = partition.values.get(&new.key);
        let stored = known.filter(|kept| !kept.has_ended(now));
        let version = stored.map_or(0, |kept| kept.value.version);
        if new.if_version.is_some_and(|wanted| wanted != version) {
            return Err(ValueError::Conflict(version));
        }
        let charged = |value: &StoredValue| charge(&new.key, size(value));
        let (before, more) = (known.map_or(0, |kept| charged(&kept.value)), charged(&new.value));
        let quotas =
            [(partition.bytes, new.quota), (of_plugin, new.quota.saturating_mul(FULL_PARTITIONS)), (whole, MAX_BYTES)];
        if let Some((used, quota)) =
            quotas.into_iter().find(|(used, quota)| more > before && used - before + more > *quota)
        {
            return Err(ValueError::Full { used, quota });
        }
        let value = StoredValue { version: version + 1, ..new.value };
        partition.bytes = partition.bytes - before + more;
        partition.values.insert(new.key, Kept { value, expires_at: new.expires_at });
        Ok(Written { version: version + 1, bytes: of_plugin.saturating_sub(before) + more })
    }

    pub(super) fn delete(&self, place: &ValuePlace, key: &str) -> bool {
        self.lock().get_mut(&id(place)).is_some_and(|partition| partition.remove(key))
    }

    pub(super) fn list(&self, place: &ValuePlace, range: &KeyRange, now: u64) -> Vec<StoredKey> {
        let all = self.lock();
        let Some(partition) = all.get(&id(place)) else { return Vec::new() };
        let after = range.after.as_deref().unwrap_or_default();
        let found =
            partition.values.range(range.prefix.clone()..).take_while(|(key, _)| key.starts_with(&range.prefix));
        let found = found.filter(|(key, kept)| key.as_str() > after && !kept.has_ended(now)).take(range.limit);
        let view = |(key, kept): (&String, &Kept)| StoredKey {
            key: key.clone(),
            version: kept.value.version,
            size: size(&kept.value),
        };
        found.map(view).collect()
    }

    pub(super) fn partitions(&self, filter: &PartitionFilter) -> Vec<PartitionView> {
        let all = self.lock();
        let found = all.iter().filter(|((plugin, _), it)| *plugin == filter.plugin && it.is_of(filter));
        let view = |((plugin, _), it): (&(String, String), &Partition)| PartitionView {
            plugin: plugin.clone(),
            namespace: it.namespace.clone(),
            scope: it.owner.scope,
            principal: it.owner.principal.clone(),
            conversation: it.owner.conversation.clone(),
            keys: it.values.len() as u64,
            bytes: it.bytes,
            used_at: it.used_at,
        };
        found.map(view).collect()
    }

    pub(super) fn erase(&self, filter: &PartitionFilter) -> u64 {
        let mut all = self.lock();
        let before = all.len();
        all.retain(|(plugin, _), it| *plugin != filter.plugin || !it.is_of(filter));
        (before - all.len()) as u64
    }
}
