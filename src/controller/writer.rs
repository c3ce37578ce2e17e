//! The one place from which anything is written, the Lease apart: only while this process leads, and not again and
//! again where it is forbidden.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::FIELD_MANAGER;
use super::lease::Leadership;

/// How long what was forbidden is not tried again: only a person changes that.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(60);

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// Another process leads, or this one cannot tell.
    #[error("this process does not lead")]
    NotLeading,
    /// It was forbidden.
    #[error("{0}")]
    Forbidden(String),
    /// Somebody else wrote in between.
    #[error("it was changed in between")]
    Conflict,
    /// Anything else.
    #[error(transparent)]
    Api(Box<kube::Error>),
}

/// Writes for this operator.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) client: Client,
    leadership: Leadership,
    /// What was forbidden, when, and in which words: by verb, resource and namespace.
    forbidden: Arc<Mutex<HashMap<String, (Instant, String)>>>,
}

impl Writer {
    pub(super) fn new(client: Client, leadership: Leadership) -> Self {
        Self { client, leadership, forbidden: Arc::default() }
    }

    pub(super) fn leads(&self) -> bool {
        self.leadership.leads()
    }

    /// Server-side apply. `what` names the resource and namespace, for errors.
    pub(super) async fn apply<K>(&self, api: &Api<K>, what: &str, name: &str, object: &K) -> Result<K, WriteError>
    where
        K: Clone + DeserializeOwned + Serialize + Debug,
    {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.attempt(&format!("patch {what}"), api.patch(name, &params, &Patch::Apply(object))).await
    }

    /// Server-side apply of the status.
    pub(super) async fn apply_status<K, P>(
        &self,
        api: &Api<K>,
        what: &str,
        name: &str,
        patch: &P,
    ) -> Result<K, WriteError>
    where
        K: DeserializeOwned,
        P: Serialize + Debug,
    {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.attempt(&format!("patch {what}/status"), api.patch_status(name, &params, &Patch::Apply(patch))).await
    }

    /// Deletes. What is gone already is deleted.
    pub(super) async fn delete<K>(&self, api: &Api<K>, what: &str, name: &str) -> Result<(), WriteError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let deleted = async {
            match api.delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                other => other.map(drop),
            }
        };
        self.attempt(&format!("delete {what}"), deleted).await
    }

    /// Sends `write`, unless this process does not lead or was forbidden `what` a short time ago.
    pub(super) async fn attempt<T>(
        &self,
        what: &str,
        write: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, WriteError> {
        if let Some(words) = self.was_forbidden(what) {
            return Err(WriteError::Forbidden(words));
        }
        // Nothing comes between this and the request.
        if !self.leadership.leads() {
            return Err(WriteError::NotLeading);
        }
        match write.await {
            Ok(written) => Ok(written),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let mut forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
                forbidden.insert(what.to_owned(), (Instant::now(), status.message.clone()));
                Err(WriteError::Forbidden(status.message.clone()))
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Err(WriteError::Conflict),
            Err(error) => Err(WriteError::Api(Box::new(error))),
        }
    }

    fn was_forbidden(&self, what: &str) -> Option<String> {
        let mut forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        forbidden.retain(|_, (when, _)| when.elapsed() < FORBIDDEN_PAUSE);
        forbidden.get(what).map(|(_, words)| words.clone())
    }
}
