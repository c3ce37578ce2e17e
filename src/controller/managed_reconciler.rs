//! Keeps the state of one upstream's server between rounds, and brings the server's objects in line with the spec.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::Value;

use super::apply::ApplyError;
use super::lowered::LoweredObject;
use super::managed::{DesiredServer, OWNED, ServerInput, targets};
use super::managed_state::ManagedServer;
use super::owned::rollout;
use super::owner::Owner;
use super::reconcile::Round;
use super::server_objects::ServerObjects;
use super::watches::Watches;
use super::workload::{FindService, Peers, PodSettings, Resolver};
use super::writer::Writer;
use crate::api::upstream::MCPUpstreamSpec;
use crate::domain::ids::ObjectKey;

/// When to look again while it is not known what exists.
const LOOK_AGAIN: Duration = Duration::from_secs(6);

/// What the servers of all upstreams depend on.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) writer: Writer,
    pub(super) watches: Arc<Watches>,
    pub(super) pods: PodSettings,
    /// The DNS domain of the cluster.
    pub(super) cluster_domain: String,
    /// Gateways of which it is not known which upstreams they take.
    pub(super) unread: BTreeMap<ObjectKey, String>,
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
    /// The gateways whose pods may connect, as of the last round that knew them.
    gateways: Option<BTreeSet<ObjectKey>>,
    objects: ServerObjects,
    /// Why it is not known what should exist, if it is not known.
    unseen: Option<ApplyError>,
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
            objects: ServerObjects::default(),
            unseen: None,
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
        self.built = None;
        self.objects.forget();
    }

    /// Returns when to look again, even if nothing changes; `None` if nothing is wrong, and nothing waits to be written.
    pub(super) fn look_again(&self) -> Option<Instant> {
        let now = Instant::now();
        let unseen = self.unseen.as_ref().map(|_| now + LOOK_AGAIN);
        self.objects.look_again(now).into_iter().chain(unseen).min()
    }

    /// Writes what differs from the spec. `gateways` are those that take the upstream; `pods` are those with its label,
    /// `None` if they are not known.
    pub(super) async fn apply(
        &mut self,
        around: &Surroundings,
        gateways: &BTreeSet<ObjectKey>,
        pods: Option<&[Arc<Pod>]>,
    ) {
        let Some(spec) = self.spec.clone() else { return };
        if spec.managed.is_none() && !self.leaves(&around.watches) {
            self.unseen = None;
            self.objects.forget();
            return;
        }
        let desired = self.desired(&spec, around, gateways);
        self.unseen = desired.as_ref().err().map(|why| ApplyError::Unseen(why.clone()));
        let Ok((desired, keeps_policy)) = desired else { return };
        let round = Round { writer: &around.writer, watches: &around.watches, owner: &self.owner };
        self.objects.bring_all(&round, &desired, keeps_policy, pods).await;
    }

    /// Whether something is left of an earlier server. What was written last may be seen late.
    fn leaves(&self, watches: &Watches) -> bool {
        OWNED.iter().any(|plural| watches.has_own(plural, &self.owner))
    }

    /// Returns the objects that should exist, and whether the NetworkPolicy stays as it is.
    fn desired(
        &mut self,
        spec: &MCPUpstreamSpec,
        around: &Surroundings,
        gateways: &BTreeSet<ObjectKey>,
    ) -> Result<(Arc<DesiredServer>, bool), String> {
        let Some(managed) = &spec.managed else { return Ok(Default::default()) };
        around.watches.cache_sync.unseen(&["services"]).map_or(Ok(()), Err)?;
        let (gateways, keeps_policy) = self.takers(around, gateways);
        let service = |namespace: &str, name: &str| around.watches.service(namespace, name);
        let service: FindService<'_> = &service;
        let (namespace, domain) = (self.owner.key.namespace.as_str(), around.cluster_domain.as_str());
        let peers = Resolver { namespace, domain, service }.peers(&targets(managed));
        let before = self.built.take().filter(|built| built.peers == peers && built.gateways == gateways);
        let built = before.unwrap_or_else(|| {
            let input = ServerInput { owner: &self.owner, spec, managed, pods: &around.pods };
            let desired = Arc::new(DesiredServer::of(&input, &gateways, &peers));
            Built { gateways, peers, desired }
        });
        Ok((Arc::clone(&self.built.insert(built).desired), keeps_policy))
    }

    /// Returns the gateways whose pods may connect, and whether the NetworkPolicy stays as it is. A gateway whose plan
    /// cannot be read may take the upstream if it did before. If that is not known either, a policy that exists says so.
    fn takers(&mut self, around: &Surroundings, planned: &BTreeSet<ObjectKey>) -> (BTreeSet<ObjectKey>, bool) {
        let (mut gateways, unread) = (planned.clone(), &around.unread);
        match &self.gateways {
            Some(before) => gateways.extend(before.iter().filter(|before| unread.contains_key(before)).cloned()),
            None if !unread.is_empty() && around.watches.has_own("networkpolicies", &self.owner) => {
                return (gateways, true);
            }
            None => {}
        }
        self.gateways = Some(gateways.clone());
        (gateways, false)
    }

    /// Returns what the other loops need to know; `None` if the upstream has no server, and nothing is left of an earlier
    /// one. `pods` are those with its label; `None` if they are not known.
    pub(super) fn state(
        &self,
        object: &LoweredObject,
        around: &Surroundings,
        pods: Option<&[Arc<Pod>]>,
    ) -> Option<ManagedServer> {
        let deployment = around.watches.owned("deployments", &self.owner.key.namespace, &self.owner.workload());
        let deployment = deployment.filter(|deployment| self.owner.owns(&deployment.metadata));
        let refused = deployment.and_then(|deployment| rollout(&deployment).refused);
        let is_managed = object.spec.get("managed").is_some_and(Value::is_object);
        let wanted = self.built.as_ref().and_then(|built| built.desired.pods.as_ref());
        let unseen = self.unseen.as_ref().map(|error| (error.reason(), error.to_string()));
        let fault = unseen.or_else(|| self.objects.fault(Instant::now()));
        (is_managed || fault.is_some()).then(|| ManagedServer {
            uid: self.owner.uid.clone(),
            generation: self.generation,
            kind: wanted.map(|wanted| wanted.kind),
            fault,
            address: self.objects.address(&around.watches, &self.owner),
            not_ready: wanted.zip(pods).and_then(|(wanted, pods)| wanted.not_ready(pods, refused.as_deref())),
        })
    }
}
