//! The values that plugins store (`ctx.store`), in a database. A row of `plugin_partitions` has the bytes that each partition takes,
//! so that the quota need not add up its values.

use sqlx::any::AnyRow;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Connection, Row, Transaction};

use super::connections::Connections;
use super::error::StoreError;
use super::statements::number;
use super::target::Dialect;
use crate::domain::partition::StoreScope;
use crate::domain::values::{
    FULL_PARTITIONS, KeyRange, NewValue, PartitionFilter, PartitionOwner, PartitionView, StoredKey, StoredValue,
    ValueError, ValuePlace, Written,
};

/// The beginning of a stored value that is bytes. The text of no JSON begins so.
const BYTES: &str = "base64:";
/// The bytes that a value takes in addition to its key and its text.
pub(super) const OF_ROW: u64 = 64;

/// The outcome of a transaction.
pub(super) type Found<T> = Result<Result<T, ValueError>, sqlx::Error>;

/// Returns the text of a value as its row has it.
fn written(value: &StoredValue) -> String {
    if value.is_bytes { format!("{BYTES}{}", value.text) } else { value.text.clone() }
}

fn value(row: &AnyRow) -> Result<StoredValue, sqlx::Error> {
    let (text, version): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
    let bytes = text.strip_prefix(BYTES).map(str::to_owned);
    let is_bytes = bytes.is_some();
    Ok(StoredValue { text: bytes.unwrap_or(text), version: version.unsigned_abs(), is_bytes })
}

/// Returns the size of a value in bytes: of bytes, without the encoding.
pub(super) fn size(value: &StoredValue) -> u64 {
    let length = value.text.len() as u64;
    if value.is_bytes { length / 4 * 3 } else { length }
}

/// Returns the bytes that a value with this key takes of the quota.
pub(super) fn charge(key: &str, size: u64) -> u64 {
    size + key.chars().count() as u64 + OF_ROW
}

pub(super) fn unavailable(why: &StoreError) -> ValueError {
    ValueError::Unavailable(why.to_string())
}

impl Connections {
    /// Runs statements in one transaction that no other write to the partition interrupts. A connection on which that fails is closed.
    pub(super) async fn exclusive<T: Send>(
        &self,
        plugin: &str,
        tenant: &str,
        run: impl AsyncFnOnce(&mut Transaction<'_, Any>) -> Found<T>,
    ) -> Result<T, ValueError> {
        self.prepare().await.map_err(|why| unavailable(&why))?;
        let _slot = self.value_slots.acquire().await;
        let mut connection = self.pool.acquire().await.map_err(|why| unavailable(&self.error(&why)))?;
        let whole = async {
            let connection: &mut AnyConnection = &mut connection;
            let begin = if self.target.dialect() == Dialect::Sqlite { "BEGIN IMMEDIATE" } else { "BEGIN" };
            let mut transaction = connection.begin_with(begin).await?;
            if self.target.dialect() == Dialect::Postgres {
                let lock = "SELECT CAST(pg_advisory_xact_lock(hashtextextended($1, 52)) AS TEXT)";
                sqlx::query(lock).bind(format!("{plugin} {tenant}")).execute(&mut *transaction).await?;
            }
            let found = run(&mut transaction).await?;
            match &found {
                Ok(_) => transaction.commit().await?,
                Err(_) => transaction.rollback().await?,
            }
            Ok(found)
        };
        let done = self.within(whole).await;
        if done.is_err() {
            connection.close_on_drop();
        }
        done.map_err(|why| unavailable(&why))?
    }

    /// Runs a statement that reads rows.
    pub(super) async fn rows<T>(
        &self,
        query: sqlx::query::Query<'_, Any, sqlx::any::AnyArguments>,
        read: impl Fn(&AnyRow) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, ValueError> {
        self.prepare().await.map_err(|why| unavailable(&why))?;
        let _slot = self.value_slots.acquire().await;
        let rows = self.within(query.fetch_all(&self.pool)).await.map_err(|why| unavailable(&why))?;
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|why| unavailable(&self.error(&why)))
    }

    /// Notes that a partition is used, if there is one.
    pub(super) async fn touch_partition(&self, place: &ValuePlace, now: u64) -> Result<(), ValueError> {
        let sql = "UPDATE plugin_partitions SET used_at = $3 WHERE plugin = $1 AND tenant = $2";
        self.prepare().await.map_err(|why| unavailable(&why))?;
        let _slot = self.value_slots.acquire().await;
        let update = sqlx::query(sql).bind(place.plugin.clone()).bind(place.tenant()).bind(number(now));
        self.within(update.execute(&self.pool)).await.map(drop).map_err(|why| unavailable(&why))
    }

    pub(super) async fn use_partition(
        &self,
        place: &ValuePlace,
        owner: &PartitionOwner,
        now: u64,
    ) -> Result<(), ValueError> {
        let sql = "INSERT INTO plugin_partitions (plugin, tenant, scope, principal, conversation, bytes, used_at) VALUES \
                   ($1, $2, $3, $4, $5, 0, $6) ON CONFLICT (plugin, tenant) DO UPDATE SET used_at = $6";
        self.prepare().await.map_err(|why| unavailable(&why))?;
        let _slot = self.value_slots.acquire().await;
        let storable = |text: &str| text.chars().map(super::statements::storable).collect::<String>();
        let insert = sqlx::query(sql).bind(place.plugin.clone()).bind(place.tenant());
        let insert = insert.bind(format!("{:?}", owner.scope)).bind(storable(&owner.principal));
        let insert = insert.bind(storable(&owner.conversation)).bind(number(now));
        self.within(insert.execute(&self.pool)).await.map(drop).map_err(|why| unavailable(&why))
    }

    pub(super) async fn value(
        &self,
        place: &ValuePlace,
        key: &str,
        now: u64,
    ) -> Result<Option<StoredValue>, ValueError> {
        let sql = "SELECT value, version FROM plugin_store WHERE plugin = $1 AND tenant = $2 AND key = $3 AND (expires_at IS \
                   NULL OR expires_at > $4)";
        let select = sqlx::query(sql).bind(place.plugin.clone()).bind(place.tenant());
        let found = self.rows(select.bind(key.to_owned()).bind(number(now)), value).await?;
        Ok(found.into_iter().next())
    }

    pub(super) async fn set_value(&self, place: &ValuePlace, new: NewValue, now: u64) -> Result<Written, ValueError> {
        let ceiling = self.ceiling_of_values();
        let set = async |transaction: &mut Transaction<'_, Any>| set(transaction, place, &new, now, ceiling).await;
        self.exclusive(&place.plugin, &place.tenant(), set).await
    }

    pub(super) async fn delete_value(&self, place: &ValuePlace, key: &str) -> Result<bool, ValueError> {
        self.exclusive(&place.plugin, &place.tenant(), async |transaction| {
            let found = current(transaction, place, key, 0).await?;
            let Some((_, bytes)) = found else { return Ok(Ok(false)) };
            remove(transaction, place, key).await?;
            add_bytes(transaction, place, -bytes).await?;
            Ok(Ok(true))
        })
        .await
    }

    pub(super) async fn keys(
        &self,
        place: &ValuePlace,
        range: &KeyRange,
        now: u64,
    ) -> Result<Vec<StoredKey>, ValueError> {
        let sql = "SELECT key, version, size FROM plugin_store WHERE plugin = $1 AND tenant = $2 AND key >= $3 AND key > $4 \
                   AND substr(key, 1, $5) = $3 AND (expires_at IS NULL OR expires_at > $6) ORDER BY key LIMIT $7";
        let select = sqlx::query(sql).bind(place.plugin.clone()).bind(place.tenant()).bind(range.prefix.clone());
        let length = i32::try_from(range.prefix.chars().count()).unwrap_or(i32::MAX);
        let select = select.bind(range.after.clone().unwrap_or_default()).bind(length).bind(number(now));
        let select = select.bind(i64::try_from(range.limit).unwrap_or(i64::MAX));
        self.rows(select, |row| {
            let (version, size): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
            Ok(StoredKey { key: row.try_get(0)?, version: version.unsigned_abs(), size: size.unsigned_abs() })
        })
        .await
    }

    pub(super) async fn partitions(&self, filter: &PartitionFilter) -> Result<Vec<PartitionView>, ValueError> {
        let sql = format!(
            "SELECT p.plugin, p.tenant, p.scope, p.principal, p.conversation, p.bytes, p.used_at, (SELECT COUNT(*) FROM \
             plugin_store s WHERE s.plugin = p.plugin AND s.tenant = p.tenant) FROM plugin_partitions p WHERE {FILTER} ORDER \
             BY p.tenant"
        );
        self.rows(filtered(&sql, filter), view).await
    }
}

/// The condition of a [`PartitionFilter`] on `plugin_partitions p`. An empty text stands for any.
pub(super) const FILTER: &str = "p.plugin = $1 AND ($2 = '' OR p.principal = $2) AND ($3 = '' OR p.conversation = $3)";

pub(super) fn filtered<'q>(
    sql: &str,
    filter: &PartitionFilter,
) -> sqlx::query::Query<'q, Any, sqlx::any::AnyArguments> {
    let query = sqlx::query(AssertSqlSafe(sql.to_owned())).bind(filter.plugin.clone());
    query.bind(filter.principal.clone().unwrap_or_default()).bind(filter.conversation.clone().unwrap_or_default())
}

fn view(row: &AnyRow) -> Result<PartitionView, sqlx::Error> {
    let (tenant, scope): (String, String) = (row.try_get(1)?, row.try_get(2)?);
    let (bytes, used_at, keys): (i64, i64, i64) = (row.try_get(5)?, row.try_get(6)?, row.try_get(7)?);
    let scope = match &*scope {
        "Shared" => StoreScope::Shared,
        "Principal" => StoreScope::Principal,
        _ => StoreScope::Conversation,
    };
    Ok(PartitionView {
        plugin: row.try_get(0)?,
        namespace: tenant.split('/').next().unwrap_or_default().to_owned(),
        scope,
        principal: row.try_get(3)?,
        conversation: row.try_get(4)?,
        keys: keys.unsigned_abs(),
        bytes: bytes.unsigned_abs(),
        used_at: used_at.unsigned_abs(),
    })
}

/// Returns the version of a value that has not ended, and the bytes that it takes.
async fn current(
    transaction: &mut Transaction<'_, Any>,
    place: &ValuePlace,
    key: &str,
    now: u64,
) -> Result<Option<(u64, i64)>, sqlx::Error> {
    let sql = "SELECT version, size FROM plugin_store WHERE plugin = $1 AND tenant = $2 AND key = $3 AND (expires_at IS NULL \
               OR expires_at > $4)";
    let select = sqlx::query(sql).bind(place.plugin.clone()).bind(place.tenant()).bind(key.to_owned());
    let row = select.bind(number(now)).fetch_optional(&mut **transaction).await?;
    let read = |row: AnyRow| {
        let (version, size): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        Ok((version.unsigned_abs(), number(charge(key, size.unsigned_abs()))))
    };
    row.map(read).transpose()
}

async fn remove(transaction: &mut Transaction<'_, Any>, place: &ValuePlace, key: &str) -> Result<(), sqlx::Error> {
    let sql = "DELETE FROM plugin_store WHERE plugin = $1 AND tenant = $2 AND key = $3";
    let delete = sqlx::query(sql).bind(place.plugin.clone()).bind(place.tenant()).bind(key.to_owned());
    delete.execute(&mut **transaction).await.map(drop)
}

/// Adds to the bytes of a partition. Returns whether there is one.
async fn add_bytes(
    transaction: &mut Transaction<'_, Any>,
    place: &ValuePlace,
    bytes: i64,
) -> Result<bool, sqlx::Error> {
    let sql = "UPDATE plugin_partitions SET bytes = bytes + $3 WHERE plugin = $1 AND tenant = $2";
    let update = sqlx::query(sql).bind(place.plugin.clone()).bind(place.tenant()).bind(bytes);
    Ok(update.execute(&mut **transaction).await?.rows_affected() > 0)
}

/// Returns the bytes of the partition, and those of all partitions of the plugin in the namespace.
async fn used(transaction: &mut Transaction<'_, Any>, place: &ValuePlace) -> Result<(i64, i64), sqlx::Error> {
    let sql = "SELECT CAST(COALESCE(SUM(CASE WHEN tenant = $2 THEN bytes ELSE 0 END), 0) AS BIGINT), \
               CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM plugin_partitions WHERE plugin = $1 AND tenant >= $3 AND tenant \
               < $4";
    // The character after `/` is `0`.
    let (from, to) = (format!("{}/", place.namespace), format!("{}0", place.namespace));
    let select = sqlx::query(sql).bind(place.plugin.clone()).bind(place.tenant()).bind(from).bind(to);
    let row = select.fetch_one(&mut **transaction).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// Returns the bytes of all partitions.
async fn used_by_all(transaction: &mut Transaction<'_, Any>) -> Result<i64, sqlx::Error> {
    let sql = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM plugin_partitions";
    sqlx::query(sql).fetch_one(&mut **transaction).await?.try_get(0)
}

/// Sets a value. All values together take at most `ceiling` bytes.
async fn set(
    transaction: &mut Transaction<'_, Any>,
    place: &ValuePlace,
    new: &NewValue,
    now: u64,
    ceiling: Option<u64>,
) -> Found<Written> {
    let found = current(transaction, place, &new.key, now).await?;
    let (version, before) = found.unwrap_or_default();
    if new.if_version.is_some_and(|wanted| wanted != version) {
        return Ok(Err(ValueError::Conflict(version)));
    }
    if found.is_none()
        && let Some((_, ended)) = current(transaction, place, &new.key, 0).await?
    {
        remove(transaction, place, &new.key).await?;
        add_bytes(transaction, place, -ended).await?;
    }
    let size = size(&new.value);
    let more = number(charge(&new.key, size));
    let (of_partition, of_plugin) = used(transaction, place).await?;
    let mut quotas = vec![(of_partition, new.quota), (of_plugin, new.quota.saturating_mul(FULL_PARTITIONS))];
    if let Some(ceiling) = ceiling {
        quotas.push((used_by_all(transaction).await?, ceiling));
    }
    for (used, quota) in quotas {
        if more > before && used - before + more > number(quota) {
            return Ok(Err(ValueError::Full { used: used.unsigned_abs(), quota }));
        }
    }
    if !add_bytes(transaction, place, more - before).await? {
        return Ok(Err(ValueError::NoPartition));
    }
    let sql = "INSERT INTO plugin_store (plugin, tenant, key, value, version, size, updated_at, expires_at) VALUES ($1, $2, \
               $3, $4, $5, $6, $7, $8) ON CONFLICT (plugin, tenant, key) DO UPDATE SET value = $4, version = $5, size = $6, \
               updated_at = $7, expires_at = $8";
    let insert = sqlx::query(sql).bind(place.plugin.clone()).bind(place.tenant()).bind(new.key.clone());
    let insert = insert.bind(written(&new.value)).bind(number(version + 1)).bind(number(size)).bind(number(now));
    insert.bind(new.expires_at.map(number)).execute(&mut **transaction).await?;
    Ok(Ok(Written { version: version + 1, bytes: (of_plugin - before + more).unsigned_abs() }))
}
