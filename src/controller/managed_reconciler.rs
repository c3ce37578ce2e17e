//! Keeps the state of one upstream's server between rounds, and brings the server's objects in line with the spec.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::Value;

use super::apply::ApplyError;
use super::doubling::Doubling;
use super::lowered::LoweredObject;
use super::managed::{DesiredServer, OWNED, ServerInput, targets};
use super::managed_state::ManagedServer;
use super::owner::Owner;
use super::reconcile::{OwnedObjects, Round};
use super::watches::Watches;
use super::workload::{FindService, Peers, PodSettings, Resolver};
use super::writer::Writer;
use crate::api::upstream::MCPUpstreamSpec;
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// The first pause after a transient failure. Later pauses double, up to `LONGEST_RETRY`.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// When to look again at a fault that nothing announces the end of, such as a name that somebody else has.
const LOOK_AGAIN: Duration = Duration::from_secs(6);

/// What the servers of all upstreams depend on.
pub(super) struct Surroundings<'a> {
    pub(super) writer: &'a Writer,
    pub(super) watches: &'a Watches,
    pub(super) pods: &'a PodSettings,
    /// The DNS domain of the cluster.
    pub(super) cluster_domain: &'a str,
    /// Why it is not known which gateways take an upstream, if it is not known.
    pub(super) untold: Option<String>,
}

/// Brings the objects of one upstream's server in line with its spec.
pub(super) struct ManagedReconciler {
    owner: Owner,
    generation: i64,
    /// The spec that counts: the last valid one. `None` if the upstream has none, or another type.
    spec: Option<Arc<MCPUpstreamSpec>>,
    /// The text that `spec` was read from.
    read: Option<Arc<Value>>,
    /// The desired objects, and what they were built from besides the spec; `None` if the existing objects stay as they
    /// are.
    built: Option<Built>,
    /// The gateways that took the upstream when that was last known.
    gateways: Option<BTreeSet<ObjectKey>>,
    owned: OwnedObjects,
    fault: Option<(Reason, String)>,
    /// After a transient failure: the pauses, and when to try again unless the spec changes.
    retry: Option<(Doubling, Instant)>,
}

/// Desired objects, and what they were built from besides the upstream's spec.
struct Built {
    gateways: BTreeSet<ObjectKey>,
    peers: Peers,
    desired: Arc<DesiredServer>,
}

impl ManagedReconciler {
    pub(super) fn new(object: &LoweredObject) -> Self {
        Self {
            owner: Owner::upstream(object.id.key.clone(), object.uid()),
            generation: 0,
            spec: None,
            read: None,
            built: None,
            gateways: None,
            owned: OwnedObjects::default(),
            fault: None,
            retry: None,
        }
    }

    /// Whether this is the state of the same object, and not of an earlier one of its name.
    pub(super) fn is_of(&self, object: &LoweredObject) -> bool {
        self.owner.uid == object.uid()
    }

    /// Takes in the newest form of the upstream. An invalid one changes nothing.
    pub(super) fn look(&mut self, object: &LoweredObject, is_valid: bool) {
        self.generation = object.generation();
        let is_known = self.read.as_ref().is_some_and(|read| Arc::ptr_eq(read, &object.spec) || read == &object.spec);
        if !is_valid || is_known {
            return;
        }
        self.spec = MCPUpstreamSpec::deserialize(&*object.spec).ok().map(Arc::new);
        self.read = Some(Arc::clone(&object.spec));
        (self.built, self.retry) = (None, None);
        self.owned.forget_taken();
    }

    /// Returns when to try again; `None` if no retry is pending, or if it is due now.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.retry.map(|(_, when)| when).filter(|when| *when > Instant::now())
    }

    /// Returns when to look again, even if nothing changes; `None` if nothing is wrong, and nothing waits to be written.
    pub(super) fn look_again(&self) -> Option<Instant> {
        let now = Instant::now();
        let wrong = || self.fault.as_ref().map(|_| now + LOOK_AGAIN);
        self.waits_until().or_else(|| self.owned.contests.again(now)).or_else(wrong)
    }

    /// Writes what differs from the spec.
    pub(super) async fn apply(&mut self, around: &Surroundings<'_>, gateways: &BTreeSet<ObjectKey>) {
        if self.waits_until().is_some() {
            return;
        }
        let Some(spec) = self.spec.clone() else { return };
        if spec.managed.is_none() && !self.leaves(around.watches) {
            self.fault = None;
            return;
        }
        let result = match self.desired(&spec, around, gateways) {
            Ok(desired) => self.write(around, &desired).await,
            Err(why) => Err(ApplyError::Unseen(why)),
        };
        self.note(result, Instant::now());
    }

    /// Whether something is left of an earlier server. What was written last may be seen late.
    fn leaves(&self, watches: &Watches) -> bool {
        let ours = |plural: &&str| watches.owned(plural, &self.owner.key.namespace, &self.owner.workload());
        OWNED.iter().filter_map(ours).any(|seen| self.owner.owns(&seen.metadata))
    }

    /// Returns the objects that should exist.
    fn desired(
        &mut self,
        spec: &MCPUpstreamSpec,
        around: &Surroundings<'_>,
        gateways: &BTreeSet<ObjectKey>,
    ) -> Result<Arc<DesiredServer>, String> {
        let Some(managed) = &spec.managed else { return Ok(Arc::default()) };
        let gateways = match (&around.untold, &self.gateways) {
            (None, _) => self.gateways.insert(gateways.clone()),
            (Some(_), Some(known)) => known,
            (Some(why), None) => return Err(why.clone()),
        };
        around.watches.cache_sync.unseen(&["services"]).map_or(Ok(()), Err)?;
        let service = |namespace: &str, name: &str| around.watches.service(namespace, name);
        let service: FindService<'_> = &service;
        let (namespace, domain) = (self.owner.key.namespace.as_str(), around.cluster_domain);
        let peers = Resolver { namespace, domain, service }.peers(&targets(managed));
        let before = self.built.take().filter(|built| built.peers == peers && built.gateways == *gateways);
        let built = before.unwrap_or_else(|| {
            let input = ServerInput { owner: &self.owner, spec, managed, pods: around.pods };
            let desired = Arc::new(DesiredServer::of(&input, gateways, &peers));
            Built { gateways: gateways.clone(), peers, desired }
        });
        Ok(Arc::clone(&self.built.insert(built).desired))
    }

    async fn write(&mut self, around: &Surroundings<'_>, desired: &DesiredServer) -> Result<(), ApplyError> {
        // The pattern has no `..`, so that a new field does not compile until it is handled here.
        let DesiredServer { account, network_policy, service, deployment, stateful_set, pods: _ } = desired;
        let (owner, watches) = (&self.owner, around.watches);
        let (round, name) = (Round { writer: around.writer, watches, owner }, owner.workload());
        let owned = &mut self.owned;
        let account = owned.bring(&round, &name, account.as_ref()).await;
        let mut done = account.and(owned.bring(&round, &name, network_policy.as_ref()).await);
        // The workload of the other kind ends first: both could need the same volume.
        let mut ended = Ok(());
        if deployment.is_none() {
            ended = owned.bring(&round, &name, deployment.as_ref()).await;
        }
        if stateful_set.is_none() {
            ended = ended.and(owned.bring(&round, &name, stateful_set.as_ref()).await);
        }
        // Pods do not start without their account and their policy. Pods that run are updated nevertheless.
        let can_start = done.is_ok() && ended.is_ok() && !owned.contests.lacks_one(Instant::now());
        let runs = |plural: &str| can_start || watches.owned(plural, &owner.key.namespace, &name).is_some();
        done = done.and(owned.bring(&round, &name, service.as_ref()).await).and(ended);
        if deployment.is_some() && runs("deployments") {
            done = done.and(owned.bring(&round, &name, deployment.as_ref()).await);
        }
        if stateful_set.is_some() && runs("statefulsets") {
            done = done.and(owned.bring(&round, &name, stateful_set.as_ref()).await);
        }
        done.and(owned.contests.check(Instant::now()))
    }

    /// Records the result of [`Self::write`].
    fn note(&mut self, result: Result<(), ApplyError>, now: Instant) {
        let fault = result.as_ref().err().map(|error| (error.reason(), error.to_string()));
        if let Some((_, error)) = fault.as_ref().filter(|_| fault != self.fault) {
            tracing::warn!(upstream = %self.owner.key, "its server: {error}");
        }
        self.fault = fault;
        let mut pauses = self.retry.map_or(Doubling::new(FIRST_RETRY, LONGEST_RETRY), |(pauses, _)| pauses);
        let pause = pauses.pause();
        self.retry = result.err().and_then(|error| error.again(now, pause)).map(|when| (pauses, when));
    }

    /// Returns what the other loops need to know; `None` if the upstream has no server, and nothing is left of an earlier
    /// one. `pods` are those with its label; `None` if they are not known.
    pub(super) fn state(&self, object: &LoweredObject, pods: Option<&[Arc<Pod>]>) -> Option<ManagedServer> {
        let is_managed = object.spec.get("managed").is_some_and(Value::is_object);
        let wanted = self.built.as_ref().and_then(|built| built.desired.pods.as_ref());
        (is_managed || self.fault.is_some()).then(|| ManagedServer {
            uid: self.owner.uid.clone(),
            generation: self.generation,
            kind: wanted.map(|wanted| wanted.kind),
            fault: self.fault.clone(),
            not_ready: wanted.zip(pods).and_then(|(wanted, pods)| wanted.not_ready(pods)),
        })
    }
}
