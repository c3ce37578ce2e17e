//! Adds rows to a SQLite file. sqlx, which reads them, hands each statement to a thread and back, and that takes longer than the
//! write. A call can wait for rows of the audit trail.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Error, ErrorCode, OpenFlags, params_from_iter};

use super::insert::Insert;
use super::limits::STATEMENT;

/// Returns the statements that each connection to a SQLite file begins with. With the WAL, a crash of the machine can lose the last
/// transactions, but does not damage the file.
pub(super) fn settings(max_pages: u64) -> String {
    format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA max_page_count = {max_pages}")
}

/// The number of instructions of SQLite after which a check looks at the time.
const STEPS: i32 = 1000;

/// What a check of a SQLite file has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// No damage.
    Whole,
    /// No damage in the part that was read within the limit.
    InPart,
    /// Damage, in the words of SQLite.
    Damaged(String),
}

/// Looks for damage in a SQLite file: pages that other programs or a fault of the disk have changed. SQLite itself notices that
/// only when it reads such a page, and until then adds rows that may be lost.
pub(super) fn check(path: &Path, limit: Duration) -> Result<Checked, Error> {
    let started = Instant::now();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(limit)?;
    connection.progress_handler(STEPS, Some(move || started.elapsed() >= limit))?;
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(found) if found == "ok" => Ok(Checked::Whole),
        Ok(found) => Ok(Checked::Damaged(found)),
        Err(why) => match why.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Ok(Checked::InPart),
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Ok(Checked::Damaged(why.to_string())),
            _ => Err(why),
        },
    }
}

/// A SQLite file that is open for writes.
pub(super) struct SqliteFile(Connection);

impl SqliteFile {
    /// Opens a file that exists, with the settings of other connections.
    pub(super) fn open(path: &Path, max_pages: u64) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(STATEMENT)?;
        connection.execute_batch(&settings(max_pages))?;
        Ok(Self(connection))
    }

    /// Adds rows, in one transaction.
    pub(super) fn write(&mut self, inserts: &[Insert]) -> Result<(), Error> {
        let transaction = self.0.transaction()?;
        for insert in inserts {
            let mut statement = transaction.prepare_cached(&insert.sql())?;
            for row in &insert.rows {
                statement.execute(params_from_iter(row))?;
            }
        }
        transaction.commit()
    }
}
