//! The audit trail: a row before a call is sent to a server and one when it has ended, linked by a chain of hashes.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::digest::{hex, sha256_hex};
use super::identity::User;
use super::method::Method;
use super::plugin::Phase;
use super::record::{CallOutcome, EntryTrace};

/// Whether the audit trail is written, and what happens to a call whose row cannot be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditMode {
    /// No rows are written.
    Off,
    /// Rows are written in the background. One that cannot be stored is counted, and the call goes on.
    #[default]
    BestEffort,
    /// A call waits until its row is stored. If that fails, the call is not sent, or its answer is withheld.
    Required,
}

impl AuditMode {
    /// Whether this is the mode of a gateway that sets none.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One row of the audit trail.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum AuditRow {
    /// The call is about to be sent to its server.
    Begin(AuditBegin),
    /// The call has ended.
    End(AuditEnd),
    /// Somebody has changed something apart from calls.
    Admin(AuditAdmin),
}

/// Who has changed what apart from calls.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditAdmin {
    /// When the row was made, in Unix milliseconds.
    pub at: u64,
    /// What was to be done: `stop`, `resume`, `cancel`, `answer`, `enable` or `invoke`.
    pub action: &'static str,
    /// The subject of the client; the revision of the plan for a change by it.
    pub by: String,
    /// The method that has proved the client's identity; `plan` for a change by the plan.
    pub method: &'static str,
    /// The issuer of the client's token; empty for other methods.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub issuer: String,
    /// The way by which the change came: `admin API` or the field of the plan.
    pub via: &'static str,
    /// The address of the client; `None` for a change by the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What the action is about: `gateway NAMESPACE/NAME`, `session ID`, `call ID`, `run ID`, `invocation ID` or
    /// `upstream NAMESPACE/NAME`.
    pub target: String,
    /// `done`, the reason of an error, or `unknown` if the client has left before the end.
    pub outcome: &'static str,
}

/// Who calls which item.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditCall {
    /// The id of the call whose plugin made this one; `None` if a client made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// The principal of the caller.
    pub principal: String,
    /// What tells the caller apart from others with the same principal.
    pub user: User,
    /// The method of the request.
    pub method: Method,
    /// Name of the upstream; empty if the call names none.
    pub upstream: String,
    /// The server's own name of the item; the requested name if there is no such item.
    pub tool: String,
}

/// The beginning of a call.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditBegin {
    /// When the row was made, in Unix milliseconds.
    pub at: u64,
    /// The id of the call.
    pub request_id: String,
    /// Who calls which item.
    #[serde(flatten)]
    pub call: AuditCall,
}

/// How a call has ended. Transport, JSON-RPC and tool have an outcome each.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEnd {
    /// When the row was made, in Unix milliseconds.
    pub at: u64,
    /// The id of the call.
    pub request_id: String,
    /// Who calls which item. The row of the beginning says it too, but not every call has one, and it can be lost.
    #[serde(flatten)]
    pub call: AuditCall,
    /// The outcome of the call, as in its record.
    pub outcome: CallOutcome,
    /// Why the call was refused or failed, if that has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule that denied the call; `None` if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Whether the server answered.
    pub transport: TransportOutcome,
    /// Whether the client got a result or an error of JSON-RPC; `None` if it got neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rpc: Option<RpcOutcome>,
    /// Whether the result has `isError`; `None` if the client got no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// What ran on the call.
    pub entries: Vec<AuditEntry>,
}

/// Whether the server of a call answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TransportOutcome {
    /// The call was not sent.
    NotSent,
    /// The call was sent, and has no answer.
    Failed,
    /// The server answered.
    Answered,
}

/// The form of an answer by JSON-RPC 2.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RpcOutcome {
    /// It has a `result`.
    Result,
    /// It has an `error`.
    Error,
}

/// The outcome of one entry of a chain, without what a plugin said.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// The chain, as `namespace/name`.
    pub chain: String,
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// First 12 hex characters of the SHA-256 of the plugin's code; empty if there was no code to run.
    pub revision: String,
    /// The phase of the chain.
    pub phase: Phase,
    /// The outcome, as in a trace.
    pub outcome: String,
    /// Whether the entry changed the content.
    pub changed: bool,
}

impl From<&EntryTrace> for AuditEntry {
    fn from(trace: &EntryTrace) -> Self {
        Self {
            chain: trace.chain.clone(),
            plugin: trace.plugin.clone(),
            revision: trace.revision.clone(),
            phase: trace.phase,
            outcome: trace.outcome.to_string(),
            changed: trace.changed,
        }
    }
}

/// The end of a chain of rows. Each row has the hash of the one before it, so that a changed, removed or added row breaks
/// the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditHead {
    /// The name of the chain: that of a gateway process.
    pub chain: String,
    /// The number of the last row, from 1; 0 if there is none.
    pub sequence: u64,
    /// The SHA-256 of the last row, in hex; of the chain's name if there is none.
    pub hash: String,
}

impl AuditHead {
    /// The head of a chain without rows.
    pub fn new(chain: &str) -> Self {
        Self { chain: chain.to_owned(), sequence: 0, hash: sha256_hex(chain.as_bytes()) }
    }

    /// Returns the head after one more row, whose text is `row` and which was stored at this time.
    #[must_use]
    pub fn with(&self, stored_at: i64, row: &str) -> Self {
        let sequence = self.sequence + 1;
        let mut hasher = Sha256::new();
        hasher.update(self.hash.as_bytes());
        hasher.update(sha256_hex(self.chain.as_bytes()));
        hasher.update(sequence.to_be_bytes());
        hasher.update(stored_at.to_be_bytes());
        hasher.update(row.as_bytes());
        Self { chain: self.chain.clone(), sequence, hash: hex(&hasher.finalize()) }
    }

    /// Checks the next row of the chain as it was stored, and moves on to it.
    ///
    /// # Errors
    /// What does not fit: the number or the hash.
    pub fn check(&mut self, sequence: u64, stored_at: i64, row: &str, hash: &str) -> Result<(), String> {
        if sequence != self.sequence + 1 {
            return Err(format!("after row {} comes row {sequence}: rows are missing", self.sequence));
        }
        let next = self.with(stored_at, row);
        if next.hash != hash {
            return Err(format!("row {sequence} or its hash was changed: expected {}, found {hash}", next.hash));
        }
        *self = next;
        Ok(())
    }
}

/// What was written of an audit trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditTotals {
    /// The number of the last row of this process's chain.
    pub head: u64,
    /// How many rows this process has stored.
    pub stored: u64,
}

/// Why a row of the audit trail is not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The gateway has no store.
    #[error("the gateway has no store (`history.store`, or --store)")]
    NoStore,
    /// The store does not take the row, for this reason, which names no secret.
    #[error("{0}")]
    Store(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(rows: &[&str]) -> Vec<(u64, String, String)> {
        let mut head = AuditHead::new("pod");
        let mut stored = Vec::new();
        for row in rows {
            head = head.with(7, row);
            stored.push((head.sequence, (*row).to_owned(), head.hash.clone()));
        }
        stored
    }

    fn verify(rows: &[(u64, String, String)]) -> Result<(), String> {
        let mut head = AuditHead::new("pod");
        rows.iter().try_for_each(|(sequence, row, hash)| head.check(*sequence, 7, row, hash))
    }

    #[test]
    fn a_chain_verifies_and_each_change_of_a_byte_breaks_it() {
        let rows = chain(&["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"]);
        assert_eq!(verify(&rows), Ok(()));
        for row in 0..rows.len() {
            for at in 0..rows[row].1.len() {
                let mut changed = rows.clone();
                let mut bytes = changed[row].1.clone().into_bytes();
                bytes[at] ^= 1;
                changed[row].1 = String::from_utf8(bytes).unwrap();
                assert!(verify(&changed).is_err(), "row {row}, byte {at}");
            }
            let mut removed = rows.clone();
            removed.remove(row);
            // That the last row is missing shows only beside a head that was logged.
            assert_eq!(verify(&removed).is_err(), row + 1 < rows.len(), "row {row}");
        }
    }

    #[test]
    fn rows_of_another_chain_do_not_fit() {
        let mut other = AuditHead::new("other");
        let (sequence, row, hash) = &chain(&["{}"])[0];
        let mut later = AuditHead::new("pod");
        assert!(later.check(*sequence, 8, row, hash).is_err(), "the time is a part of the row");
        let mut renamed = AuditHead { hash: AuditHead::new("pod").hash, ..AuditHead::new("pid") };
        assert!(renamed.check(*sequence, 7, row, hash).is_err(), "so is the name of the chain");
        assert!(other.check(*sequence, 7, row, hash).unwrap_err().contains("row 1 or its hash was changed"));
    }
}
