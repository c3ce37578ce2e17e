//! The exclusive right to one seat at a worker, for one call. However the call ends, the seat goes back to its pool or
//! the worker is ended. If the call was given up, the worker is told about it first, if its protocol allows that.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::metrics::KillCause;
use super::protocol::PluginCall;
use super::seat::Seat;
use super::worker::{Disposition, Place};
use crate::domain::plugin::{Failure, Output};
use crate::domain::reason::Reason;

/// Takes back a seat when its call has ended.
pub trait SeatOwner: Debug + Send + Sync {
    /// Takes a seat back or ends its worker, as `disposition` demands. `went_well` tells whether the call has proved
    /// that the worker can serve calls.
    fn give_back(self: Arc<Self>, seat: Seat, disposition: Disposition, went_well: bool);

    /// Gives the place of a call that waits for the gateway to another call.
    fn leave_place(self: Arc<Self>, place: &Place);

    /// Takes a place for a call that goes on. If none is free, its worker has one more for a while.
    fn take_place(self: Arc<Self>, place: &Place);

    /// Tells the worker that its call was given up, then takes the seat back.
    fn wind_down(self: Arc<Self>, seat: Seat, cause: KillCause, deadline: Instant);
}

/// The exclusive right to use a seat.
#[derive(Debug)]
pub struct SeatLease {
    seat: Option<Seat>,
    owner: Arc<dyn SeatOwner>,
    disposition: Disposition,
    /// The deadline of the call; `None` until the call begins.
    deadline: Option<Instant>,
    went_well: bool,
}

impl SeatLease {
    /// Creates a lease. The owner must already count `seat` as leased.
    pub fn new(seat: Seat, owner: Arc<dyn SeatOwner>) -> Self {
        Self { seat: Some(seat), owner, disposition: Disposition::Keep, deadline: None, went_well: false }
    }

    /// Returns the seat of a lease that no call has used.
    pub fn into_seat(mut self) -> Option<Seat> {
        self.seat.take()
    }

    /// The worker's process id.
    pub fn pid(&self) -> Option<u32> {
        self.seat.as_ref().map(|seat| seat.worker.process.pid())
    }

    /// Returns the place of the call, if the call leaves it while it waits.
    pub fn place(&self) -> Option<LeasedPlace> {
        let seat = self.seat.as_ref().filter(|seat| seat.worker.absences.wires.get().is_some())?;
        Some(LeasedPlace { owner: Arc::clone(&self.owner), place: Arc::clone(&seat.place) })
    }

    /// Whether the worker cannot serve the call any more, for example because it exited while the call waited for a
    /// permit.
    pub fn is_useless(&self) -> bool {
        self.seat.as_ref().is_none_or(Seat::is_useless)
    }

    /// Runs the call, which fails at its deadline. In that case, the worker is killed or, if it has several seats, told
    /// that the call is given up. `timeout` is only used in the message of the failure.
    ///
    /// # Errors
    /// Any [`Reason`] for which one execution can fail.
    pub async fn run(mut self, call: &PluginCall<'_>, timeout: Duration) -> Result<Output, Failure> {
        let Some(seat) = &mut self.seat else {
            return Err(Failure::new(Reason::Crashed, "ended before it was asked"));
        };
        (self.disposition, self.deadline) = (Disposition::Kill(KillCause::Cancelled), Some(call.deadline));
        let Ok(exchange) = timeout_at(call.deadline, seat.execute(call)).await else {
            self.disposition = Disposition::Kill(KillCause::Timeout);
            return Err(Failure::new(Reason::Timeout, format!("timed out after {}ms", timeout.as_millis())));
        };
        self.disposition = seat.disposition_after(&exchange);
        self.went_well = exchange.reusable || exchange.output.is_ok();
        exchange.output
    }
}

/// The place of a leased seat.
#[derive(Debug)]
pub struct LeasedPlace {
    owner: Arc<dyn SeatOwner>,
    place: Arc<Place>,
}

impl LeasedPlace {
    /// Gives the place to another call. Does nothing if the call has left it.
    pub fn leave(&self) {
        Arc::clone(&self.owner).leave_place(&self.place);
    }

    /// Takes a place again. Does nothing if the call has one.
    pub fn take(&self) {
        Arc::clone(&self.owner).take_place(&self.place);
    }
}

impl Drop for SeatLease {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        match self.disposition {
            Disposition::Kill(cause) if seat.transport.can_cancel(cause) => {
                Arc::clone(&self.owner).wind_down(seat, cause, self.deadline.unwrap_or_else(Instant::now));
            }
            disposition => Arc::clone(&self.owner).give_back(seat, disposition, self.went_well),
        }
    }
}
