//! Writes the audit trail to a SQLite file. A call can wait for each row, and the driver of other statements hands each of them
//! to a thread and back several times, which takes twice as long as the write.

use std::path::Path;

use rusqlite::{Connection, Error, OpenFlags, params};

use super::audit_row::{COLUMNS, StoredAuditRow};
use super::connections::{Connections, STATEMENT};
use super::error::StoreError;
use super::statements::{number, places};
use super::target::StoreTarget;

/// An open SQLite file.
pub(super) struct AuditFile(Connection);

impl AuditFile {
    /// Opens a file that exists, with the settings of other connections.
    fn open(path: &Path, max_pages: u64) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(STATEMENT)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "max_page_count", number(max_pages))?;
        Ok(Self(connection))
    }

    /// Adds rows, in one transaction.
    fn write(&mut self, rows: &[StoredAuditRow]) -> Result<(), Error> {
        let sql = format!("INSERT INTO audit ({}) VALUES {}", COLUMNS.join(", "), places(1, COLUMNS.len()));
        let transaction = self.0.transaction()?;
        for row in rows {
            let StoredAuditRow { chain, sequence, stored_at, previous, hash, document } = row;
            let mut insert = transaction.prepare_cached(&sql)?;
            insert.execute(params![chain, number(*sequence), stored_at, previous, hash, document])?;
        }
        transaction.commit()
    }
}

impl Connections {
    /// Adds rows to the audit trail of a SQLite file, in one transaction. A file with which that fails is closed.
    pub(super) async fn write_to_file(
        &self,
        rows: Vec<StoredAuditRow>,
        file: &mut Option<AuditFile>,
    ) -> Result<(), StoreError> {
        let StoreTarget::Sqlite(path) = &self.target else { return Ok(()) };
        let (path, max_pages, open) = (path.clone(), self.max_pages, file.take());
        let _writing = self.writing.lock().await;
        let written = tokio::task::spawn_blocking(move || {
            let mut file = open.map_or_else(|| AuditFile::open(&path, max_pages), Ok)?;
            file.write(&rows).map(|()| file)
        });
        let why = match tokio::time::timeout(STATEMENT, written).await {
            Ok(Ok(Ok(written))) => {
                *file = Some(written);
                return Ok(());
            }
            Ok(Ok(Err(why))) => why.to_string(),
            Ok(Err(why)) => why.to_string(),
            Err(_) => format!("no answer within {} s", STATEMENT.as_secs()),
        };
        Err(StoreError::new(&self.target, &why))
    }
}
