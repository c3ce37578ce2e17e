//! The limits on calls in flight: those of the process and of the client when a call arrives, those of its upstream once it is
//! known.

use super::Calls;
use super::arrived::Arrived;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::routed_call::Routed;

impl Calls {
    /// Takes the places that a call has in the process, and in its session or at its address.
    pub(super) fn admit(&self, arrived: &mut Arrived<'_>) -> Result<(), CallEnd> {
        let request = arrived.request;
        let admitted = self.gate.admit_of(&arrived.snapshot, request.caller, request.depth(), request.is_call());
        arrived.places = admitted.map_err(|error| self.ends.not_admitted(&error))?;
        Ok(())
    }

    /// Takes the places that the call has at its upstream. One that is out of routing is tried once before, but not for a request
    /// about a task.
    pub(super) async fn admit_target(&self, arrived: &mut Arrived<'_>, call: &Routed<'_>) -> Result<(), CallEnd> {
        let plan = call.plan();
        if call.request.open_task().is_none() && !self.catalogues.in_routing(&plan.key) {
            self.lists.try_again(plan).await;
        }
        let limits = &call.snapshot.plan().gateway.limits;
        let admitted = self.gate.admit_upstream(&mut arrived.places, plan);
        let admitted = admitted.and_then(|()| self.gate.admit_run(&mut arrived.places, limits, plan, call.request));
        admitted.map_err(|error| self.ends.not_admitted(&error))
    }

    /// Ends a call that has waited while the gateway was stopped.
    pub(super) fn gate_again(&self) -> Result<(), CallEnd> {
        self.gate.check(&self.in_force.snapshot()).map_err(|error| self.ends.not_admitted(&error))
    }
}
