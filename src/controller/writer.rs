//! The only place that writes to the cluster, except for writes of the Lease. It writes only while this process leads. What
//! a loop asks for beside its writes, such as tokens, goes through it too, whether the process leads or not. Neither is
//! constantly repeated if it is forbidden.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::FIELD_MANAGER;
use super::lease::{Leadership, WRITE};
use super::liveness::Heartbeat;
use super::rights::{RequestError, Rights};

/// Sends the operator's requests, and remembers which are forbidden.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) leadership: Leadership,
    rights: Rights,
    /// The time limit of a write.
    limit: Duration,
    /// The pulse of the loop that uses this writer.
    pub(super) pulse: Heartbeat,
}

impl Writer {
    pub(super) fn new(client: Client, leadership: Leadership, pulse: Heartbeat) -> Self {
        Self { client, leadership, rights: Rights::default(), limit: WRITE, pulse }
    }

    /// Returns a writer that shares the state of this one, for another loop.
    pub(super) fn for_loop(&self, pulse: Heartbeat) -> Self {
        Self { pulse, ..self.clone() }
    }

    pub(super) fn leads(&self) -> bool {
        self.leadership.leads()
    }

    /// Forgets what is known about rights in a deleted namespace.
    pub(super) fn forget_rights(&self, namespace: &str) {
        self.rights.forget(namespace);
    }

    /// Sends a server-side apply. `what` names the resource and the namespace.
    pub(super) async fn apply<K, P>(&self, api: &Api<K>, what: &str, name: &str, object: &P) -> Result<K, RequestError>
    where
        K: Clone + DeserializeOwned + Debug,
        P: Serialize + Debug,
    {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.attempt(&format!("patch {what}"), name, api.patch(name, &params, &Patch::Apply(object))).await
    }

    /// Sends a server-side apply of the status.
    pub(super) async fn apply_status<K, P>(
        &self,
        api: &Api<K>,
        what: &str,
        name: &str,
        patch: &P,
    ) -> Result<K, RequestError>
    where
        K: DeserializeOwned,
        P: Serialize + Debug,
    {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(patch);
        self.attempt(&format!("patch {what} status"), name, api.patch_status(name, &params, &patch)).await
    }

    /// Deletes an object. An object that does not exist counts as deleted.
    pub(super) async fn delete<K>(&self, api: &Api<K>, what: &str, name: &str) -> Result<(), RequestError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        self.delete_with(api, what, name, &DeleteParams::default()).await.map(drop)
    }

    /// Returns whether the object existed.
    async fn delete_with<K>(
        &self,
        api: &Api<K>,
        what: &str,
        name: &str,
        params: &DeleteParams,
    ) -> Result<bool, RequestError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let deleted = async {
            match api.delete(name, params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
                other => other.map(|_| true),
            }
        };
        self.attempt(&format!("delete {what}"), name, deleted).await
    }

    /// Deletes the object that was seen with this metadata, but not a later one of the same name. Returns whether it
    /// existed.
    pub(super) async fn delete_this<K>(&self, api: &Api<K>, what: &str, seen: &ObjectMeta) -> Result<bool, RequestError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let preconditions = Preconditions { uid: seen.uid.clone(), resource_version: None };
        let params = DeleteParams::default().preconditions(preconditions);
        self.delete_with(api, what, seen.name.as_deref().unwrap_or_default(), &params).await
    }

    /// Sends `write`, unless this process does not lead, or it was forbidden a short time ago. `what` names the right
    /// that it needs, `name` its object.
    pub(super) async fn attempt<T>(
        &self,
        what: &str,
        name: &str,
        write: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        // The time limit starts when the write is sent, not while it waits here.
        let timed = async {
            let late = |_| Err(kube::Error::Service(format!("it was not written within {:?}", self.limit).into()));
            timeout(self.limit, write).await.unwrap_or_else(late)
        };
        let _under_way = self.leadership.writing();
        let result = self.rights.attempt(what, name, || self.leadership.leads(), timed).await;
        self.pulse.beats();
        result
    }

    /// Sends `read`, unless `what` was forbidden a short time ago.
    pub(super) async fn read<T>(
        &self,
        what: &str,
        read: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        let result = self.read_beside(what, read).await;
        self.pulse.beats();
        result
    }

    /// Like [`Self::read`], for a background task, whose reads do not count as progress of the loop.
    pub(super) async fn read_beside<T>(
        &self,
        what: &str,
        read: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RequestError> {
        self.rights.attempt(what, "", || true, read).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use kube::Config;

    use super::*;
    use crate::controller::liveness::Liveness;

    #[tokio::test]
    async fn a_write_that_is_not_answered_ends_and_its_time_begins_when_it_is_sent() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let nobody = Config::new("http://127.0.0.1:9".parse().unwrap());
        let leadership = Leadership::default();
        leadership.set(Some(Instant::now() + Duration::from_secs(60)));
        let client = Client::try_from(nobody).unwrap();
        let limit = Duration::from_millis(200);
        let writer = Writer { limit, ..Writer::new(client, leadership, Liveness::default().pulse("plans")) };
        let written = async {
            tokio::time::sleep(limit / 2).await;
            Ok::<_, kube::Error>(())
        };
        let (first, second) = tokio::join!(
            writer.attempt::<()>("patch pods in a", "x", std::future::pending()),
            // This write waits until the first one has found out whether the right is granted.
            writer.attempt("patch pods in a", "x", written),
        );
        assert!(first.unwrap_err().to_string().ends_with("it was not written within 200ms"));
        second.unwrap();
    }
}
