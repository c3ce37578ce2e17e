//! Removes values that plugins stored: those of partitions that are erased, those that have ended, and those of conversations that no
//! run uses any more. Each partition is removed in a transaction of its own, so that no write to it interferes.

use sqlx::any::AnyRow;
use sqlx::{Any, AnyConnection, Row, Transaction};

use super::connections::Connections;
use super::values::{FILTER, Found, OF_ROW, filtered};
use crate::domain::values::{PartitionFilter, ValueError};

/// The maximum number of partitions that one sweep touches for each cause.
const PARTITIONS: u64 = 100;

/// The key of a partition: the plugin, and its tenant.
type Key = (String, String);

fn key(row: &AnyRow) -> Result<Key, sqlx::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// Runs a statement whose parameters are the key of a partition and a time. Returns the number of rows.
async fn execute(
    transaction: &mut Transaction<'_, Any>,
    sql: &'static str,
    (plugin, tenant): &Key,
    time: Option<i64>,
) -> Result<u64, sqlx::Error> {
    let query = sqlx::query(sql).bind(plugin.clone()).bind(tenant.clone());
    let query = match time {
        Some(time) => query.bind(time),
        None => query,
    };
    let connection: &mut AnyConnection = transaction;
    Ok(query.execute(connection).await?.rows_affected())
}

/// Removes a partition with its values; if `idle_since` is given, only if nobody has used it since. Returns whether it was there.
async fn erase(transaction: &mut Transaction<'_, Any>, key: &Key, idle_since: Option<i64>) -> Found<bool> {
    let sql = match idle_since {
        Some(_) => "DELETE FROM plugin_partitions WHERE plugin = $1 AND tenant = $2 AND used_at < $3",
        None => "DELETE FROM plugin_partitions WHERE plugin = $1 AND tenant = $2",
    };
    let was_there = execute(transaction, sql, key, idle_since).await? > 0;
    if was_there {
        execute(transaction, "DELETE FROM plugin_store WHERE plugin = $1 AND tenant = $2", key, None).await?;
    }
    Ok(Ok(was_there))
}

/// Removes the values of a partition that have ended, and adds up the others.
async fn remove_ended(transaction: &mut Transaction<'_, Any>, key: &Key, now: i64) -> Found<()> {
    let sql = "DELETE FROM plugin_store WHERE plugin = $1 AND tenant = $2 AND expires_at <= $3";
    execute(transaction, sql, key, Some(now)).await?;
    let sql = "UPDATE plugin_partitions SET bytes = (SELECT CAST(COALESCE(SUM(size + LENGTH(key) + $3), 0) AS BIGINT) FROM \
               plugin_store WHERE plugin = $1 AND tenant = $2) WHERE plugin = $1 AND tenant = $2";
    execute(transaction, sql, key, Some(i64::try_from(OF_ROW).unwrap_or_default())).await?;
    Ok(Ok(()))
}

impl Connections {
    pub(super) async fn erase_partitions(&self, filter: &PartitionFilter) -> Result<u64, ValueError> {
        let sql = format!("SELECT p.plugin, p.tenant FROM plugin_partitions p WHERE {FILTER}");
        let mut erased = 0;
        for found in self.rows(filtered(&sql, filter), key).await? {
            let erase = async |transaction: &mut Transaction<'_, Any>| erase(transaction, &found, None).await;
            erased += u64::from(self.exclusive(&found.0, &found.1, erase).await?);
        }
        Ok(erased)
    }

    /// Removes values that have ended, and conversations that nobody has used since `idle_since`: of at most [`PARTITIONS`] partitions
    /// each.
    pub(super) async fn remove_values(&self, now: i64, idle_since: i64) -> Result<(), ValueError> {
        let sql = "SELECT DISTINCT plugin, tenant FROM plugin_store WHERE expires_at <= $1 LIMIT $2";
        let limit = i64::try_from(PARTITIONS).unwrap_or_default();
        for found in self.rows(sqlx::query(sql).bind(now).bind(limit), key).await? {
            let remove = async |transaction: &mut Transaction<'_, Any>| remove_ended(transaction, &found, now).await;
            self.exclusive(&found.0, &found.1, remove).await?;
        }
        let sql = "SELECT plugin, tenant FROM plugin_partitions WHERE scope = 'Conversation' AND used_at < $1 LIMIT $2";
        for found in self.rows(sqlx::query(sql).bind(idle_since).bind(limit), key).await? {
            let erase =
                async |transaction: &mut Transaction<'_, Any>| erase(transaction, &found, Some(idle_since)).await;
            self.exclusive(&found.0, &found.1, erase).await?;
        }
        Ok(())
    }
}
