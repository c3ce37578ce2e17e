//! Calls that wait for the client to send them once more with the input that their server asked for.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::domain::item::ItemKind;
use crate::engine::exchange::AskedCall;

/// The maximum number of calls of one listener that are parked.
const MAX_PARKED: usize = 256;
/// How long a call is parked.
const PARKED_FOR: Duration = Duration::from_secs(5 * 60);
/// What the gateway's own values of `requestState` begin with. Those of servers pass as they are.
const OWN_STATE: &str = "hawsepipe-";

/// What one POST needs so that its call can be parked.
#[derive(Default)]
pub(super) struct Parking {
    pub(super) asked: Arc<AskedCall>,
    /// The call, set before it is sent. Without it, nothing is parked.
    pub(super) ticket: OnceLock<Ticket>,
}

/// What identifies a call, so that it can be continued only by the same call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// The id of the request, as raw JSON.
    pub(super) id: String,
    pub(super) binding: Binding,
}

/// A keyed hash of the client, the endpoint, the item and the arguments of a call, of this process alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binding(u64);

/// The key of [`Binding`]s.
static BINDING_KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Binding {
    /// Binds to a call of `principal` at the endpoint of `upstream`, or at that of all upstreams.
    pub(super) fn new(
        principal: &str,
        upstream: Option<&str>,
        kind: ItemKind,
        name: &str,
        arguments: Option<&RawValue>,
    ) -> Self {
        let kind = std::mem::discriminant(&kind);
        Self(BINDING_KEY.hash_one((principal, upstream, kind, name, arguments.map(RawValue::get))))
    }
}

impl Parking {
    /// Lets the call of the request `id` be parked.
    pub(super) fn allow(&self, id: &str, binding: Binding) {
        self.ticket.get_or_init(|| Ticket { id: id.to_owned(), binding });
    }
}

/// The parked calls of one listener, by the `requestState` that their clients got.
#[derive(Default)]
pub(super) struct ParkedCalls {
    by_state: Mutex<HashMap<String, ParkedCall>>,
}

/// A parked call. Dropping it cancels the call.
pub(super) struct ParkedCall {
    pub(super) asked: Arc<AskedCall>,
    binding: Binding,
    _running: AbortOnDropHandle<()>,
    expiry: Option<AbortOnDropHandle<()>>,
}

impl ParkedCall {
    pub(super) fn new(asked: Arc<AskedCall>, binding: Binding, running: AbortOnDropHandle<()>) -> Self {
        Self { asked, binding, _running: running, expiry: None }
    }
}

impl ParkedCalls {
    /// Parks a call for a while, at most until `shutdown`. Returns what its client has to send back, or `None` if too many
    /// calls are parked.
    pub(super) fn park(self: &Arc<Self>, shutdown: &CancellationToken, mut call: ParkedCall) -> Option<String> {
        let state = format!("{OWN_STATE}{}", uuid::Uuid::new_v4().simple());
        let (parked, shutdown, key) = (Arc::downgrade(self), shutdown.clone(), state.clone());
        // Locked before the expiry is spawned, which must find the call even if the gateway is about to end.
        let mut calls = self.lock();
        if calls.len() >= MAX_PARKED {
            return None;
        }
        call.expiry = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let _ = tokio::time::timeout(PARKED_FOR, shutdown.cancelled()).await;
            if let Some(parked) = parked.upgrade() {
                drop(parked.lock().remove(&key));
            }
        })));
        calls.insert(state.clone(), call);
        Some(state)
    }

    /// Whether this is the state of a parked call, rather than one of a server.
    pub(super) fn is_own(state: &str) -> bool {
        state.starts_with(OWN_STATE)
    }

    /// Takes the call that was parked under this state and is continued by a call with this binding.
    pub(super) fn take(&self, state: &str, binding: Binding) -> Option<ParkedCall> {
        let mut parked = self.lock();
        parked.get(state).filter(|call| call.binding == binding)?;
        let mut call = parked.remove(state)?;
        call.expiry = None;
        Some(call)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ParkedCall>> {
        self.by_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
