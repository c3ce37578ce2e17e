//! The tables of a history database, and the steps between their versions.
//!
//! Statements of this program name the columns that they use. A program without the last migrations can therefore use a
//! database that has them.

use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

use super::target::Dialect;

/// One step between two versions.
struct Migration {
    version: i64,
    name: &'static str,
    up: &'static [&'static str],
    down: &'static [&'static str],
}

/// The columns of a table of records. Filters compare all but `document`, which is the record in JSON.
macro_rules! records {
    ($table:literal) => {
        concat!(
            "CREATE TABLE ",
            $table,
            " (id {key} NOT NULL PRIMARY KEY, ended_at BIGINT NOT NULL, request_id TEXT NOT NULL, plugin TEXT NOT NULL, \
             chain TEXT NOT NULL, upstream TEXT NOT NULL, tool TEXT NOT NULL, method TEXT NOT NULL, session TEXT NOT NULL, \
             principal TEXT NOT NULL, outcome TEXT NOT NULL, document TEXT NOT NULL)"
        )
    };
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "001_calls",
        up: &[
            records!("calls"),
            "CREATE INDEX calls_ended_at ON calls (ended_at, id)",
            "CREATE INDEX calls_outcome ON calls (outcome, ended_at, id)",
        ],
        down: &["DROP TABLE calls"],
    },
    Migration {
        version: 2,
        name: "002_executions",
        up: &[
            records!("executions"),
            "CREATE INDEX executions_ended_at ON executions (ended_at, id)",
            "CREATE INDEX executions_outcome ON executions (outcome, ended_at, id)",
            "CREATE INDEX executions_request_id ON executions (request_id)",
            "CREATE INDEX executions_plugin ON executions (plugin, ended_at, id)",
        ],
        down: &["DROP TABLE executions"],
    },
    Migration {
        version: 3,
        name: "003_sources",
        up: &[
            "CREATE TABLE sources (id {key} NOT NULL PRIMARY KEY, run_id TEXT, request_id TEXT, number BIGINT, url TEXT, \
               title TEXT, domain TEXT, snippet TEXT, fetched_at BIGINT, relevance_score DOUBLE PRECISION, step TEXT)",
        ],
        down: &["DROP TABLE sources"],
    },
    Migration {
        version: 4,
        name: "004_plugin_store",
        up: &[
            "CREATE TABLE plugin_store (plugin {key} NOT NULL, tenant {key} NOT NULL, key {key} NOT NULL, value TEXT NOT \
               NULL, version BIGINT NOT NULL, size BIGINT NOT NULL, updated_at BIGINT NOT NULL, expires_at BIGINT, \
               PRIMARY KEY (plugin, tenant, key))",
        ],
        down: &["DROP TABLE plugin_store"],
    },
    Migration {
        version: 5,
        name: "005_audit",
        up: &[
            "CREATE TABLE audit (chain {key} NOT NULL, sequence BIGINT NOT NULL, stored_at BIGINT NOT NULL, previous TEXT NOT \
               NULL, hash TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (chain, sequence))",
            "CREATE INDEX audit_stored_at ON audit (stored_at, chain, sequence)",
        ],
        down: &["DROP TABLE audit"],
    },
    Migration {
        version: 6,
        name: "006_registry",
        up: &[
            "CREATE TABLE registry_objects (kind {key} NOT NULL, namespace {key} NOT NULL, name {key} NOT NULL, api_version \
               TEXT NOT NULL, document TEXT NOT NULL, file TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (kind, namespace, \
               name))",
            "CREATE TABLE registry_code (digest {key} NOT NULL PRIMARY KEY, content TEXT NOT NULL)",
            "CREATE TABLE registry_settings (name {key} NOT NULL PRIMARY KEY, value BIGINT NOT NULL)",
            "INSERT INTO registry_settings (name, value) VALUES ('schema', 1), ('revision', 0)",
        ],
        down: &["DROP TABLE registry_objects", "DROP TABLE registry_code", "DROP TABLE registry_settings"],
    },
    Migration {
        version: 7,
        name: "007_sources_fetched_at",
        up: &["CREATE INDEX sources_fetched_at ON sources (fetched_at)"],
        down: &["DROP INDEX sources_fetched_at"],
    },
    Migration {
        version: 10,
        name: "010_source_type_field",
        up: &[
            "ALTER TABLE sources ADD COLUMN source_type VARCHAR(32) NOT NULL DEFAULT 'web'",
            "ALTER TABLE sources ADD COLUMN source_metadata {json}",
            "CREATE INDEX sources_source_type ON sources (source_type)",
        ],
        down: &[
            "DROP INDEX sources_source_type",
            "ALTER TABLE sources DROP COLUMN source_metadata",
            "ALTER TABLE sources DROP COLUMN source_type",
        ],
    },
    Migration {
        version: 11,
        name: "011_user",
        up: &[
            "ALTER TABLE calls ADD COLUMN issuer TEXT NOT NULL DEFAULT ''",
            "ALTER TABLE calls ADD COLUMN identity TEXT NOT NULL DEFAULT ''",
            "ALTER TABLE executions ADD COLUMN issuer TEXT NOT NULL DEFAULT ''",
            "ALTER TABLE executions ADD COLUMN identity TEXT NOT NULL DEFAULT ''",
        ],
        down: &[
            "ALTER TABLE calls DROP COLUMN issuer",
            "ALTER TABLE calls DROP COLUMN identity",
            "ALTER TABLE executions DROP COLUMN issuer",
            "ALTER TABLE executions DROP COLUMN identity",
        ],
    },
    Migration {
        version: 12,
        name: "012_plugin_partitions",
        up: &[
            "CREATE TABLE plugin_partitions (plugin {key} NOT NULL, tenant {key} NOT NULL, scope TEXT NOT NULL, principal TEXT \
               NOT NULL, conversation TEXT NOT NULL, bytes BIGINT NOT NULL, used_at BIGINT NOT NULL, PRIMARY KEY (plugin, \
               tenant))",
            // A database that was at this version before can have values.
            "INSERT INTO plugin_partitions (plugin, tenant, scope, principal, conversation, bytes, used_at) SELECT plugin, \
               tenant, CASE WHEN tenant LIKE '%/shared' THEN 'Shared' ELSE 'Principal' END, '', '', CAST(SUM(size + \
               LENGTH(key) + 64) AS BIGINT), MAX(updated_at) FROM plugin_store GROUP BY plugin, tenant",
            "CREATE INDEX plugin_partitions_used_at ON plugin_partitions (scope, used_at)",
            "CREATE INDEX plugin_store_expires_at ON plugin_store (expires_at)",
        ],
        down: &["DROP INDEX plugin_store_expires_at", "DROP TABLE plugin_partitions"],
    },
];

/// Migrates the tables to a version, by default to the last one of this program. Migrations that this program does not
/// have stay. Returns the names of the migrations that were applied or taken back, each with its direction.
///
/// # Errors
/// If a statement fails. Each migration is applied whole or not at all.
pub(super) async fn migrate(
    connection: &mut AnyConnection,
    dialect: Dialect,
    to: Option<i64>,
) -> Result<Vec<String>, sqlx::Error> {
    let mut done = Vec::new();
    while let Some(step) = next(connection, dialect, to.unwrap_or(i64::MAX)).await? {
        done.push(step);
    }
    Ok(done)
}

/// Does one step. Returns `None` if the tables have the version.
async fn next(connection: &mut AnyConnection, dialect: Dialect, to: i64) -> Result<Option<String>, sqlx::Error> {
    // Other programs can migrate the same database at the same time.
    let (begin, lock) = match dialect {
        Dialect::Sqlite => ("BEGIN IMMEDIATE", None),
        Dialect::Postgres => ("BEGIN", Some("DO $$ BEGIN PERFORM pg_advisory_xact_lock(4206981); END $$")),
    };
    let mut transaction = connection.begin_with(begin).await?;
    let table =
        "CREATE TABLE IF NOT EXISTS hawsepipe_migrations (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL)";
    for statement in lock.into_iter().chain([table]) {
        sqlx::raw_sql(statement).execute(&mut *transaction).await?;
    }
    let rows = sqlx::query("SELECT version FROM hawsepipe_migrations").fetch_all(&mut *transaction).await?;
    let applied = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    let up = MIGRATIONS.iter().find(|step| step.version <= to && !applied.contains(&step.version));
    let down = || MIGRATIONS.iter().rev().find(|step| step.version > to && applied.contains(&step.version));
    let Some((step, is_up)) = up.map(|step| (step, true)).or_else(|| down().map(|step| (step, false))) else {
        return transaction.commit().await.map(|()| None);
    };
    for statement in if is_up { step.up } else { step.down } {
        sqlx::raw_sql(AssertSqlSafe(dialect.sql(statement))).execute(&mut *transaction).await?;
    }
    let noted = match is_up {
        true => sqlx::query("INSERT INTO hawsepipe_migrations (version, name) VALUES ($1, $2)")
            .bind(step.version)
            .bind(step.name),
        false => sqlx::query("DELETE FROM hawsepipe_migrations WHERE version = $1").bind(step.version),
    };
    noted.execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(Some(format!("{} {}", if is_up { "up" } else { "down" }, step.name)))
}

impl Dialect {
    /// Returns a statement with the names of types that differ. Ids sort as bytes, as they do in memory.
    fn sql(self, statement: &str) -> String {
        let (key, json) = match self {
            Self::Sqlite => ("TEXT", "TEXT"),
            Self::Postgres => ("TEXT COLLATE \"C\"", "JSONB"),
        };
        statement.replace("{key}", key).replace("{json}", json)
    }
}
