//! The places of the streams that clients hold open at one listener, of all transports and eras.

use std::net::IpAddr;
use std::sync::Arc;

use super::listener_context::ListenerContext;
use crate::domain::limits::Tracker;
use crate::domain::reason::Reason;
use crate::domain::rpc::RpcError;

/// The part of all streams that one client address can have while more than half of them are open.
const PART: u32 = 8;

/// The place that a stream takes up in its listener and of its client's address, until it is dropped.
pub(super) struct StreamPlace {
    pub(super) gate: Arc<ListenerContext>,
    address: Arc<Tracker>,
}

impl StreamPlace {
    /// Takes a place for a client at `peer`.
    ///
    /// # Errors
    /// If as many streams are open as may be. The refusal is counted.
    pub(super) fn take(gate: &Arc<ListenerContext>, peer: IpAddr) -> Result<Self, RpcError> {
        let (address, most) = (gate.streams_by_address.of(peer), gate.max_streams());
        take(&gate.streams, &address, most).ok_or_else(|| {
            let message = format!(
                "as many streams are open as may be: {most} in all (limits.maxStreams), of which one address has a part"
            );
            gate.engine.gate.busy(Reason::Streams, message)
        })?;
        Ok(Self { gate: Arc::clone(gate), address })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.address.leave();
        self.gate.streams.leave();
    }
}

/// Counts one more of at most `most` streams, and one of its address.
fn take(all: &Tracker, of_address: &Tracker, most: u32) -> Option<()> {
    all.enter(Some(most), None).ok()?;
    let crowded = all.in_flight() > most.div_ceil(2);
    let entered = of_address.enter(crowded.then_some((most / PART).max(1)), None);
    entered.inspect_err(|_| all.leave()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all_streams() {
        let (all, first) = (Tracker::default(), Tracker::default());
        assert_eq!((0..20).filter(|_| take(&all, &first, 16).is_some()).count(), 8, "half of them");
        let others: Vec<_> = (0..20).map(|_| Tracker::default()).collect();
        let opened: usize = others.iter().map(|other| (0..4).filter(|_| take(&all, other, 16).is_some()).count()).sum();
        assert_eq!(opened, 8, "the other half, two for each");
    }

    #[test]
    fn a_small_number_of_streams_can_be_opened() {
        for most in 1..4 {
            let all = Tracker::default();
            let opened = (0..5).filter(|_| take(&all, &Tracker::default(), most).is_some()).count();
            assert_eq!(opened, most as usize);
        }
    }
}
