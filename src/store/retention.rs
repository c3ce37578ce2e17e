//! Removes old rows.

use sqlx::{AssertSqlSafe, Row};

use super::connections::Connections;
use super::error::StoreError;
use super::statements::table;
use super::target::Dialect;
use crate::domain::history::RecordKind;

/// The maximum number of rows that one statement deletes, so that rows can be written in between.
pub(super) const ROWS: u64 = 1000;
/// How many of the oldest rows are removed from a full file at a time.
const OLDEST: i64 = 100;
const TABLES: [RecordKind; 2] = [RecordKind::Calls, RecordKind::Executions];
/// How full a file is, in tenths, when its oldest rows are removed; and how full it is afterwards, at most.
const FULL: u64 = 9;
const EMPTIED: u64 = 8;

impl Connections {
    /// Removes rows that ended before this time, at most [`ROWS`] of each table. Returns how many were removed of the table
    /// that had more of them.
    pub(super) async fn remove_before(&self, time: i64) -> Result<u64, StoreError> {
        let mut removed = 0;
        for kind in TABLES {
            let table = table(kind).name;
            let sql = format!(
                "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE ended_at < $1 ORDER BY ended_at LIMIT {ROWS})"
            );
            let delete = sqlx::query(AssertSqlSafe(sql)).bind(time).execute(&self.pool);
            removed = removed.max(self.within(delete).await?.rows_affected());
        }
        let sql = format!(
            "DELETE FROM audit WHERE (chain, sequence) IN (SELECT chain, sequence FROM audit WHERE stored_at < $1 ORDER BY \
             stored_at, chain, sequence LIMIT {ROWS})"
        );
        let delete = sqlx::query(AssertSqlSafe(sql)).bind(time).execute(&self.pool);
        removed = removed.max(self.within(delete).await?.rows_affected());
        let sql = format!(
            "DELETE FROM sources WHERE id IN (SELECT id FROM sources WHERE fetched_at < $1 ORDER BY fetched_at LIMIT {ROWS})"
        );
        let delete = sqlx::query(AssertSqlSafe(sql)).bind(time).execute(&self.pool);
        Ok(removed.max(self.within(delete).await?.rows_affected()))
    }

    /// Returns how full a SQLite file is, in bytes.
    async fn used(&self) -> Result<u64, StoreError> {
        let sql = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, \
                   pragma_page_size";
        let row = self.within(sqlx::query(sql).fetch_one(&self.pool)).await?;
        let used: i64 = row.try_get(0).map_err(|why| self.error(&why))?;
        Ok(used.unsigned_abs())
    }

    /// If a SQLite file is nearly as large as it can be, removes its oldest rows.
    pub(super) async fn make_room(&self, max_bytes: u64) -> Result<(), StoreError> {
        if self.target.dialect() != Dialect::Sqlite || self.used().await? < max_bytes / 10 * FULL {
            return Ok(());
        }
        while self.used().await? > max_bytes / 10 * EMPTIED {
            let sql = "SELECT ended_at FROM (SELECT ended_at FROM calls UNION ALL SELECT ended_at FROM executions) AS ends \
                       ORDER BY ended_at LIMIT 1 OFFSET $1";
            let limit = self.within(sqlx::query(sql).bind(OLDEST).fetch_optional(&self.pool)).await?;
            let limit = limit.map_or(Ok(i64::MAX - 1), |row| row.try_get(0)).map_err(|why| self.error(&why))?;
            if self.remove_before(limit + 1).await? == 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}
