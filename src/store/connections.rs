//! The connections to a database.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::value::RawValue;
use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, AnyPool, AssertSqlSafe, ConnectOptions, Connection, Row};
use tokio::sync::{Mutex, OnceCell, Semaphore};

use super::error::StoreError;
use super::file::{Checked, FileId, SqliteFile, check, file_id, settings};
use super::insert::{Insert, Statement};
use super::limits::STATEMENT;
use super::migrations;
use super::pooler;
use super::statements::select;
use super::target::{Dialect, StoreTarget};
use crate::domain::history::{HistoryQuery, Position, RecordKind};

/// The maximum number of connections: one writes, others read.
const CONNECTIONS: u32 = 4;
/// The maximum number of connections that values of plugins use, so that they hold up neither the audit nor reads.
const CONNECTIONS_OF_VALUES: usize = 2;
/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the check of a SQLite file for damage can take.
const CHECK: Duration = Duration::from_secs(3);
/// The size of a page of a SQLite file, in bytes.
const PAGE: u64 = 4096;

/// Why nothing is written to a file that another program has moved.
const MOVED: &str = "the file, or the one of the same name that ends in -wal, was removed or replaced, and rows would be lost. Move \
    both back, or restart the gateway: it then uses the file that is there, or creates one";

/// A database with its connections. They are opened when they are needed.
pub(super) struct Connections {
    pub(super) target: StoreTarget,
    pub(super) pool: AnyPool,
    /// The connection that adds rows to a SQLite file. SQLite allows one writer, and other connections poll its lock at growing
    /// intervals.
    file: Mutex<Option<SqliteFile>>,
    /// The maximum number of pages of a SQLite file.
    max_pages: u64,
    /// The file that [`Self::prepare`] has found, if the database is one.
    prepared: OnceCell<FileId>,
    pub(super) value_slots: Semaphore,
}

impl Connections {
    /// `max_bytes` limits the size of a SQLite file.
    pub(super) fn new(target: StoreTarget, max_bytes: u64) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let max_pages = max_bytes / PAGE;
        let pragmas = match target.dialect() {
            Dialect::Postgres => String::new(),
            Dialect::Sqlite => settings(max_pages),
        };
        let options = AnyPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(CONNECT);
        let options = options.after_connect(move |connection, _| {
            let pragmas = pragmas.clone();
            Box::pin(async move {
                match pragmas.is_empty() {
                    true => Ok(()),
                    false => sqlx::raw_sql(AssertSqlSafe(pragmas)).execute(&mut *connection).await.map(drop),
                }
            })
        });
        // Only a server can have closed a connection of the pool.
        let options = options.test_before_acquire(target.dialect() == Dialect::Postgres);
        let pool = options.connect_lazy_with(target.options()?);
        let value_slots = Semaphore::new(CONNECTIONS_OF_VALUES);
        Ok(Self { pool, target, file: Mutex::default(), max_pages, prepared: OnceCell::new(), value_slots })
    }

    /// Returns how many bytes all values of plugins can take: half of a SQLite file, as the history is in it too.
    pub(super) fn ceiling_of_values(&self) -> Option<u64> {
        (self.target.dialect() == Dialect::Sqlite).then_some(self.max_pages * PAGE / 2)
    }

    /// Connects, looks for damage, and migrates the tables to the last version. Does nothing if that was done.
    pub(super) async fn prepare(&self) -> Result<(), StoreError> {
        let prepare = || async {
            migrate(&self.target, None).await?;
            Ok(match &self.target {
                StoreTarget::Sqlite(path) => file_id(path),
                StoreTarget::Postgres(_) => None,
            })
        };
        self.prepared.get_or_try_init(prepare).await.map(drop)
    }

    /// Whether [`Self::prepare`] has succeeded.
    pub(super) fn is_prepared(&self) -> bool {
        self.prepared.initialized()
    }

    pub(super) fn error(&self, why: &sqlx::Error) -> StoreError {
        StoreError::of(&self.target, why)
    }

    /// Runs statements within a time limit.
    pub(super) async fn within<T>(
        &self,
        statements: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(STATEMENT, statements).await {
            Ok(done) => done.map_err(|why| self.error(&why)),
            Err(_) => Err(StoreError::new(&self.target, &format!("no answer within {} s", STATEMENT.as_secs()))),
        }
    }

    /// Adds rows, in one transaction. If `is_durable`, a crash of the machine does not lose them.
    pub(super) async fn insert(&self, inserts: Vec<Insert>, is_durable: bool) -> Result<(), StoreError> {
        match &self.target {
            StoreTarget::Sqlite(path) => self.write(path.clone(), inserts, is_durable).await,
            StoreTarget::Postgres(_) => {
                self.transaction(inserts.into_iter().flat_map(Insert::statements).collect()).await
            }
        }
    }

    /// Adds rows to a SQLite file, in one transaction. The connection is closed if that fails: after a write that failed,
    /// SQLite can keep the lock of the transaction, and every later write would find the database locked.
    ///
    /// SQLite goes on to write to a file that was removed or replaced. Such rows would be lost, so none are written.
    async fn write(&self, path: PathBuf, inserts: Vec<Insert>, is_durable: bool) -> Result<(), StoreError> {
        let mut file = self.file.lock().await;
        let (max_pages, open, prepared) = (self.max_pages, file.take(), self.prepared.get().copied().flatten());
        let written = tokio::task::spawn_blocking(move || {
            if file_id(&path) != prepared {
                return Ok((open, false));
            }
            let mut file = open.map_or_else(|| SqliteFile::open(&path, max_pages), Ok)?;
            let is_there = file.has_wal();
            if is_there {
                file.write(&inserts, is_durable)?;
            }
            Ok((Some(file), is_there))
        });
        let why = match tokio::time::timeout(STATEMENT, written).await {
            Ok(Ok(Ok((open, is_there)))) => {
                *file = open;
                if is_there {
                    return Ok(());
                }
                MOVED.to_owned()
            }
            Ok(Ok(Err::<_, rusqlite::Error>(why))) => why.to_string(),
            Ok(Err(why)) => why.to_string(),
            Err(_) => format!("no answer within {} s", STATEMENT.as_secs()),
        };
        Err(StoreError::new(&self.target, &why))
    }

    /// Runs statements in one transaction. A connection on which that fails is closed.
    async fn transaction(&self, mut statements: Vec<Statement>) -> Result<(), StoreError> {
        let mut connection = self.pool.acquire().await.map_err(|why| self.error(&why))?;
        let run = async {
            // One statement is a transaction by itself.
            if statements.len() == 1
                && let Some(statement) = statements.pop()
            {
                return statement.execute(&mut *connection).await.map(drop);
            }
            let mut transaction = connection.begin().await?;
            for statement in statements {
                statement.execute(&mut *transaction).await?;
            }
            transaction.commit().await
        };
        let done = self.within(run).await;
        if done.is_err() {
            connection.close_on_drop();
        }
        done
    }

    /// Closes all connections. The last one of a SQLite file moves the rows of the WAL into the file.
    pub(super) async fn close(&self) {
        *self.file.lock().await = None;
        self.pool.close().await;
    }

    /// Reads the records of one page, and one more if there is another page.
    pub(super) async fn list(
        &self,
        kind: RecordKind,
        query: &HistoryQuery,
    ) -> Result<Vec<(Position, Box<RawValue>)>, StoreError> {
        let rows = self.within(select(kind, query).fetch_all(&self.pool)).await?;
        let read = |row: &sqlx::any::AnyRow| {
            let ended_at = u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or_default();
            let document = RawValue::from_string(row.try_get(2)?).map_err(|why| sqlx::Error::Decode(why.into()))?;
            Ok((Position { ended_at, id: row.try_get(1)? }, document))
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|why: sqlx::Error| self.error(&why))
    }
}

/// Migrates the tables of a store to a version, by default to the last one. Returns the migrations that were applied or
/// taken back.
///
/// # Errors
/// If the store cannot be reached, its file is damaged, or a statement fails.
pub async fn migrate(target: &StoreTarget, to: Option<i64>) -> Result<Vec<String>, StoreError> {
    sqlx::any::install_default_drivers();
    target.create()?;
    look_for_damage(target).await?;
    let mut connection = connect(target).await?;
    if target.dialect() == Dialect::Postgres {
        let mut other = connect(target).await?;
        let fault = pooler::fault(&mut connection, &mut other).await.map_err(|why| StoreError::of(target, &why))?;
        if let Some(fault) = fault {
            return Err(StoreError::new(target, fault));
        }
        let _ = other.close().await;
    }
    let done = migrations::migrate(&mut connection, target.dialect(), to).await;
    let closed = connection.close().await;
    done.and_then(|done| closed.map(|()| done)).map_err(|why| StoreError::of(target, &why))
}

async fn connect(target: &StoreTarget) -> Result<AnyConnection, StoreError> {
    let options = target.options()?;
    let connecting = tokio::time::timeout(CONNECT, options.connect()).await;
    let connecting = connecting.map_err(|_| StoreError::new(target, "no connection within 5 s"))?;
    connecting.map_err(|why| StoreError::of(target, &why))
}

async fn look_for_damage(target: &StoreTarget) -> Result<(), StoreError> {
    let StoreTarget::Sqlite(path) = target else { return Ok(()) };
    let path = path.clone();
    let checked = tokio::task::spawn_blocking(move || check(&path, CHECK)).await;
    match checked.map_err(|why| StoreError::new(target, &why))?.map_err(|why| StoreError::new(target, &why))? {
        Checked::Whole => Ok(()),
        Checked::InPart => {
            tracing::info!("the store {target} was checked for damage in part, for {CHECK:?}: the file is large");
            Ok(())
        }
        Checked::Damaged(why) => {
            let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
            let message = format!(
                "the file is damaged ({why}). Move it away, with the files of the same name that end in -wal and -shm: a new \
                 store is created. `sqlite3 FILE .recover` reads what is left of the old one"
            );
            Err(StoreError::new(target, &message))
        }
    }
}
