//! One invocation.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::table::Entry;
use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::invocation::{Invocation, InvocationEnd, InvocationStatus};
use crate::domain::ports::ToClient;

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

impl Entry for InvocationEntry {
    fn ended_size(&self) -> Option<u64> {
        self.ended.is_cancelled().then(|| self.state().bytes())
    }
}
