//! What lets a gateway's pods read its snapshots, brought to what it is to be.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Instant;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::apply::ApplyError;
use super::backoff::RetryBackoff;
use super::build::{self, Owner};
use super::watches::Watches;
use super::writer::Writer;

/// What is remembered of a gateway's access from one round to the next.
#[derive(Default)]
pub(super) struct Access {
    /// By resource: objects that are somebody else's.
    taken: HashMap<Cow<'static, str>, Taken>,
}

/// An object that is somebody else's.
struct Taken {
    /// The uid and resourceVersion with which it is seen; none where it is not, since it does not have our label.
    seen: Option<(String, String)>,
    waits: RetryBackoff,
    /// When to ask for it again.
    again: Instant,
}

impl Access {
    /// Makes the gateway's ServiceAccount, Role and RoleBinding, where they are not as they are to be.
    ///
    /// # Errors
    /// The first thing that stopped one of them. It does not stop the others.
    pub(super) async fn apply(&mut self, writer: &Writer, watches: &Watches, owner: &Owner) -> Result<(), ApplyError> {
        let (account, role, binding) = build::access(owner);
        let same = |_: &ServiceAccount, _: &ServiceAccount| true;
        let account = self.ensure(writer, watches, &watches.accounts, owner, account, same).await;
        let same = |seen: &Role, wanted: &Role| seen.rules == wanted.rules;
        let role = self.ensure(writer, watches, &watches.roles, owner, role, same).await;
        let same = |seen: &RoleBinding, wanted: &RoleBinding| {
            seen.role_ref == wanted.role_ref && seen.subjects == wanted.subjects
        };
        account.and(role).and(self.ensure(writer, watches, &watches.bindings, owner, binding, same).await)
    }

    async fn ensure<K>(
        &mut self,
        writer: &Writer,
        watches: &Watches,
        stores: &[Store<K>],
        owner: &Owner,
        wanted: K,
        same: impl Fn(&K, &K) -> bool,
    ) -> Result<(), ApplyError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Serialize + DeserializeOwned,
        K: std::fmt::Debug + 'static,
    {
        let (plural, name) = (K::plural(&()), wanted.name_any());
        if let Some(why) = watches.cache_sync.unseen(&[&plural]) {
            return Err(ApplyError::Unseen(why));
        }
        let seen = ObjectRef::new(&name).within(&owner.key.namespace);
        let seen = stores.iter().find_map(|store| store.get(&seen));
        let seen = seen.as_deref();
        let ours = seen.filter(|seen| owner.owns(seen.meta()));
        if ours.is_some_and(|seen| labelled(seen.meta(), wanted.meta()) && same(seen, &wanted)) {
            return Ok(());
        }
        let what = format!("{plural} in {}", owner.key.namespace);
        let failed = |error| ApplyError::Request { what: what.clone(), error };
        let api: Api<K> = Api::namespaced(writer.client.clone(), &owner.key.namespace);
        if ours.is_none() && writer.leads() {
            let taken = || ApplyError::Taken(format!("{} {}/{name}", K::kind(&()), owner.key.namespace));
            let seen = seen.map(|seen| (seen.uid().unwrap_or_default(), seen.resource_version().unwrap_or_default()));
            if self.is_taken(&plural, seen.as_ref(), Instant::now()) {
                return Err(taken());
            }
            // It may be there without our label.
            let there = writer.read(&format!("get {what}"), api.get_metadata_opt(&name)).await.map_err(failed)?;
            if there.is_some_and(|there| !owner.owns(&there.metadata)) {
                self.found_taken(plural, seen, Instant::now());
                return Err(taken());
            }
        }
        self.taken.remove(&plural);
        writer.apply(&api, &what, &name, &wanted).await.map(drop).map_err(failed)
    }

    /// Whether an object was found to be somebody else's, is seen as it was then, and is not asked for again yet.
    fn is_taken(&self, plural: &str, seen: Option<&(String, String)>, now: Instant) -> bool {
        self.taken.get(plural).is_some_and(|taken| taken.seen.as_ref() == seen && now < taken.again)
    }

    /// An object is somebody else's: it is asked for less and less often, for as long as it is seen as it is.
    fn found_taken(&mut self, plural: Cow<'static, str>, seen: Option<(String, String)>, now: Instant) {
        let before = self.taken.remove(&plural).filter(|before| before.seen == seen);
        let mut waits = before.map(|before| before.waits).unwrap_or_default();
        let again = now + waits.after_code(Some(409), now);
        self.taken.insert(plural, Taken { seen, waits, again });
    }
}

/// Whether it has the labels that it is to have.
fn labelled(seen: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let has = |(key, value): (&String, &String)| seen.labels.as_ref().and_then(|l| l.get(key)) == Some(value);
    wanted.labels.iter().flatten().all(has)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body::Frame;
    use http_body_util::combinators::UnsyncBoxBody;
    use http_body_util::{BodyExt, Full, StreamBody};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tower::BoxError;

    use super::*;
    use crate::controller::lease::Leadership;
    use crate::controller::liveness::Liveness;
    use crate::domain::ids::ObjectKey;

    /// An API server where somebody else has an object of every name, without our label. Counts how often one is asked
    /// for.
    async fn serve(
        request: Request<Body>,
        asked: Arc<AtomicUsize>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        assert_eq!(request.method(), Method::GET, "what is somebody else's is not written");
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            let nothing = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
            return Ok(Response::new(StreamBody::new(nothing).boxed_unsync()));
        }
        let answer = if request.uri().path().ends_with("/main-gateway") {
            asked.fetch_add(1, Ordering::Relaxed);
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"name": "main-gateway", "namespace": "mcp", "uid": "theirs"}})
        } else {
            json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})
        };
        Ok(Response::new(Full::from(answer.to_string()).map_err(BoxError::from).boxed_unsync()))
    }

    #[tokio::test]
    async fn what_somebody_else_has_is_asked_for_less_and_less_often() {
        let asked = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&asked);
        let client = Client::new(tower::service_fn(move |request| serve(request, Arc::clone(&counted))), "mcp");
        let watches = Watches::start(&client, BTreeSet::new());
        watches.cache_sync.settled().await;
        let leadership = Leadership::default();
        leadership.set(Some(Instant::now() + Duration::from_secs(600)));
        let writer = Writer::new(client, leadership, Liveness::default().pulse("plans"));
        let owner = Owner { key: ObjectKey::new("mcp", "main"), uid: "u".into() };
        let mut access = Access::default();
        let round = async |access: &mut Access, expected: usize| {
            let error = access.apply(&writer, &watches, &owner).await.unwrap_err();
            assert!(error.to_string().contains("ServiceAccount mcp/main-gateway that this operator"), "{error}");
            assert_eq!(asked.swap(0, Ordering::Relaxed), expected);
        };
        round(&mut access, 3).await;
        round(&mut access, 0).await;
        let now = Instant::now();
        for taken in access.taken.values_mut() {
            taken.again = now;
        }
        round(&mut access, 3).await;
        let pause = |taken: &Taken| taken.again.duration_since(now);
        assert!(access.taken.values().all(|taken| pause(taken) >= Duration::from_secs(1)), "the pause grows");
        let account = access.taken.get_mut("serviceaccounts").unwrap();
        account.seen = Some(("theirs".into(), "1".into()));
        round(&mut access, 1).await;
    }
}
