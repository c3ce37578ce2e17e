//! Requests of clients that are no calls: completions and subscriptions. They are admitted, refused and routed as calls are,
//! but chains do not see them, and they are not recorded.

use std::sync::Arc;
use std::time::Duration;

use super::Calls;
use crate::domain::plan::UpstreamPlan;
use crate::engine::access::admission::{AdmissionError, Admitted};
use crate::engine::chains::outcome::{CallEnd, Denial};
use crate::engine::plan::link::LinkedUpstream;
use crate::engine::plan::snapshot::{Found, Lookup, Snapshot};
use crate::engine::request::{Caller, ItemName, Reply};

/// What a request is about, and who sent it.
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
    _admitted: Admitted,
}

impl RoutedBeside {
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

    /// Admits a request, and finds the server that it goes to.
    pub(super) async fn route_beside(&self, request: RequestBeside<'_>) -> Result<RoutedBeside, CallEnd> {
        let RequestBeside { item, caller, counts } = request;
        let snapshot = self.in_force.snapshot();
        let not_admitted = |error: AdmissionError| self.ends.not_admitted(&error);
        let mut admitted = self.gate.admit_of(&snapshot, caller, 0, false).map_err(not_admitted)?;
        let (snapshot, found) = self.find_unguarded(snapshot, item).await.map_err(not_admitted)?;
        let found = match found {
            Lookup::Found(found) if snapshot.may_see(caller, &found.route) => found,
            other => return Err(self.ends.not_found(&snapshot, item, caller, &other)),
        };
        let upstream = &snapshot.linked.upstreams[found.route.upstream];
        let plan = &upstream.target.plan;
        let routed = if counts { self.gate.admit_upstream(&mut admitted, plan) } else { self.gate.check_routing(plan) };
        routed.map_err(not_admitted)?;
        match &upstream.refusing {
            Some(refusal) => Err(self.ends.refused(item.kind, Denial::refused(None, refusal))),
            None => Ok(RoutedBeside { snapshot, found, _admitted: admitted }),
        }
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
