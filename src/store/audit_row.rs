//! The rows of the audit trail in the database.

/// A row of the audit trail as it is stored.
#[derive(Debug)]
pub struct StoredAuditRow {
    /// The name of the chain.
    pub chain: String,
    /// The number of the row in its chain, from 1.
    pub sequence: u64,
    /// The hash of the row before it.
    pub previous: String,
    /// The hash of the row.
    pub hash: String,
    /// The row, as JSON.
    pub document: String,
    /// When it was stored, in Unix milliseconds.
    pub stored_at: i64,
}
