//! Writes a Deployment whose number of pods depends on the stored one.

use std::time::Instant;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Resource, ResourceExt};

use super::{OwnedObjects, Round};
use crate::controller::apply::ApplyError;
use crate::controller::manifest::Manifest;
use crate::controller::owned::{is_as_desired, scale};
use crate::controller::rights::RequestError;
use crate::controller::scale::{Scale, with_live_count};

/// Maximum number of attempts if someone else writes the Deployment at the same time. Its status changes often during a
/// rollout.
const MAX_ATTEMPTS: usize = 5;

impl OwnedObjects {
    /// Writes the Deployment if it is not as desired, with the number of pods that [`with_live_count`] says. The
    /// Deployment is read before each write, and the write fails if it has changed since then. Otherwise, the write
    /// could set the number back that an autoscaler sets at the same time.
    pub(super) async fn bring_scaled(
        &mut self,
        round: &Round<'_>,
        name: &str,
        desired: &Manifest<Deployment>,
        wants_autoscaler: bool,
    ) -> Result<(), ApplyError> {
        let resource = ApiResource::erase::<Deployment>(&());
        let namespace = &round.owner.key.namespace;
        let what = format!("{} in {namespace}", resource.plural);
        let failed = |error| ApplyError::Request { what: what.clone(), error };
        let seen = round.seen(&resource.plural, name)?;
        let ours = seen.as_deref().filter(|seen| round.owner.owns(&seen.metadata));
        let wanted = with_live_count(desired, ours.and_then(scale), wants_autoscaler);
        if ours.is_some_and(|ours| is_as_desired(ours, &wanted)) {
            self.taken.remove(&Deployment::plural(&()));
            return Ok(());
        }
        if self.contests.waits(&resource.plural, wanted.digest(), ours, Instant::now()) {
            return Ok(());
        }
        let typed: Api<Deployment> = Api::namespaced(round.writer.client.clone(), namespace);
        if ours.is_none() {
            self.check_free(round, &typed, name, seen.as_deref()).await?;
        }
        self.taken.remove(&Deployment::plural(&()));
        let api: Api<DynamicObject> = Api::namespaced_with(round.writer.client.clone(), namespace, &resource);
        let mut written = Err(RequestError::NotLeading);
        for _ in 0..MAX_ATTEMPTS {
            let stored = round.writer.read(&format!("get {what}"), api.get_opt(name)).await.map_err(failed)?;
            let live = stored.as_ref().and_then(Scale::of);
            let version = stored.as_ref().and_then(ResourceExt::resource_version);
            let scaled = with_live_count(desired, live, wants_autoscaler).at_version(version);
            written = round.writer.apply(&api, &what, name, &scaled).await;
            if !matches!(written, Err(RequestError::Conflict)) {
                break;
            }
        }
        let written = written.map_err(failed)?;
        let object = format!("Deployment {namespace}/{name}");
        self.wrote(round, Deployment::plural(&()), (&object, wanted.digest()), (ours, &written.metadata));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body::Frame;
    use http_body_util::combinators::UnsyncBoxBody;
    use http_body_util::{BodyExt, Full, StreamBody};
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::BoxError;

    use super::*;
    use crate::controller::lease::Leadership;
    use crate::controller::liveness::Liveness;
    use crate::controller::owner::Owner;
    use crate::controller::watches::Watches;
    use crate::controller::writer::Writer;
    use crate::domain::ids::ObjectKey;

    /// Returns the Deployment as it is stored: by the operator with 3 pods, or later by an autoscaler with 5.
    fn stored(is_scaled: bool) -> Value {
        let (version, replicas, manager, operation) =
            if is_scaled { ("2", 5, "autoscaler", "Update") } else { ("1", 3, "hawsepipe", "Apply") };
        let owner = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPGateway", "name": "main", "uid": "u"});
        let managed = json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": replicas},
            "metadata": {"name": "main-gateway", "namespace": "mcp", "uid": "seen", "resourceVersion": version,
                "ownerReferences": [owner], "managedFields": [managed]}})
    }

    /// Simulates an API server that refuses the first write, because the autoscaler scales the Deployment just before
    /// it. Records what is written.
    async fn serve(
        request: Request<Body>,
        written: Arc<Mutex<Vec<Value>>>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            let nothing = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
            return Ok(Response::new(StreamBody::new(nothing).boxed_unsync()));
        }
        let path = request.uri().path().to_owned();
        let before = written.lock().unwrap().len();
        let (code, answer) = if request.method() == Method::PATCH {
            let body = request.into_body().collect_bytes().await?;
            written.lock().unwrap().push(serde_json::from_slice(&body)?);
            let conflict = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict",
                "message": "it was modified", "code": 409});
            if before == 0 { (409, conflict) } else { (200, stored(true)) }
        } else if path.starts_with("/apis/gateway.networking.k8s.io/") {
            (404, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "m", "code": 404}))
        } else if path.ends_with("/main-gateway") {
            (200, stored(before > 0))
        } else {
            let items = if path.ends_with("/deployments") { vec![stored(false)] } else { Vec::new() };
            (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}))
        };
        let body = Full::from(answer.to_string()).map_err(BoxError::from).boxed_unsync();
        Ok(Response::builder().status(code).body(body)?)
    }

    #[tokio::test]
    async fn a_number_that_an_autoscaler_sets_just_before_a_write_stays() {
        let written = Arc::<Mutex<Vec<_>>>::default();
        let noted = Arc::clone(&written);
        let client = Client::new(tower::service_fn(move |request| serve(request, Arc::clone(&noted))), "mcp");
        let watches = Watches::start(&client, BTreeSet::new(), true);
        watches.cache_sync.settled().await;
        let leadership = Leadership::default();
        leadership.set(Some(Instant::now() + Duration::from_secs(600)));
        let writer = Writer::new(client, leadership, Liveness::default().pulse("plans"));
        let owner = Owner::gateway(ObjectKey::new("mcp", "main"), "u");
        let round = Round { writer: &writer, watches: &watches, owner: &owner };
        let desired = Manifest::from_json(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "main-gateway"}, "spec": {"replicas": 1, "paused": false}}));
        OwnedObjects::default().bring_scaled(&round, "main-gateway", &desired, true).await.unwrap();
        let written = written.lock().unwrap();
        let parts = |body: &Value| (body["metadata"]["resourceVersion"].clone(), body["spec"]["replicas"].clone());
        let expected = [(json!("1"), json!(3)), (json!("2"), Value::Null)];
        assert_eq!(written.iter().map(parts).collect::<Vec<_>>(), expected);
    }
}
