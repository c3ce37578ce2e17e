//! The most recent invocations.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::invocation::{Invocation, InvocationEnd, InvocationStatus};
use crate::domain::ports::ToClient;

/// The maximum number of invocations that are kept.
const MAX_INVOCATIONS: usize = 1000;
/// The maximum number of bytes that invocations which have ended hold together. The newest one is kept anyway.
const MAX_BYTES: u64 = 32 << 20;

/// One invocation, while it runs and afterwards.
pub struct InvocationEntry {
    state: Mutex<Invocation>,
    /// Cancelled when the invocation has ended.
    ended: CancellationToken,
    /// Cancelled to end the invocation.
    pub(in crate::engine) cancelled: CancellationToken,
    /// Reserves the bytes of the answer, then those of what is kept of it.
    pub(in crate::engine) reservation: Reservation,
}

impl InvocationEntry {
    pub(in crate::engine) fn new(invocation: Invocation, reservation: Reservation) -> Self {
        let (ended, cancelled) = (CancellationToken::new(), CancellationToken::new());
        Self { state: Mutex::new(invocation), ended, cancelled, reservation }
    }

    /// Returns the current state.
    pub fn view(&self) -> Invocation {
        self.state().clone()
    }

    /// Waits until the invocation has ended.
    pub async fn wait(&self) {
        self.ended.cancelled().await;
    }

    /// Cancels the invocation, and waits until it has ended. If it has ended before, it stays as it is.
    pub async fn cancel(&self) {
        self.cancelled.cancel();
        self.wait().await;
    }

    pub(in crate::engine) fn update(&self, change: impl FnOnce(&mut Invocation)) {
        change(&mut self.state());
    }

    /// Ends the invocation at this time, in RFC 3339.
    pub(in crate::engine) fn end(&self, (status, ended): InvocationEnd, now: String) {
        let mut state = self.state();
        (state.status, state.completed_at) = (status, Some(now));
        match ended {
            Ok(result) => state.result = Some(result),
            Err(error) => state.error = Some(error),
        }
        // If there is no room for more than the answer took, the reservation stays at that size.
        let _: Result<(), NoRoom> = self.reservation.resize(state.bytes());
        self.ended.cancel();
    }

    fn has_id(&self, id: &str) -> bool {
        self.state().id == id
    }

    fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    fn state(&self) -> MutexGuard<'_, Invocation> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client of an invocation reads neither progress nor log messages. Questions of the server are refused.
impl ToClient for InvocationEntry {
    fn progress(&self, _: Box<RawValue>) {}

    fn pauses(&self) {
        self.update(|state| {
            state.status = InvocationStatus::Pending;
            state.retry_attempt += 1;
        });
    }

    fn sent_again(&self) {
        self.update(|state| state.status = InvocationStatus::Executing);
    }
}

/// The most recent invocations, at most [`MAX_INVOCATIONS`].
#[derive(Default)]
pub struct InvocationTable(Mutex<VecDeque<Arc<InvocationEntry>>>);

impl InvocationTable {
    /// Returns the current states of all invocations, newest first.
    pub fn views(&self) -> Vec<Invocation> {
        self.known().iter().rev().map(|entry| entry.view()).collect()
    }

    /// Returns the invocation with this id.
    pub fn find(&self, id: &str) -> Option<Arc<InvocationEntry>> {
        self.known().iter().rev().find(|entry| entry.has_id(id)).cloned()
    }

    /// Adds an invocation. If there are too many, removes the oldest one that has ended. Returns false if none has.
    pub(in crate::engine) fn add(&self, entry: &Arc<InvocationEntry>) -> bool {
        let mut known = self.known();
        if known.len() >= MAX_INVOCATIONS {
            let Some(oldest) = known.iter().position(|entry| entry.has_ended()) else { return false };
            known.remove(oldest);
        }
        known.push_back(Arc::clone(entry));
        true
    }

    /// Removes the oldest invocations that have ended until those that remain hold at most [`MAX_BYTES`]. `newest` has ended
    /// just now.
    pub(in crate::engine) fn trim(&self, newest: &Arc<InvocationEntry>) {
        let mut known = self.known();
        loop {
            let ended = known.iter().filter(|entry| entry.has_ended());
            let held: u64 = ended.map(|entry| entry.state().bytes()).sum();
            let oldest = known.iter().position(|entry| entry.has_ended() && !Arc::ptr_eq(entry, newest));
            match oldest.filter(|_| held > MAX_BYTES) {
                Some(oldest) => drop(known.remove(oldest)),
                None => return,
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Arc<InvocationEntry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::budget::{ByteBudget, Category};
    use crate::domain::invocation::{InvocationSource, end_of_result};
    use crate::domain::raw::to_raw;

    fn entry(id: usize) -> Arc<InvocationEntry> {
        let invocation = Invocation {
            id: id.to_string(),
            server_id: None,
            tool_name: "t".into(),
            parameters: RawValue::NULL.to_owned().into(),
            source: InvocationSource::default(),
            document_path: None,
            section_line: None,
            section: None,
            status: InvocationStatus::Pending,
            submitted_at: String::new(),
            started_at: None,
            completed_at: None,
            retry_attempt: 0,
            max_retries: 0,
            result: None,
            error: None,
        };
        Arc::new(InvocationEntry::new(invocation, Arc::new(ByteBudget::default()).reservation(Category::Answer)))
    }

    fn end(table: &InvocationTable, entry: &Arc<InvocationEntry>, bytes: usize) {
        let content = serde_json::json!({"content": [{"type": "text", "text": "a".repeat(bytes)}]});
        entry.end(end_of_result(&to_raw(&content), 1.0), String::new());
        table.trim(entry);
    }

    #[test]
    fn the_oldest_invocation_that_has_ended_makes_room() {
        let table = InvocationTable::default();
        let entries: Vec<_> = (0..=MAX_INVOCATIONS).map(entry).collect();
        assert!(entries[..MAX_INVOCATIONS].iter().all(|entry| table.add(entry)));
        assert!(!table.add(&entries[MAX_INVOCATIONS]));
        end(&table, &entries[1], 1);
        assert!(table.add(&entries[MAX_INVOCATIONS]) && table.find("1").is_none() && table.find("0").is_some());
        assert_eq!((table.views()[0].id.as_str(), table.views().len()), ("1000", MAX_INVOCATIONS));
    }

    #[test]
    fn large_results_push_older_ones_out() {
        let table = InvocationTable::default();
        let entries: Vec<_> = (0..4).map(entry).collect();
        assert!(entries.iter().all(|entry| table.add(entry)));
        end(&table, &entries[1], 20 << 20);
        end(&table, &entries[2], 20 << 20);
        let ids = || table.views().iter().map(|view| view.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(), ["3", "2", "0"]);
        end(&table, &entries[3], 1);
        end(&table, &entries[0], 40 << 20);
        assert_eq!(ids(), ["0"]);
    }
}
