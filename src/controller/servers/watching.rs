//! Follows one kind of server: looks for it until it exists, then watches it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, discovery};
use serde_json::Value;
use tokio::sync::Notify;

use super::super::backoff::{RetryBackoff, is_absent, words};
use crate::api::item::{Item, watch, watch_config};
use crate::domain::causes::causes;

/// How often to look for a kind that does not exist or cannot be read.
const PERIOD: Duration = Duration::from_secs(60);
/// For how long after its start an API server may not yet know all the kinds that it serves.
const STARTING: Duration = Duration::from_secs(30);

/// A kind to watch, in one namespace or, if `namespace` is `None`, in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct WatchedKind {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) namespace: Option<String>,
}

/// The state of a kind.
#[derive(Clone)]
pub(super) enum State {
    /// The kind is being looked for.
    Looking,
    /// The kind cannot be watched, for this reason.
    Absent(String),
    /// The kind is watched.
    Watched(ApiResource, Store<DynamicObject>),
}

/// The state of a kind, shared by the task that follows it and its readers.
#[derive(Clone)]
pub(super) struct Shared {
    state: Arc<Mutex<State>>,
    /// Notified when the state or a watched server changes.
    changed: Arc<Notify>,
}

impl Shared {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { state: Arc::new(Mutex::new(State::Looking)), changed }
    }

    pub(super) fn get(&self) -> State {
        self.lock().clone()
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(*self.lock(), State::Absent(_))
    }

    pub(super) fn set(&self, next: State) {
        let mut state = self.lock();
        let is_known = matches!((&*state, &next), (State::Absent(before), State::Absent(now)) if before == now);
        *state = next;
        if !is_known {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks for the kind until it exists, then watches it, in whichever version the cluster serves.
pub(super) async fn follow(client: Client, watched: WatchedKind, shared: Shared) {
    let WatchedKind { group, kind, namespace } = &watched;
    // When the kind last existed; `None` if it never did, or is known to be absent.
    let mut there: Option<Instant> = None;
    let mut waits = RetryBackoff::default();
    loop {
        match resource(&client, group, kind).await {
            Ok(resource) => {
                let api = api(client.clone(), namespace.as_deref(), &resource);
                let is_listed = there.is_some_and(|there| there.elapsed() < STARTING);
                if follow_version(api, &resource, &shared, is_listed, &mut waits).await {
                    there = Some(Instant::now());
                }
            }
            Err(fault) => {
                // An API server that has just started may not yet know all the kinds that it serves.
                let is_starting = there.is_some_and(|there| there.elapsed() < STARTING);
                if is_starting || !fault.is_lasting() {
                    tracing::warn!(group, kind, "a kind of servers cannot be looked for: {}", fault.why);
                    tokio::time::sleep(waits.after_code(fault.code, Instant::now())).await;
                    continue;
                }
                shared.set(State::Absent(fault.why));
                there = None;
                tokio::time::sleep(PERIOD).await;
            }
        }
    }
}

/// Watches one version of the kind until the cluster no longer serves it. Returns whether the version was ever listed.
/// `is_listed` is true if another version was listed a short time ago.
async fn follow_version(
    api: Api<Item<DynamicObject>>,
    resource: &ApiResource,
    shared: &Shared,
    is_listed: bool,
    waits: &mut RetryBackoff,
) -> bool {
    let writer = store::Writer::new(resource.clone());
    let store = writer.as_reader();
    let news = AtomicBool::new(false);
    let note = |event: &Event<DynamicObject>| news.store(is_news(event, &store, resource), Ordering::Relaxed);
    let mut stream = pin!(watch(api, watch_config()).modify(keep_url).inspect_ok(note).reflect(writer));
    let mut listed = false;
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                // The start of a list is not a success yet.
                if !matches!(event, Event::Init) {
                    waits.worked();
                }
                listed |= matches!(event, Event::InitDone);
                if listed && news.load(Ordering::Relaxed) {
                    shared.set(State::Watched(resource.clone(), store.clone()));
                }
            }
            Err(error) => {
                let (group, kind) = (&resource.group, &resource.kind);
                tracing::warn!(group, kind, "a kind of servers cannot be watched: {}", words(&error));
                let is_seen = listed || is_listed;
                if let Some(state) = after_failure(is_seen, &error) {
                    shared.set(state);
                }
                let is_absent = is_absent(&error);
                let wait = waits.after(&error, Instant::now());
                tokio::time::sleep(if is_absent && !is_seen { PERIOD } else { wait }).await;
                if is_absent {
                    break;
                }
            }
        }
    }
    listed
}

/// Drops everything of a server except its identity and its URL, to save memory.
fn keep_url(server: &mut DynamicObject) {
    let url = server.data.pointer_mut("/status/address/url").map(Value::take);
    server.data = url.unwrap_or_default();
    let ObjectMeta { name, namespace, resource_version, uid, .. } = std::mem::take(&mut server.metadata);
    server.metadata = ObjectMeta { name, namespace, resource_version, uid, ..ObjectMeta::default() };
}

fn api(client: Client, namespace: Option<&str>, resource: &ApiResource) -> Api<Item<DynamicObject>> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

/// Whether an event can change a server's URL. Most kinds have objects that change often and have no URL. `store` must
/// not have received the event yet.
fn is_news(event: &Event<DynamicObject>, store: &Store<DynamicObject>, resource: &ApiResource) -> bool {
    match event {
        Event::Apply(object) => {
            let before = store.get(&ObjectRef::from_obj_with(object, resource.clone()));
            before.as_ref().map_or(&Value::Null, |before| &before.data) != &object.data
        }
        Event::Delete(object) => !object.data.is_null(),
        Event::InitDone => true,
        Event::Init | Event::InitApply(_) => false,
    }
}

/// Returns the state of a kind after its watch failed: a kind that was never listed becomes absent. `None` if the
/// state stays, because the objects that were last seen remain valid.
fn after_failure(listed: bool, error: &watcher::Error) -> Option<State> {
    (!listed).then(|| State::Absent(format!("the operator cannot read it: {}", words(error))))
}

/// Why a kind was not found.
struct Fault {
    /// The status code of the API server's answer; `None` if it did not answer.
    code: Option<u16>,
    why: String,
}

impl Fault {
    /// Whether only a person can change the cause: the kind does not exist, or access to it is forbidden.
    fn is_lasting(&self) -> bool {
        matches!(self.code, Some(403 | 404))
    }
}

async fn resource(client: &Client, group: &str, kind: &str) -> Result<ApiResource, Fault> {
    let absent = || Fault { code: Some(404), why: format!("the cluster has no kind {kind} in group {group:?}") };
    let found = discovery::group(client, group).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code != 404 => {
            Fault { code: Some(status.code), why: status.message.clone() }
        }
        kube::Error::Api(_) | kube::Error::Discovery(_) => absent(),
        other => Fault { code: None, why: causes(&other) },
    })?;
    found.recommended_kind(kind).map(|(resource, _)| resource).ok_or_else(absent)
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt;
    use http::{Request, Response};
    use kube::client::Body;
    use kube::core::Status;
    use serde_json::json;
    use tokio_util::task::AbortOnDropHandle;
    use tower::BoxError;

    use super::*;

    #[test]
    fn a_watch_that_fails_takes_nothing_away_that_was_seen() {
        let status = Status { code: 403, message: "servers is forbidden".into(), ..Status::default() };
        let error = watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()));
        assert!(after_failure(true, &error).is_none());
        let Some(State::Absent(why)) = after_failure(false, &error) else { panic!("it does not say why") };
        assert_eq!(why, "the operator cannot read it: servers is forbidden");
    }

    #[tokio::test]
    async fn an_api_server_that_fails_says_nothing_of_a_kind() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let answer = move |_: Request<Body>| {
            let code = if counted.fetch_add(1, Ordering::Relaxed) < 1 { 503 } else { 404 };
            let status =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "m", "code": code});
            let body = Body::from(status.to_string().into_bytes());
            ready(Ok::<_, BoxError>(Response::builder().status(code).body(body).unwrap()))
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let (changed, watched) =
            (Arc::new(Notify::new()), WatchedKind { group: "g".into(), kind: "K".into(), namespace: None });
        let shared = Shared::new(Arc::clone(&changed));
        let _follows = AbortOnDropHandle::new(tokio::spawn(follow(client, watched, shared.clone())));
        tokio::time::timeout(PERIOD / 2, changed.notified()).await.expect("what failed is tried again soon");
        assert!(shared.is_absent() && asked.load(Ordering::Relaxed) == 2);
        shared.set(shared.get());
        assert!(changed.notified().now_or_never().is_none(), "that is no news");
    }

    #[test]
    fn an_object_whose_url_is_as_it_was_wakes_nobody() {
        let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("example.org", "v1", "K"));
        let mut writer = store::Writer::new(resource.clone());
        let store = writer.as_reader();
        let object = |url: Value| {
            let mut object = DynamicObject::new("s", &resource).within("ns");
            object.data = serde_json::json!({"spec": {}, "status": {"address": {"url": url}}});
            keep_url(&mut object);
            object
        };
        let (none, url) = (|| object(Value::Null), || object("http://s".into()));
        let mut hears = |event: Event<DynamicObject>| {
            let news = is_news(&event, &store, &resource);
            writer.apply_watcher_event(&event);
            news
        };
        assert!(!hears(Event::Init) && hears(Event::InitDone));
        let (apply, delete) = (Event::Apply, Event::Delete);
        assert!(!hears(apply(none())) && !hears(delete(none())), "it has no URL");
        assert!(hears(apply(url())) && !hears(apply(url())) && hears(apply(none())) && hears(apply(url())));
        assert!(hears(delete(url())));
    }
}
