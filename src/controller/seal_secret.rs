//! The Secret with the key that a gateway's pods seal session ids with. The operator may only create Secrets, and cannot
//! read this one.

use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use super::apply::ApplyError;
use super::changes;
use super::owner::Owner;
use super::pods::Pods;
use super::rights::RequestError;
use super::writer::Writer;
use crate::api::gateway::pods::{SEAL_KEY, seal_secret};
use crate::domain::report::OWN_SEAL_KEY;

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// How long pods have to read a Secret that was created, before it is created again. A kubelet takes up to two minutes.
const PATIENCE: Duration = Duration::from_secs(180);
/// When to create a Secret again that was found to exist, each after the time before. It can be the one of an earlier
/// gateway of the same name, which Kubernetes is about to delete.
const LOOKS: [Duration; 3] = [Duration::from_secs(10), Duration::from_secs(30), Duration::from_secs(90)];

/// What is known about the Secret of one gateway.
#[derive(Default)]
pub(super) struct SealSecret {
    /// When the Secret was created or found to exist.
    there: Option<Instant>,
    /// How often it was found to exist.
    found: usize,
    /// When to create it again, in case that the one that was found is gone.
    again: Option<Instant>,
}

impl SealSecret {
    /// Processes the pods' reports. If one has no key although it had the time to read it, the Secret may be gone.
    pub(super) fn hear(&mut self, pods: &Pods, now: Instant) {
        let lacks = pods.reports().any(|report| report.seal_key == OWN_SEAL_KEY);
        self.there = self.there.filter(|there| !lacks || now.saturating_duration_since(*there) < PATIENCE);
    }

    /// Creates the Secret, unless it is known to exist. One that exists stays as it is.
    pub(super) async fn create(&mut self, writer: &Writer, owner: &Owner) -> Result<(), ApplyError> {
        if self.there.is_some() && self.again.is_none_or(|again| Instant::now() < again) {
            return Ok(());
        }
        let namespace = &owner.key.namespace;
        let what = format!("secrets in {namespace}");
        let Some(secret) = secret(owner) else { return Ok(()) };
        let api: Api<Secret> = Api::namespaced(writer.client.clone(), namespace);
        let params = PostParams::default();
        let created = api.create(&params, &secret);
        match writer.attempt(&format!("create {what}"), &secret.name_any(), created).await {
            Ok(_) => {
                changes::created(owner, &format!("Secret {namespace}/{}", secret.name_any()));
                (self.there, self.again) = (Some(Instant::now()), None);
                Ok(())
            }
            Err(RequestError::Conflict) => {
                let now = Instant::now();
                (self.there, self.again) = (Some(now), LOOKS.get(self.found).map(|pause| now + *pause));
                self.found += 1;
                Ok(())
            }
            Err(error) => Err(ApplyError::Request { what, error }),
        }
    }
}

/// Returns the Secret with a new key; `None` if the operating system gives no random bytes.
fn secret(owner: &Owner) -> Option<Secret> {
    let mut key = [0; KEY_BYTES];
    rand::fill(&mut key).ok()?;
    Some(Secret {
        metadata: owner.metadata(&seal_secret(&owner.key.name), None),
        data: Some([(SEAL_KEY.to_owned(), ByteString(STANDARD.encode(key).into_bytes()))].into()),
        ..Secret::default()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use http_body_util::BodyExt;
    use kube::Client;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::lease::Leadership;
    use crate::controller::liveness::Liveness;
    use crate::controller::pods::Reported;
    use crate::domain::ids::ObjectKey;
    use crate::domain::report::Report;

    /// An API server to which only this request, counted from 1, is of a Secret that does not exist; and what it was
    /// sent.
    fn api_server(created: usize) -> (Writer, Arc<Mutex<Vec<Value>>>) {
        let sent = Arc::<Mutex<Vec<Value>>>::default();
        let received = Arc::clone(&sent);
        let server = tower::service_fn(move |request: Request<Body>| {
            assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/api/v1/namespaces/mcp/secrets"));
            let received = Arc::clone(&received);
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                let mut received = received.lock().unwrap();
                received.push(serde_json::from_slice(&body).unwrap());
                let exists = json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "AlreadyExists"});
                let (code, body) = if received.len() == created {
                    (201, body.to_vec())
                } else {
                    (409, exists.to_string().into_bytes())
                };
                Ok::<_, kube::Error>(Response::builder().status(code).body(Body::from(body)).unwrap())
            }
        });
        let leadership = Leadership::default();
        leadership.set(Some(Instant::now() + Duration::from_secs(600)));
        (Writer::new(Client::new(server, "mcp"), leadership, Liveness::default().pulse("plans")), sent)
    }

    /// A pod whose report says this about its key.
    fn pods(seal_key: &str) -> Pods {
        let report = Report { seal_key: seal_key.to_owned(), ..Report::default() };
        Pods { all: 1, ready: [("pod".to_owned(), Ok(Arc::new(Reported::new(report))))].into(), ..Pods::default() }
    }

    #[tokio::test]
    async fn the_secret_is_created_once_and_again_when_pods_do_not_have_it() {
        let ((writer, sent), owner) = (api_server(1), Owner::gateway(ObjectKey::new("mcp", "main"), "u"));
        let (mut secret, count) = (SealSecret::default(), || sent.lock().unwrap().len());
        for _ in 0..2 {
            secret.create(&writer, &owner).await.unwrap();
        }
        assert_eq!(count(), 1);
        let (now, later) = (Instant::now(), Instant::now() + PATIENCE);
        for (reported, at, expected) in [("shared", later, 1), ("", later, 1), ("own", now, 1), ("own", later, 2)] {
            secret.hear(&pods(reported), at);
            secret.create(&writer, &owner).await.unwrap();
            assert_eq!(count(), expected, "{reported:?}");
        }
        secret.create(&writer, &owner).await.unwrap();
        assert_eq!(count(), 2, "one that exists is as good as one that was created");

        let sent = sent.lock().unwrap();
        let metadata = &sent[0]["metadata"];
        assert_eq!(metadata["name"], "main-gateway-seal");
        assert_eq!(metadata["ownerReferences"][0]["uid"], "u");
        let text = |secret: &Value| STANDARD.decode(secret["data"]["key"].as_str().unwrap()).unwrap();
        let keys: HashSet<_> = sent.iter().map(|secret| STANDARD.decode(text(secret)).unwrap()).collect();
        assert!(keys.len() == 2 && keys.iter().all(|key| key.len() == KEY_BYTES), "each key is a new one");
    }

    #[tokio::test]
    async fn the_secret_of_an_earlier_gateway_that_is_about_to_be_deleted_is_replaced_soon() {
        let owner = Owner::gateway(ObjectKey::new("mcp", "main"), "u");
        // Creates it as often as it is due, and returns the pauses in seconds.
        let pauses = async |created: usize| {
            let (writer, sent) = api_server(created);
            let (mut secret, mut pauses) = (SealSecret::default(), Vec::new());
            loop {
                secret.create(&writer, &owner).await.unwrap();
                let before = sent.lock().unwrap().len();
                assert_eq!(before, pauses.len() + 1);
                secret.create(&writer, &owner).await.unwrap();
                assert_eq!(sent.lock().unwrap().len(), before, "not so soon");
                let Some(again) = secret.again else { return pauses };
                pauses.push(again.duration_since(secret.there.unwrap()).as_secs());
                secret.again = Some(Instant::now());
            }
        };
        assert_eq!(pauses(1).await, [0; 0]);
        assert_eq!(pauses(2).await, [10], "it was gone, and is there again");
        assert_eq!(pauses(9).await, [10, 30, 90], "it stays");
    }
}
