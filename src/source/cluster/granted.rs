//! Values of Secrets of other namespaces. Their owners granted this gateway access, and the pod reads them by name.
//!
//! Values are kept in memory only. A known value stays while the API server cannot be reached.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::super::doubling_backoff::DoublingBackoff;
use crate::api::item::WATCH_SECONDS;
use crate::domain::ids::ObjectKey;
use crate::domain::secret::{NoSecret, SecretText, text_of};

/// The maximum number of Secrets that are followed: as many as an index can name.
const MAX_SECRETS: usize = 1024;
/// The pauses between retries: the first one, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// How long a new plan waits until its new Secrets have been read.
const FIRST_ANSWERS: Duration = Duration::from_secs(2);
/// How many denials in a row discard a known value. One is not enough, because an API server that has just started
/// denies everything until it has read its roles.
const DENIALS: u32 = 3;

type Values = BTreeMap<String, Result<SecretText, NoSecret>>;

/// The last result of reading one Secret.
type SecretReading = Result<Values, NoSecret>;

/// Keeps the values of the followed Secrets up to date.
pub(super) struct Granted {
    client: Client,
    shared: Arc<GrantedState>,
    following: HashMap<ObjectKey, AbortHandle>,
}

#[derive(Default)]
struct GrantedState {
    known: Mutex<HashMap<ObjectKey, SecretReading>>,
    changed: Notify,
    answered: Notify,
}

impl Granted {
    pub(super) fn new(client: Client) -> Self {
        Self { client, shared: Arc::default(), following: HashMap::new() }
    }

    /// Follows these Secrets from now on, and no others. Waits up to two seconds until the new ones have been read.
    pub(super) async fn follow(&mut self, wanted: &BTreeSet<ObjectKey>) {
        self.following.retain(|key, task| {
            let kept = wanted.contains(key);
            if !kept {
                task.abort();
                self.shared.known().remove(key);
            }
            kept
        });
        let new: Vec<_> = wanted.iter().filter(|key| !self.following.contains_key(*key)).cloned().collect();
        if new.is_empty() {
            return;
        }
        for key in &new {
            if self.following.len() >= MAX_SECRETS {
                tracing::error!(secret = %key, "not read: a plan may name {MAX_SECRETS} Secrets of other namespaces");
                continue;
            }
            let one = One {
                api: Api::namespaced(self.client.clone(), &key.namespace),
                key: key.clone(),
                shared: Arc::clone(&self.shared),
            };
            self.following.insert(key.clone(), tokio::spawn(one.follow()).abort_handle());
        }
        let answers = async {
            loop {
                let answered = self.shared.answered.notified();
                if new.iter().all(|key| self.shared.known().contains_key(key)) {
                    return;
                }
                answered.await;
            }
        };
        let _ = tokio::time::timeout(FIRST_ANSWERS, answers).await;
    }

    /// Waits until a value, or the reason for its absence, has changed.
    pub(super) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    pub(super) fn value(&self, secret: &ObjectKey, key: &str) -> Result<SecretText, NoSecret> {
        match self.shared.known().get(secret) {
            None => Err(NoSecret::NotRead),
            Some(Err(why)) => Err(*why),
            Some(Ok(values)) => values.get(key).cloned().unwrap_or(Err(NoSecret::NotFound)),
        }
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.following.values().for_each(AbortHandle::abort);
    }
}

impl GrantedState {
    fn known(&self) -> MutexGuard<'_, HashMap<ObjectKey, SecretReading>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, key: &ObjectKey, now: SecretReading) {
        let before = self.known().insert(key.clone(), now.clone());
        if before.as_ref() != Some(&now) {
            self.changed.notify_one();
        }
        self.answered.notify_one();
    }
}

/// Follows one Secret.
struct One {
    api: Api<Secret>,
    key: ObjectKey,
    shared: Arc<GrantedState>,
}

impl One {
    async fn follow(self) {
        let mut waits = DoublingBackoff::new(FIRST_WAIT, LONGEST_WAIT);
        let mut denials = 0;
        loop {
            match self.read_and_watch().await {
                Ok(()) => (waits, denials) = (DoublingBackoff::new(FIRST_WAIT, LONGEST_WAIT), 0),
                Err(error) => {
                    denials = if is_code(&error, 403) { denials + 1 } else { 0 };
                    self.note(&error, denials);
                }
            }
            tokio::time::sleep(waits.next().unwrap_or(LONGEST_WAIT)).await;
        }
    }

    /// Reads the Secret, and then follows its changes until the watch ends after [`WATCH_SECONDS`] or fails.
    async fn read_and_watch(&self) -> kube::Result<()> {
        let secret = self.api.get(&self.key.name).await?;
        let version = secret.resource_version().unwrap_or_default();
        self.shared.set(&self.key, Ok(values(&secret)));
        let fields = format!("metadata.name={}", self.key.name);
        let watch = WatchParams::default().fields(&fields).timeout(WATCH_SECONDS);
        let mut events = std::pin::pin!(self.api.watch(&watch, &version).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(secret) | WatchEvent::Modified(secret) => {
                    self.shared.set(&self.key, Ok(values(&secret)));
                }
                WatchEvent::Deleted(_) => self.shared.set(&self.key, Err(NoSecret::NotFound)),
                WatchEvent::Bookmark(_) => {}
                // Usually the resource version has expired. The caller reads the Secret again.
                WatchEvent::Error(error) => return Err(kube::Error::Api(error.boxed())),
            }
        }
        Ok(())
    }

    /// Records a failure to read the Secret. A known value stays unless the Secret is gone or access is denied
    /// repeatedly.
    fn note(&self, error: &kube::Error, denials: u32) {
        let is_known = self.shared.known().get(&self.key).is_some_and(Result::is_ok);
        let now = match error {
            _ if is_code(error, 404) => NoSecret::NotFound,
            _ if is_code(error, 403) && (!is_known || denials >= DENIALS) => NoSecret::NotGranted,
            _ if !is_known && !is_code(error, 403) => NoSecret::NotRead,
            _ => return,
        };
        tracing::debug!(secret = %self.key, %error, "a Secret of another namespace cannot be read");
        self.shared.set(&self.key, Err(now));
    }
}

fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

fn values(secret: &Secret) -> Values {
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| (key.clone(), text_of(&value.0))).collect()
}
