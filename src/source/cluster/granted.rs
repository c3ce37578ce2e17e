//! Secrets of other namespaces, which their owners granted to this gateway: read by name, with the pod's own rights.
//!
//! Values are kept in memory only. While the API server is away, a known value stays.

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

/// The most Secrets that are followed: as many as an index names.
const MAX_SECRETS: usize = 1024;
/// The waits between two tries.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// How long a plan waits for the first answers about Secrets that it names anew.
const FIRST_ANSWERS: Duration = Duration::from_secs(2);
/// How often in a row access is denied before a known value is given up: an API server that has just started denies
/// what it will allow once it has read its roles.
const DENIALS: u32 = 3;

type Values = BTreeMap<String, Result<SecretText, NoSecret>>;

/// The last result of reading one Secret.
type SecretReading = Result<Values, NoSecret>;

/// The Secrets that are followed.
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

    /// Follows these from now on, and no others. Waits a little for what is said of new ones.
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

    /// Waits until something is known that was not.
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

/// The way of one Secret.
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

    /// Reads it, and follows its changes until the watch ends, as it does after a while.
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
                // Most often the version is too old to go on from: read it again.
                WatchEvent::Error(error) => return Err(kube::Error::Api(error.boxed())),
            }
        }
        Ok(())
    }

    /// What a failure says of the Secret. That nobody answers says nothing of one that is known.
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
