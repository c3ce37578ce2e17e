//! Reads the audit trail of a store, and verifies its chains.

use super::audit_row::StoredAuditRow;
use super::connections::Connections;
use super::error::StoreError;
use super::target::StoreTarget;
use crate::domain::audit::AuditHead;

/// How many rows are read at a time.
const PAGE: u64 = 1000;

/// A chain of the audit trail, after it was read.
#[derive(Debug)]
pub struct VerifiedChain {
    /// The number of its first row: above 1 if older ones were removed.
    pub first: u64,
    /// The head that its rows have.
    pub head: AuditHead,
    /// What does not fit, if anything. The rows after that were not checked.
    pub broken: Option<String>,
}

/// The audit trail of a store.
pub struct AuditReader {
    connections: Connections,
    after: (String, u64),
}

impl AuditReader {
    /// # Errors
    /// If the store cannot be used.
    pub fn new(target: StoreTarget) -> Result<Self, StoreError> {
        Ok(Self { connections: Connections::new(target, u64::MAX)?, after: (String::new(), 0) })
    }

    /// Reads the next rows, in the order of their chains; none at the end.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn next(&mut self) -> Result<Vec<StoredAuditRow>, StoreError> {
        let rows = self.connections.audit_rows((&self.after.0, self.after.1), PAGE).await?;
        if let Some(last) = rows.last() {
            self.after = (last.chain.clone(), last.sequence);
        }
        Ok(rows)
    }

    /// Reads all rows, and checks each chain.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn verify(&mut self) -> Result<Vec<VerifiedChain>, StoreError> {
        let mut chains: Vec<VerifiedChain> = Vec::new();
        loop {
            let rows = self.next().await?;
            if rows.is_empty() {
                return Ok(chains);
            }
            for row in rows {
                if chains.last().is_none_or(|chain| chain.head.chain != row.chain) {
                    chains.push(VerifiedChain::before(&row));
                }
                if let Some(chain) = chains.last_mut() {
                    chain.check(&row);
                }
            }
        }
    }
}

impl VerifiedChain {
    /// A chain of which this is the first row.
    fn before(row: &StoredAuditRow) -> Self {
        let mut head = AuditHead::new(&row.chain);
        if row.sequence > 1 {
            head = AuditHead { sequence: row.sequence - 1, hash: row.previous.clone(), ..head };
        }
        Self { first: row.sequence, head, broken: None }
    }

    fn check(&mut self, row: &StoredAuditRow) {
        if self.broken.is_some() {
            return;
        }
        if row.previous != self.head.hash {
            self.broken = Some(format!("row {} does not follow on row {}", row.sequence, self.head.sequence));
        } else if let Err(why) = self.head.check(row.sequence, row.stored_at, &row.document, &row.hash) {
            self.broken = Some(why);
        }
    }
}
