//! Adds rows to a SQLite file. sqlx, which reads them, hands each statement to a thread and back, and that takes longer than the
//! write. A call can wait for rows of the audit trail.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
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
    // The write-ahead log of a damaged file can have the rows that the file lacks.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
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

/// The device and the number of a file; `None` if there is none.
pub(super) type FileId = Option<(u64, u64)>;

/// Identifies the file that has this path now.
pub(super) fn file_id(path: &Path) -> FileId {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// A SQLite file that is open for writes.
pub(super) struct SqliteFile {
    connection: Connection,
    /// The file with the newest transactions, which SQLite has opened with the connection.
    wal: (PathBuf, FileId),
    /// Whether each transaction waits until the disk has it.
    is_durable: bool,
}

impl SqliteFile {
    /// Opens a file that exists, with the settings of other connections.
    pub(super) fn open(path: &Path, max_pages: u64) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(STATEMENT)?;
        connection.execute_batch(&settings(max_pages))?;
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        let wal = PathBuf::from(wal);
        let id = file_id(&wal);
        Ok(Self { connection, wal: (wal, id), is_durable: false })
    }

    /// Whether the file with the newest transactions is where it was when this one was opened.
    pub(super) fn has_wal(&self) -> bool {
        file_id(&self.wal.0) == self.wal.1
    }

    /// Adds rows, in one transaction. If `is_durable`, the disk has them afterwards.
    pub(super) fn write(&mut self, inserts: &[Insert], is_durable: bool) -> Result<(), Error> {
        if self.is_durable != is_durable {
            self.connection.pragma_update(None, "synchronous", if is_durable { "FULL" } else { "NORMAL" })?;
            self.is_durable = is_durable;
        }
        let transaction = self.connection.transaction()?;
        for insert in inserts {
            let mut statement = transaction.prepare_cached(&insert.sql())?;
            for row in &insert.rows {
                statement.execute(params_from_iter(row))?;
            }
        }
        transaction.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_transaction_waits_for_the_disk() {
        let path = std::env::temp_dir().join(format!("hawsepipe-store-{}.db", uuid::Uuid::new_v4().simple()));
        Connection::open(&path).unwrap();
        let mut file = SqliteFile::open(&path, 1000).unwrap();
        // 1 is NORMAL, 2 is FULL (https://sqlite.org/pragma.html#pragma_synchronous).
        for (is_durable, synchronous) in [(false, 1), (true, 2), (true, 2), (false, 1)] {
            file.write(&[], is_durable).unwrap();
            let found = file.connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
            assert_eq!(found, Ok(synchronous));
        }
        drop(file);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_log_of_a_damaged_file_stays_as_it_is() {
        let folder = std::env::temp_dir().join(format!("hawsepipe-store-{}", uuid::Uuid::new_v4().simple()));
        fs::create_dir(&folder).unwrap();
        let (live, copy) = (folder.join("live.db"), folder.join("copy.db"));
        let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO t SELECT i FROM n";
        let writer = Connection::open(&live).unwrap();
        let begin = "PRAGMA journal_mode = WAL; CREATE TABLE t (i); CREATE INDEX of_t ON t (i);";
        writer.execute_batch(&format!("{begin} {rows}; PRAGMA wal_checkpoint(TRUNCATE); {rows};")).unwrap();
        // As after a loss of power: the log was not written back.
        for ending in ["", "-wal"] {
            fs::copy(format!("{}{ending}", live.display()), format!("{}{ending}", copy.display())).unwrap();
        }
        let mut bytes = fs::read(&copy).unwrap();
        bytes[4096..].fill(0x5a);
        fs::write(&copy, &bytes).unwrap();
        let log = fs::read(folder.join("copy.db-wal")).unwrap();
        assert!(!log.is_empty());
        let found = check(&copy, Duration::from_secs(10)).unwrap();
        assert!(matches!(found, Checked::Damaged(_)), "{found:?}");
        assert_eq!(fs::read(folder.join("copy.db-wal")).unwrap(), log);
        assert_eq!(fs::read(&copy).unwrap(), bytes);
        drop(writer);
        fs::remove_dir_all(&folder).unwrap();
    }
}
