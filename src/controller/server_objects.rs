//! Brings the objects of one upstream's server in line with the desired ones, in an order in which no pod runs without
//! its policy, and remembers what failed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::de::DeserializeOwned;

use super::apply::ApplyError;
use super::doubling::Doubling;
use super::managed::{DesiredServer, run};
use super::managed_state::Address;
use super::manifest::Manifest;
use super::owner::Owner;
use super::reconcile::{OwnedObjects, Round};
use super::watches::Watches;
use crate::domain::reason::Reason;

/// The pauses after transient failures.
const RETRIES: Doubling = Doubling::new(Duration::from_secs(1), Duration::from_secs(60));
/// When to look again at a fault that nothing announces the end of, such as a name that somebody else has.
const LOOK_AGAIN: Duration = Duration::from_secs(6);

/// The state of a server's objects that is remembered between two rounds.
#[derive(Default)]
pub(super) struct ServerObjects {
    owned: OwnedObjects,
    /// Why objects are not as desired, by resource. A failure of one object does not keep the others from being written.
    faults: BTreeMap<Cow<'static, str>, Fault>,
}

/// Why an object is not as desired.
struct Fault {
    reason: Reason,
    message: String,
    /// Whether the last round tried to bring the object in line, or waited only for `retry`. If it did not, something else
    /// is in the way.
    is_current: bool,
    /// After a transient failure: the pauses, and when to try again unless the spec changes.
    retry: Option<(Doubling, Instant)>,
}

impl Fault {
    /// Describes a failure at `now`. `before` is what was wrong with the object before.
    fn new(error: &ApplyError, before: Option<&Self>, now: Instant) -> Self {
        let mut pauses = before.and_then(|before| before.retry).map_or(RETRIES, |(pauses, _)| pauses);
        let retry = error.again(now, pauses.pause()).map(|when| (pauses, when));
        Self { reason: error.reason(), message: error.to_string(), is_current: true, retry }
    }

    /// Returns how much the fault matters: the lower, the more.
    fn rank(&self) -> (bool, u8) {
        let of_reason = match self.reason {
            Reason::NameTaken => 0,
            Reason::Forbidden => 1,
            Reason::InvalidConfig => 2,
            _ => 3,
        };
        (!self.is_current, of_reason)
    }

    /// Returns when to try again, if that is later than `now`.
    fn waits_until(&self, now: Instant) -> Option<Instant> {
        self.retry.map(|(_, when)| when).filter(|when| now < *when)
    }
}

impl ServerObjects {
    /// Forgets what failed, because the spec has changed.
    pub(super) fn forget(&mut self) {
        self.faults.clear();
        self.owned.forget_pauses();
    }

    /// Returns what is wrong: first what stands in the way now, and of that what only a person can mend.
    pub(super) fn fault(&self, now: Instant) -> Option<(Reason, String)> {
        let worst = self.faults.values().min_by_key(|fault| fault.rank());
        let contested = || self.owned.contests.check(now).err().map(|error| (error.reason(), error.to_string()));
        worst.map(|fault| (fault.reason, fault.message.clone())).or_else(contested)
    }

    /// Returns when to look again, even if nothing changes; `None` if nothing is wrong, and nothing waits to be written.
    pub(super) fn look_again(&self, now: Instant) -> Option<Instant> {
        let current = self.faults.values().filter(|fault| fault.is_current);
        let retries = current.map(|fault| fault.waits_until(now).unwrap_or(now + LOOK_AGAIN));
        let contested = self.owned.contests.check(now).err().map(|_| now + LOOK_AGAIN);
        retries.chain(self.owned.contests.again(now)).chain(contested).min()
    }

    /// Returns who has the Service of the server.
    pub(super) fn address(&self, watches: &Watches, owner: &Owner) -> Address {
        match self.owned.taken("services") {
            _ if watches.has_own("services", owner) => Address::Ours,
            Some(taken) => Address::Taken(taken.to_string()),
            None => Address::Unseen,
        }
    }

    /// Writes what is not as desired, and deletes what should not exist. With `keeps_policy` the NetworkPolicy stays as it
    /// is. `pods` are those with the upstream's label; `None` if they are not known.
    pub(super) async fn bring_all(
        &mut self,
        round: &Round<'_>,
        desired: &DesiredServer,
        keeps_policy: bool,
        pods: Option<&[Arc<Pod>]>,
    ) {
        self.faults.values_mut().for_each(|fault| fault.is_current = false);
        let runs = |plural: &str| round.watches.has_own(plural, round.owner);
        // The pattern has no `..`, so that a new field does not compile until it is handled here.
        let DesiredServer { account, network_policy, service, deployment, stateful_set, pods: wanted } = desired;
        let Some(wanted) = wanted else { return self.end(round, pods).await };
        let mut can_start = account.is_none() || self.bring(round, account.as_ref()).await;
        can_start &= keeps_policy || self.bring(round, network_policy.as_ref()).await;
        // The workload of the other kind is deleted before this one is created. Its pods end in their own time.
        can_start &= deployment.is_some() || self.bring(round, deployment.as_ref()).await;
        can_start &= stateful_set.is_some() || self.bring(round, stateful_set.as_ref()).await;
        // Pods do not start without their account and their policy. Pods that run are updated nevertheless.
        can_start &= !self.owned.contests.lacks_one(Instant::now());
        self.bring(round, service.as_ref()).await;
        let mut is_written = true;
        if deployment.is_some() {
            is_written = (can_start || runs("deployments")) && self.bring(round, deployment.as_ref()).await;
        }
        if stateful_set.is_some() {
            is_written = (can_start || runs("statefulsets")) && self.bring(round, stateful_set.as_ref()).await;
        }
        // Until pods of an older template are gone, the workload may create one of them again, which needs the account.
        if account.is_none() && is_written && pods.is_some_and(|pods| wanted.replaced(pods)) {
            self.bring(round, account.as_ref()).await;
        }
    }

    /// Deletes everything: the policy and the account only when no pod needs them any more.
    async fn end(&mut self, round: &Round<'_>, pods: Option<&[Arc<Pod>]>) {
        let mut ended = self.bring::<Deployment>(round, None).await;
        ended &= self.bring::<StatefulSet>(round, None).await;
        self.bring::<Service>(round, None).await;
        let is_over = pods.is_some_and(|pods| !run(pods));
        let has = |plural: &str| round.watches.has_own(plural, round.owner);
        if ended && is_over && !has("deployments") && !has("statefulsets") {
            self.bring::<NetworkPolicy>(round, None).await;
            self.bring::<ServiceAccount>(round, None).await;
        }
    }

    /// Brings one object in line, unless a failure was too short a time ago. Returns whether nothing is wrong with it.
    async fn bring<K>(&mut self, round: &Round<'_>, desired: Option<&Manifest<K>>) -> bool
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let plural = K::plural(&());
        let waiting = self.faults.get_mut(&plural).filter(|before| before.waits_until(Instant::now()).is_some());
        if let Some(waiting) = waiting {
            waiting.is_current = true;
            return false;
        }
        let before = self.faults.remove(&plural);
        let Err(error) = self.owned.bring(round, &round.owner.workload(), desired).await else { return true };
        let fault = Fault::new(&error, before.as_ref(), Instant::now());
        if before.is_none_or(|before| before.message != fault.message) {
            tracing::warn!(upstream = %round.owner.key, "its server: {error}");
        }
        self.faults.insert(plural, fault);
        false
    }
}
