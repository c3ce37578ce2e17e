//! Requests of clients that are no calls: completions and subscriptions. They are admitted, refused and routed as calls are,
//! but chains do not see them, and they are not recorded.

use std::sync::Arc;
use std::time::Duration;

use super::Calls;
use super::arrived::FoundItem;
use crate::domain::item::ItemKind;
use crate::domain::plan::UpstreamPlan;
use crate::engine::access::admission::Admitted;
use crate::engine::chains::ends::CallEnds;
use crate::engine::chains::outcome::{CallEnd, Denial};
use crate::engine::plan::link::LinkedUpstream;
use crate::engine::plan::snapshot::{Found, Lookup, Snapshot};
use crate::engine::request::{Caller, ItemName, Reply};

/// The item and the client of a request.
#[derive(Clone, Copy)]
pub(super) struct RequestBeside<'a> {
    pub(super) item: ItemName<'a>,
    pub(super) caller: &'a Caller,
    /// Whether it counts against the limit of calls of its upstream.
    pub(super) counts: bool,
}

/// Where a request goes. It counts against the limits of calls until this value is dropped.
pub(super) struct RoutedBeside {
    snapshot: Arc<Snapshot>,
    pub(super) found: Found,
    _places: Admitted,
}

impl RoutedBeside {
    pub(super) fn new(FoundItem { snapshot, found }: FoundItem, places: Admitted) -> Self {
        Self { snapshot, found, _places: places }
    }

    pub(super) fn upstream(&self) -> &LinkedUpstream {
        &self.snapshot.linked.upstreams[self.found.route.upstream]
    }

    pub(super) fn plan(&self) -> &UpstreamPlan {
        &self.upstream().target.plan
    }

    /// How long the server has to answer.
    pub(super) fn timeout(&self) -> Duration {
        self.snapshot.call_timeout(self.plan())
    }
}

impl Calls {
    /// Drives a request to its end, or until calls are ended. The error is the reply for the client.
    pub(super) async fn until_calls_end<T>(
        &self,
        running: impl Future<Output = Result<T, CallEnd>>,
    ) -> Result<T, Reply> {
        let cut = self.gate.cut.load_full();
        let end = tokio::select! {
            biased;
            end = running => end,
            () = cut.cancelled() => Err(CallEnd::stopped()),
            () = self.gate.ended.cancelled() => Err(CallEnd::drained()),
        };
        end.map_err(|end| end.reply)
    }

    /// Takes the places that a request has in the process, and in its session or at its address. It counts as no call.
    pub(super) fn admit_beside(&self, request: &RequestBeside<'_>, snapshot: &Snapshot) -> Result<Admitted, CallEnd> {
        let admitted = self.gate.admit_of(snapshot, request.caller, 0, false);
        admitted.map_err(|error| self.ends.not_admitted(&error))
    }

    /// Finds the item of a request, after the lists that it waits for, unless the rules hide it.
    pub(super) async fn route_beside(
        &self,
        request: &RequestBeside<'_>,
        snapshot: Arc<Snapshot>,
    ) -> Result<FoundItem, CallEnd> {
        let (item, caller) = (request.item, request.caller);
        let found = self.find_unguarded(snapshot, item).await;
        let (snapshot, found) = found.map_err(|error| self.ends.not_admitted(&error))?;
        match found {
            Lookup::Found(found) if snapshot.may_see(caller, &found.route) => Ok(FoundItem { snapshot, found }),
            other => Err(self.ends.not_found(&snapshot, item, caller, &other)),
        }
    }

    /// Takes the place that a request has at its upstream, if it counts there. The upstream must be in routing.
    pub(super) fn admit_beside_target(
        &self,
        request: &RequestBeside<'_>,
        places: &mut Admitted,
        plan: &UpstreamPlan,
    ) -> Result<(), CallEnd> {
        let admitted =
            if request.counts { self.gate.admit_upstream(places, plan) } else { self.gate.check_routing(plan) };
        admitted.map_err(|error| self.ends.not_admitted(&error))
    }

    /// Checks a request that has waited for its server against the newest plan. Returns whether something checks what passes.
    pub(super) fn recheck_beside(&self, request: RequestBeside<'_>, routed: &RoutedBeside) -> Result<bool, CallEnd> {
        let newest = self.in_force.snapshot();
        if Arc::ptr_eq(&newest.linked, &routed.snapshot.linked) {
            return Ok(routed.found.item.is_checked());
        }
        let RequestBeside { item, caller, .. } = request;
        match item.find(&newest) {
            Lookup::Found(found) if newest.may_see(caller, &found.route) => Ok(found.item.is_checked()),
            _ => Err(self.ends.not_found(&newest, item, caller, &Lookup::Unknown)),
        }
    }
}

/// Refuses a request whose upstream refuses calls.
pub(super) fn upstream_refusal(ends: &CallEnds, kind: ItemKind, upstream: &LinkedUpstream) -> Result<(), CallEnd> {
    let refusal = upstream.refusing.as_ref();
    refusal.map_or(Ok(()), |refusal| Err(ends.refused(kind, Denial::refused(None, refusal))))
}
