//! A call that waits for its client to send it once more with the input that the server asked for.

use std::sync::Arc;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::pending_call::RunningCall;
use super::run_task::TaskTicket;
use super::table::{Entry, Table};
use crate::domain::budget::Account;
use crate::domain::item::ItemKind;
use crate::domain::mirror::Mirrored;
use crate::domain::rpc::RpcError;

/// How long a call is parked, in milliseconds.
pub const PARKED_MS: u64 = 5 * 60 * 1000;

/// A parked call.
pub struct ParkedCall {
    /// The call itself.
    pub call: Arc<RunningCall>,
    /// The digest of the call that may continue it.
    pub binding: Binding,
    /// The ticket with which the call goes on as a task; `None` if it cannot.
    pub task: Option<Arc<TaskTicket>>,
    /// The arguments of the call that headers repeat.
    pub mirrored: Vec<Mirrored>,
}

impl Entry for ParkedCall {
    fn ended_size(&self) -> Option<u64> {
        None
    }

    fn account(&self) -> Option<&Arc<Account>> {
        Some(&self.call.account)
    }
}

/// A digest of the client, the endpoint, the item and the arguments of a call, so that it can be continued only by the same
/// call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding([u8; 16]);

impl Binding {
    /// Binds to a call of `principal` at the endpoint of `upstream`, or at that of all upstreams.
    pub fn new(
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

    /// The bytes of the digest.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Table<u64, ParkedCall> {
    /// Takes the call that was parked under this handle and is continued by a call with this binding. `check` gets the
    /// arguments that headers repeat.
    ///
    /// # Errors
    /// Those of `check`. The call stays parked then.
    pub fn take(
        &self,
        handle: u64,
        binding: Binding,
        check: impl FnOnce(&[Mirrored]) -> Result<(), RpcError>,
    ) -> Result<Option<Arc<ParkedCall>>, RpcError> {
        let Some(call) = self.find(&handle).filter(|call| call.binding == binding) else { return Ok(None) };
        check(&call.mirrored)?;
        Ok(self.remove(&handle))
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::AbortOnDropHandle;

    use super::*;
    use crate::domain::budget::{ByteBudget, Category};
    use crate::engine::in_flight::InFlight;
    use crate::engine::in_flight::pending_call::PendingCall;

    #[tokio::test]
    async fn a_call_is_taken_once_and_only_by_the_same_call_that_passes_the_check() {
        let parked = InFlight::default().parked;
        let [binding, other] = ["t", "u"].map(|name| Binding::new("a", None, ItemKind::Tool, name, None));
        let pending = PendingCall::new(Arc::new(ByteBudget::default()).reservation(Category::Progress));
        let running = AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
        let call = RunningCall { pending: Arc::new(pending), account: Arc::default(), running };
        let call = ParkedCall { call: Arc::new(call), binding, task: None, mirrored: Vec::new() };
        parked.add(1, &Arc::new(call), u64::MAX).unwrap();
        let refused = parked.take(1, binding, |_| Err(RpcError::new(0, "a header differs")));
        assert_eq!(refused.err().map(|error| error.message.to_string()), Some("a header differs".to_owned()));
        let foreign = parked.take(1, other, |_| panic!("it is another call"));
        assert!(foreign.is_ok_and(|call| call.is_none()));
        let taken_meanwhile = parked.take(1, binding, |_| {
            assert!(parked.take(1, binding, |_| Ok(())).unwrap().is_some(), "the check does not hold others up");
            Ok(())
        });
        assert!(taken_meanwhile.is_ok_and(|call| call.is_none()), "a call is taken once");
    }
}
