//! The state of one POST whose call can go on without it.

use std::sync::{Arc, OnceLock};

use tokio::sync::SetOnce;
use tokio_util::task::AbortOnDropHandle;

use super::exchange::RunningMessage;
use crate::domain::budget::{Account, ByteBudget, Category};
use crate::domain::mirror::Mirrored;
use crate::engine::in_flight::parked_call::Binding;
use crate::engine::in_flight::pending_call::{PendingCall, RunningCall};
use crate::engine::in_flight::run_task::TaskTicket;

/// The state of one POST whose call can be parked, or go on as a task.
pub(super) struct Parking {
    pub(super) pending: Arc<PendingCall>,
    /// The account of the client's address.
    pub(super) account: Arc<Account>,
    /// The call, set before it is sent. Without it, nothing is parked.
    pub(super) ticket: OnceLock<Ticket>,
    /// The arguments of the call that headers repeat, set before it is sent.
    pub(super) mirrored: OnceLock<Vec<Mirrored>>,
    /// The ticket with which the call can go on as a task, set before it is sent. Without it, it does not.
    pub(super) task: SetOnce<Arc<TaskTicket>>,
}

/// What identifies a call.
pub(super) struct Ticket {
    /// The id of the request, as raw JSON.
    pub(super) id: String,
    pub(super) binding: Binding,
}

impl Parking {
    /// Creates the state for one POST of a client whose bytes are charged to `account`.
    pub(super) fn new(budget: &Arc<ByteBudget>, account: &Arc<Account>) -> Self {
        let pending = PendingCall::new(budget.reservation_for(Category::Progress, account));
        let (ticket, mirrored, task) = (OnceLock::new(), OnceLock::new(), SetOnce::new());
        Self { pending: Arc::new(pending), account: Arc::clone(account), ticket, mirrored, task }
    }

    /// Lets the call of the request `id` be parked.
    pub(super) fn allow(&self, id: &str, binding: Binding) {
        self.ticket.get_or_init(|| Ticket { id: id.to_owned(), binding });
    }

    /// Lets a message go on beside the request that it came with.
    pub(super) fn beside(&self, message: RunningMessage) -> Arc<RunningCall> {
        let closer = PendingCallCloser(Arc::clone(&self.pending));
        let running = tokio::spawn(async move { closer.0.finish(message.await.into_answer()) });
        let (pending, account) = (Arc::clone(&self.pending), Arc::clone(&self.account));
        Arc::new(RunningCall { pending, account, running: AbortOnDropHandle::new(running) })
    }
}

/// Ends the waits for a call whose task has ended, even by a panic.
struct PendingCallCloser(Arc<PendingCall>);

impl Drop for PendingCallCloser {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
