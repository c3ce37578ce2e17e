//! Brings the objects of one owner in line with the desired ones.

#[cfg(test)]
mod failing;
mod scaled;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use kube::api::{DynamicObject, ObjectMeta};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::apply::ApplyError;
use super::backoff::RetryBackoff;
use super::changes;
use super::compared::Compared;
use super::desired::Desired;
use super::manager_conflicts::ManagerConflicts;
use super::manifest::Manifest;
use super::owned::is_as_desired;
use super::owner::Owner;
use super::rights::RequestError;
use super::watches::{Watches, watch_of_owned};
use super::workload::{HTTPRoute, Workload, without_timeouts};
use super::writer::Writer;

/// The state of an owner's objects that is remembered between two rounds.
#[derive(Default)]
pub(super) struct OwnedObjects {
    /// Objects that belong to someone else, by resource.
    taken: HashMap<Cow<'static, str>, ForeignObject>,
    /// The objects that were written, to notice other clients that change or delete them.
    pub(super) contests: ManagerConflicts,
    /// The objects that were as desired.
    compared: Compared,
    /// Whether the installed HTTPRoutes have no timeouts, as far as this is known.
    no_timeouts: bool,
}

/// An object that belongs to someone else, and has the name of an object that the operator should create.
struct ForeignObject {
    /// Kind, namespace and name.
    object: String,
    /// Uid of the object and the uids of its owners, as the watch shows them; `None` if the watch does not show the
    /// object, because it does not have the operator's label.
    seen: Option<(String, Vec<String>)>,
    waits: RetryBackoff,
    /// When to read the object again.
    again: Instant,
}

/// The context that all objects of one round share.
pub(super) struct Round<'a> {
    pub(super) writer: &'a Writer,
    pub(super) watches: &'a Watches,
    pub(super) owner: &'a Owner,
}

impl Round<'_> {
    /// Returns an object as its watch shows it. The error says why the watch does not know the kind's objects.
    fn seen(&self, plural: &str, name: &str) -> Result<Option<Arc<DynamicObject>>, ApplyError> {
        match self.watches.cache_sync.unseen(&[&watch_of_owned(plural)]) {
            Some(why) => Err(ApplyError::Unseen(why)),
            None => Ok(self.watches.owned(plural, &self.owner.key.namespace, name)),
        }
    }
}

impl OwnedObjects {
    /// Writes objects that are not as desired, and deletes those that should not exist.
    ///
    /// # Errors
    /// The first failure. The other objects are brought up to date nevertheless, unless the account is somebody else's;
    /// but pods are not created without their rights and policy.
    pub(super) async fn apply(
        &mut self,
        writer: &Writer,
        watches: &Watches,
        owner: &Owner,
        desired: &Desired,
    ) -> Result<(), ApplyError> {
        // The pattern has no `..`, so that a new field does not compile until it is handled here.
        let Desired { account, role, binding, workload } = desired;
        let (round, name) = (Round { writer, watches, owner }, owner.workload());
        let account = self.bring(&round, &name, account.as_ref()).await;
        if matches!(account, Err(ApplyError::Taken(_))) {
            // Somebody else's account gets no rights, and no pods run as it.
            return account;
        }
        let role = self.bring(&round, &name, role.as_ref()).await;
        // A binding to somebody else's role would give the pods what that role gives.
        let binding = match &role {
            Err(ApplyError::Taken(_)) => Ok(()),
            _ => self.bring(&round, &name, binding.as_ref()).await,
        };
        let mut done = account.and(role).and(binding);
        if let Some(workload) = workload {
            done = self.bring_workload(&round, &name, workload, done).await;
        }
        done.and(self.contests.check(Instant::now()))
    }

    /// Brings the objects of a gateway's pods up to date. `done` is the result for the objects before them.
    async fn bring_workload(
        &mut self,
        round: &Round<'_>,
        name: &str,
        workload: &Workload,
        mut done: Result<(), ApplyError>,
    ) -> Result<(), ApplyError> {
        let Workload { service, deployment, budget, autoscaler, route, network_policy, seals: _ } = workload;
        done = done.and(match network_policy {
            Ok(desired) => self.bring(round, name, desired.as_ref()).await,
            Err(why) => Err(ApplyError::Unseen(why.clone())),
        });
        // Pods do not start without their rights and their policy. Pods that run are updated nevertheless.
        let can_start = (done.is_ok() && !self.contests.lacks_one(Instant::now()))
            || round.seen("deployments", name).is_ok_and(|seen| seen.is_some());
        done = done.and(self.bring(round, name, service.as_ref()).await);
        // Until the watch shows that an autoscaler is deleted, it can still change the number of pods.
        let is_autoscaled = autoscaler.is_some() || round.watches.has_own("horizontalpodautoscalers", round.owner);
        done = done.and(self.bring(round, name, autoscaler.as_ref()).await);
        done = done.and(match deployment {
            _ if !can_start => Ok(()),
            Some(desired) if is_autoscaled => self.bring_scaled(round, name, desired, autoscaler.is_some()).await,
            desired => self.bring(round, name, desired.as_ref()).await,
        });
        done = done.and(self.bring(round, name, budget.as_ref()).await);
        done.and(self.bring_route(round, name, route.as_ref()).await)
    }

    /// Brings the route up to date, if its kind is installed.
    async fn bring_route(
        &mut self,
        round: &Round<'_>,
        name: &str,
        desired: Option<&Manifest<HTTPRoute>>,
    ) -> Result<(), ApplyError> {
        if round.watches.extensions.is_known() {
            return Ok(());
        }
        let mut done = match desired {
            Some(desired) if self.no_timeouts => self.bring(round, name, Some(&without_timeouts(desired))).await,
            desired => self.bring(round, name, desired).await,
        };
        if let (Err(ApplyError::Request { error, .. }), Some(desired)) = (&done, desired)
            && error.is_of_unknown_field()
            && !self.no_timeouts
        {
            let gateway = &round.owner.key;
            tracing::warn!(%gateway, "{error}: the route is written without it; Gateway API 1.2 or newer has the field");
            self.no_timeouts = true;
            done = self.bring(round, name, Some(&without_timeouts(desired))).await;
        }
        match done {
            // The kind was removed just now, which its watch will show.
            Err(ApplyError::Request { error, .. }) if error.is_not_found() => Ok(()),
            done => done,
        }
    }

    /// Writes or deletes one object, if it is not as desired.
    pub(super) async fn bring<K>(
        &mut self,
        round: &Round<'_>,
        name: &str,
        desired: Option<&Manifest<K>>,
    ) -> Result<(), ApplyError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let (plural, namespace) = (K::plural(&()), &round.owner.key.namespace);
        let seen = round.seen(&plural, name)?;
        let stored = seen.as_ref().filter(|seen| round.owner.owns(&seen.metadata));
        let ours = stored.map(Arc::as_ref);
        let (what, object) = (format!("{plural} in {namespace}"), format!("{} {namespace}/{name}", K::kind(&())));
        let failed = |error| ApplyError::Request { what: what.clone(), error };
        let api: Api<K> = Api::namespaced(round.writer.client.clone(), namespace);
        let Some(desired) = desired else {
            self.contests.forget(&plural);
            self.taken.remove(&plural);
            let Some(ours) = ours else { return Ok(()) };
            let existed = round.writer.delete_this(&api, &what, &ours.metadata).await.map_err(failed)?;
            if existed && ours.metadata.deletion_timestamp.is_none() {
                changes::deleted(round.owner, &object);
            }
            return Ok(());
        };
        match stored {
            Some(seen) if self.compared.is_same(&plural, seen, desired.digest(), || is_as_desired(seen, desired)) => {
                self.taken.remove(&plural);
                return Ok(());
            }
            _ if self.contests.waits(&plural, desired.digest(), ours, Instant::now()) => return Ok(()),
            Some(_) => {}
            None => self.check_free(round, &api, name, seen.as_deref()).await?,
        }
        self.taken.remove(&plural);
        let written = round.writer.apply(&api, &what, name, desired).await.map_err(failed)?;
        self.wrote(round, plural, (&object, desired.digest()), (ours, written.meta()));
        Ok(())
    }

    /// Notes that an object was written, and has this metadata now.
    fn wrote(
        &mut self,
        round: &Round<'_>,
        plural: Cow<'static, str>,
        of: (&str, &str),
        (seen, written): (Option<&DynamicObject>, &ObjectMeta),
    ) {
        // The watch may not show yet what was created.
        if seen.is_some() || !self.contests.is_of_last_write(&plural, written.uid.as_deref()) {
            changes::wrote(round.owner, of, seen, written);
        }
        self.contests.wrote(plural, of, (seen, written.uid.clone()), Instant::now());
    }

    /// Has objects that belong to someone else read again without a pause, and forgets which fields the cluster does not
    /// have.
    pub(super) fn forget_pauses(&mut self) {
        let now = Instant::now();
        self.taken.values_mut().for_each(|taken| (taken.waits, taken.again) = (RetryBackoff::default(), now));
        self.no_timeouts = false;
    }

    /// Returns that the object of this resource belongs to someone else, if the last read that worked found that.
    pub(super) fn taken(&self, plural: &str) -> Option<ApplyError> {
        self.taken.get(plural).map(|taken| ApplyError::Taken(taken.object.clone()))
    }

    /// Checks that no object of someone else has the name of an object to write. The object is read for this purpose,
    /// because the watch does not show objects without the operator's label.
    async fn check_free<K>(
        &mut self,
        round: &Round<'_>,
        api: &Api<K>,
        name: &str,
        seen: Option<&DynamicObject>,
    ) -> Result<(), ApplyError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        if !round.writer.leads() {
            return Ok(());
        }
        let (plural, namespace) = (K::plural(&()), &round.owner.key.namespace);
        let object = format!("{} {namespace}/{name}", K::kind(&()));
        let owners = |seen: &DynamicObject| seen.owner_references().iter().map(|owner| owner.uid.clone()).collect();
        let seen = seen.map(|seen| (seen.uid().unwrap_or_default(), owners(seen)));
        if self.is_taken(&plural, seen.as_ref(), Instant::now()) {
            return Err(ApplyError::Taken(object));
        }
        let what = format!("{plural} in {namespace}");
        let is_taken = match round.writer.read(&format!("get {what}"), api.get_metadata_opt(name)).await {
            Ok(there) => there.is_some_and(|there| !round.owner.owns(&there.metadata)),
            // A read that fails says nothing new.
            Err(RequestError::Api(_)) if self.taken.contains_key(&plural) => true,
            Err(error) => return Err(ApplyError::Request { what, error }),
        };
        if !is_taken {
            return Ok(());
        }
        self.found_taken(plural, &object, seen, Instant::now());
        Err(ApplyError::Taken(object))
    }

    /// Whether the object is known to belong to someone else, is unchanged since then, and is not due to be read
    /// again.
    fn is_taken(&self, plural: &str, seen: Option<&(String, Vec<String>)>, now: Instant) -> bool {
        self.taken.get(plural).is_some_and(|taken| taken.seen.as_ref() == seen && now < taken.again)
    }

    /// Notes that the object belongs to someone else. As long as the object is unchanged, the pauses before it is read
    /// again grow.
    fn found_taken(
        &mut self,
        plural: Cow<'static, str>,
        object: &str,
        seen: Option<(String, Vec<String>)>,
        now: Instant,
    ) {
        let before = self.taken.remove(&plural).filter(|before| before.seen == seen);
        let mut waits = before.map(|before| before.waits).unwrap_or_default();
        let again = now + waits.after_code(Some(409), now);
        self.taken.insert(plural, ForeignObject { object: object.to_owned(), seen, waits, again });
    }
}

#[cfg(test)]
mod tests;
