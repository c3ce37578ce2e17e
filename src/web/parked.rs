//! Calls that wait for the client to send them once more with the input that their server asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::task_ticket::TaskTicket;
use crate::domain::budget::{Account, ByteBudget, Category};
use crate::domain::item::ItemKind;
use crate::domain::mirror::Mirrored;
use crate::domain::rpc::RpcError;
use crate::engine::exchange::AskedCall;
use crate::engine::exchange::handle::new_handle;

/// The maximum number of calls of one listener that are parked.
const MAX_PARKED: usize = 256;
/// Once half of the places are taken, the maximum number of parked calls of one client address. Behind an
/// ingress all clients can share one address.
const MAX_PARKED_EACH: usize = MAX_PARKED / 4;
/// How long a call is parked.
pub(super) const PARKED_FOR: Duration = Duration::from_secs(5 * 60);

/// What one POST needs so that its call can be parked.
pub(super) struct Parking {
    pub(super) asked: Arc<AskedCall>,
    /// The account of the client's address.
    pub(super) account: Arc<Account>,
    /// The call, set before it is sent. Without it, nothing is parked.
    pub(super) ticket: OnceLock<Ticket>,
    /// The arguments of the call that headers repeat, set before it is sent.
    pub(super) mirrored: OnceLock<Vec<Mirrored>>,
    /// What the call needs to go on as a task, set before it is sent. Without it, it does not.
    pub(super) task: SetOnce<Arc<TaskTicket>>,
}

/// What identifies a call, so that it can be continued only by the same call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// The id of the request, as raw JSON.
    pub(super) id: String,
    pub(super) binding: Binding,
}

/// A digest of the client, the endpoint, the item and the arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binding([u8; 16]);

impl Binding {
    /// Binds to a call of `principal` at the endpoint of `upstream`, or at that of all upstreams.
    pub(super) fn new(
        principal: &str,
        upstream: Option<&str>,
        kind: ItemKind,
        name: &str,
        arguments: Option<&RawValue>,
    ) -> Self {
        let (mut digest, kind) = (Sha256::new(), kind.to_string());
        for part in [Some(principal), upstream, Some(kind.as_str()), Some(name), arguments.map(RawValue::get)] {
            // Lengths keep the parts apart. No part is longer than a `u64` can say, so its largest value stands for none.
            digest.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
            digest.update(part.unwrap_or_default());
        }
        let digest: [u8; 32] = digest.finalize().into();
        Self(digest.first_chunk().copied().unwrap_or_default())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Parking {
    /// What a call of a client needs whose bytes are charged to `account`.
    pub(super) fn new(budget: &Arc<ByteBudget>, account: &Arc<Account>) -> Self {
        let asked = AskedCall::new(budget.reservation_for(Category::Progress, account));
        let (ticket, mirrored, task) = (OnceLock::new(), OnceLock::new(), SetOnce::new());
        Self { asked: Arc::new(asked), account: Arc::clone(account), ticket, mirrored, task }
    }

    /// Returns the call, which goes on in `running`.
    pub(super) fn call(&self, running: AbortOnDropHandle<()>) -> RunningCall {
        RunningCall { asked: Arc::clone(&self.asked), account: Arc::clone(&self.account), running }
    }

    /// Lets the call of the request `id` be parked.
    pub(super) fn allow(&self, id: &str, binding: Binding) {
        self.ticket.get_or_init(|| Ticket { id: id.to_owned(), binding });
    }
}

/// The parked calls of one listener, by the handle in the `requestState` that their clients got.
#[derive(Default)]
pub(super) struct ParkedCalls {
    by_handle: Mutex<HashMap<u64, ParkedCall>>,
}

/// A call that goes on beside the request that it came with. Dropping it cancels the call.
pub(super) struct RunningCall {
    pub(super) asked: Arc<AskedCall>,
    /// The account of the client's address, which identifies it.
    pub(super) account: Arc<Account>,
    pub(super) running: AbortOnDropHandle<()>,
}

/// A parked call. Dropping it cancels the call.
pub(super) struct ParkedCall {
    pub(super) call: RunningCall,
    pub(super) binding: Binding,
    /// What the call needs to go on as a task, if it can.
    pub(super) task: Option<Arc<TaskTicket>>,
    /// The arguments of the call that headers repeat.
    mirrored: Arc<[Mirrored]>,
    expiry: Option<AbortOnDropHandle<()>>,
}

impl ParkedCall {
    pub(super) fn new(parking: &Parking, binding: Binding, running: AbortOnDropHandle<()>) -> Self {
        let mirrored = parking.mirrored.get().map(|marked| Arc::from(&**marked)).unwrap_or_default();
        let (call, task) = (parking.call(running), parking.task.get().cloned());
        Self { call, binding, task, mirrored, expiry: None }
    }
}

/// Whether one more call of the client with this account may be kept beside those of `others`.
pub(super) fn has_room<'a>(others: impl Iterator<Item = &'a Arc<Account>> + Clone, account: &Arc<Account>) -> bool {
    let count = others.clone().count();
    let of_client = || others.filter(|other| Arc::ptr_eq(other, account)).count();
    count < MAX_PARKED && (count < MAX_PARKED / 2 || of_client() < MAX_PARKED_EACH)
}

impl ParkedCalls {
    /// Parks a call for a while, at most until `shutdown`. Returns its handle, or `None` if too many calls are parked, or too
    /// many of its client.
    pub(super) fn park(self: &Arc<Self>, shutdown: &CancellationToken, mut call: ParkedCall) -> Option<u64> {
        let handle = new_handle();
        let (parked, shutdown) = (Arc::downgrade(self), shutdown.clone());
        // Locked before the expiry is spawned, which must find the call even if the gateway is about to end.
        let mut calls = self.lock();
        if !has_room(calls.values().map(|other| &other.call.account), &call.call.account) {
            return None;
        }
        call.expiry = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let _ = tokio::time::timeout(PARKED_FOR, shutdown.cancelled()).await;
            if let Some(parked) = parked.upgrade() {
                drop(parked.lock().remove(&handle));
            }
        })));
        calls.insert(handle, call);
        Some(handle)
    }

    /// Takes the call that was parked under this handle and is continued by a call with this binding. `check` gets the
    /// arguments that headers repeat.
    ///
    /// # Errors
    /// Those of `check`. The call stays parked then.
    pub(super) fn take(
        &self,
        handle: u64,
        binding: Binding,
        check: impl FnOnce(&[Mirrored]) -> Result<(), RpcError>,
    ) -> Result<Option<ParkedCall>, RpcError> {
        let is_it = |call: &&ParkedCall| call.binding == binding;
        let Some(mirrored) = self.lock().get(&handle).filter(is_it).map(|call| Arc::clone(&call.mirrored)) else {
            return Ok(None);
        };
        // The arguments may be large: others do not wait for that.
        check(&mirrored)?;
        Ok(self.lock().remove(&handle).map(|call| ParkedCall { expiry: None, ..call }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, ParkedCall>> {
        self.by_handle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_address_leaves_places_to_others() {
        let (parked, budget, shutdown) = (Arc::<ParkedCalls>::default(), Arc::default(), CancellationToken::new());
        let [one, other] = [(); 2].map(|()| Arc::<Account>::default());
        let binding = Binding::new("a", None, ItemKind::Tool, "t", None);
        let park = |account: &Arc<Account>| {
            let running = AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
            parked.park(&shutdown, ParkedCall::new(&Parking::new(&budget, account), binding, running))
        };
        let states: Vec<_> = (0..MAX_PARKED / 2).map_while(|_| park(&one)).collect();
        assert_eq!(states.len(), MAX_PARKED / 2, "half of the places are for anybody");
        assert_eq!(park(&one), None);
        let others = (0..MAX_PARKED).map_while(|_| park(&other)).count();
        assert_eq!(others, MAX_PARKED_EACH);
        states
            .iter()
            .take(MAX_PARKED / 4 + 1)
            .for_each(|state| drop(parked.take(*state, binding, |_| Ok(())).unwrap().unwrap()));
        assert!(park(&one).is_some(), "fewer than half of the places are taken");
    }

    #[tokio::test]
    async fn headers_are_checked_while_other_calls_are_parked_and_taken() {
        let (parked, budget, shutdown) = (Arc::<ParkedCalls>::default(), Arc::default(), CancellationToken::new());
        let [binding, other] = ["t", "u"].map(|name| Binding::new("a", None, ItemKind::Tool, name, None));
        let running = AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
        let parking = Parking::new(&budget, &Arc::default());
        let handle = parked.park(&shutdown, ParkedCall::new(&parking, binding, running)).unwrap();
        let is_free = || parked.by_handle.try_lock().is_ok();
        let refused = parked.take(handle, binding, |_| {
            assert!(is_free(), "others wait for the check");
            Err(RpcError::new(0, "a header differs"))
        });
        assert_eq!(refused.err().map(|error| error.message.to_string()), Some("a header differs".to_owned()));
        let foreign = parked.take(handle, other, |_| panic!("it is another call"));
        assert!(foreign.is_ok_and(|call| call.is_none()));
        let taken_meanwhile = parked.take(handle, binding, |_| {
            assert!(parked.take(handle, binding, |_| Ok(())).unwrap().is_some());
            Ok(())
        });
        assert!(taken_meanwhile.is_ok_and(|call| call.is_none()), "a call is taken once");
    }
}
