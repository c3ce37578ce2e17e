//! Servers that other operators run: any kind that publishes `status.address.url`. Its definition need not be there.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, discovery};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::waits::{Waits, words};
use crate::api::item::{Item, watch, watch_config};
use crate::config::input::ServerInput;
use crate::domain::reason::Reason;

/// How often a kind that is not there, or may not be read, is looked for.
const PERIOD: Duration = Duration::from_secs(60);
/// How long a kind is watched that nothing names any more: an edit may name it again.
const KEPT: Duration = Duration::from_secs(60);
/// The most kinds that the upstreams of one namespace may name.
const MAX_OF_NAMESPACE: usize = 8;
/// The most watches: of kinds, and where the operator watches some namespaces only, of each in each.
const MAX_WATCHES: usize = 64;

/// What is watched: a group, a kind in it, and the namespace; none is all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Watched {
    group: String,
    kind: String,
    namespace: Option<String>,
}

/// What is known of a kind.
#[derive(Clone)]
enum State {
    /// Being looked for.
    Looking,
    /// It is not to be had, and why.
    Absent(String),
    /// It is watched.
    Watched(ApiResource, Store<DynamicObject>),
}

/// One watch. Dropped, it ends.
struct Watch {
    state: Arc<Mutex<State>>,
    /// When it was last named.
    named: Instant,
    _task: AbortOnDropHandle<()>,
}

/// The kinds that upstreams name, each watched while one does.
pub(super) struct Servers {
    client: Client,
    changed: Arc<Notify>,
    /// Whether the operator watches some namespaces only.
    is_scoped: bool,
    watches: HashMap<Watched, Watch>,
}

impl Servers {
    pub(super) fn new(client: Client, changed: Arc<Notify>, is_scoped: bool) -> Self {
        Self { client, changed, is_scoped, watches: HashMap::new() }
    }

    /// Where each of `servers`, which are in these namespaces, is reached. What none of them names is not watched any
    /// more after a while.
    pub(super) fn urls<'r>(
        &mut self,
        servers: impl Iterator<Item = &'r (String, ServerInput)> + Clone,
    ) -> BTreeMap<(String, ServerInput), Result<String, (Reason, String)>> {
        let now = Instant::now();
        for (namespace, server) in servers.clone() {
            if let Some(watch) = self.watches.get_mut(&self.watched(namespace, server)) {
                watch.named = now;
            }
        }
        self.watches.retain(|_, watch| now.saturating_duration_since(watch.named) < KEPT);
        let mut kinds: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
        let mut urls = BTreeMap::new();
        for named @ (namespace, server) in servers {
            let of_namespace = kinds.entry(namespace).or_default();
            let kind = (server.group.as_str(), server.kind.as_str());
            let url = if of_namespace.contains(&kind) || of_namespace.len() < MAX_OF_NAMESPACE {
                of_namespace.insert(kind);
                self.url(namespace, server, now)
            } else {
                let why = format!(
                    "{}.{}: the upstreams of a namespace may name servers of {MAX_OF_NAMESPACE} kinds, and others of \
                     {namespace} name that many: name the server by its URL (external.url)",
                    server.kind, server.group
                );
                Err((Reason::KindNotSupported, why))
            };
            urls.insert(named.clone(), url);
        }
        urls
    }

    /// Where `server`, of `namespace`, is reached.
    fn url(&mut self, namespace: &str, server: &ServerInput, now: Instant) -> Result<String, (Reason, String)> {
        let what = format!("{}.{} {namespace}/{}", server.kind, server.group, server.name);
        let (resource, store) = match self.state(namespace, server, now) {
            State::Looking => return Err((Reason::ServerNotFound, format!("{what} is being looked for"))),
            State::Absent(why) => return Err((Reason::KindNotSupported, format!("{what}: {why}"))),
            State::Watched(resource, store) => (resource, store),
        };
        let object = store.get(&ObjectRef::new_with(&server.name, resource).within(namespace));
        let object = object.ok_or_else(|| (Reason::ServerNotFound, format!("there is no {what}")))?;
        let url = object.data.as_str();
        let url = url.filter(|url| url.starts_with("http://") || url.starts_with("https://"));
        let url = url.ok_or_else(|| {
            (Reason::ServerNotFound, format!("{what} does not say yet where it is (its status.address.url)"))
        })?;
        Ok(server.path.as_ref().map_or_else(|| url.to_owned(), |path| with_path(url, path)))
    }

    fn state(&mut self, namespace: &str, server: &ServerInput, now: Instant) -> State {
        let watched = self.watched(namespace, server);
        let is_full = self.watches.len() >= MAX_WATCHES;
        let watch = match self.watches.entry(watched) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => {
                return State::Absent(format!(
                    "the operator makes {MAX_WATCHES} watches of servers already, which is the most: name the server by \
                     its URL (external.url)"
                ));
            }
            Entry::Vacant(new) => {
                let state = Arc::new(Mutex::new(State::Looking));
                let follow =
                    follow(self.client.clone(), new.key().clone(), Arc::clone(&state), Arc::clone(&self.changed));
                let task = AbortOnDropHandle::new(tokio::spawn(follow));
                new.insert(Watch { state, named: now, _task: task })
            }
        };
        watch.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn watched(&self, namespace: &str, server: &ServerInput) -> Watched {
        let namespace = self.is_scoped.then(|| namespace.to_owned());
        Watched { group: server.group.clone(), kind: server.kind.clone(), namespace }
    }
}

/// What is kept of a server: where it is, instead of everything else.
fn keep_url(server: &mut DynamicObject) {
    let url = server.data.pointer_mut("/status/address/url").map(Value::take);
    server.data = url.unwrap_or_default();
    let ObjectMeta { name, namespace, resource_version, uid, .. } = std::mem::take(&mut server.metadata);
    server.metadata = ObjectMeta { name, namespace, resource_version, uid, ..ObjectMeta::default() };
}

/// The URL with another path.
fn with_path(url: &str, path: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    format!("{}{path}", &url[..end])
}

fn api(client: Client, namespace: Option<&str>, resource: &ApiResource) -> Api<Item<DynamicObject>> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

/// Looks for the kind until it is there, then watches it.
async fn follow(client: Client, watched: Watched, state: Arc<Mutex<State>>, changed: Arc<Notify>) {
    let Watched { group, kind, namespace } = watched;
    let set = |next: State| {
        *state.lock().unwrap_or_else(PoisonError::into_inner) = next;
        changed.notify_one();
    };
    let resource = loop {
        match resource(&client, &group, &kind).await {
            Ok(resource) => break resource,
            Err(why) => set(State::Absent(why)),
        }
        tokio::time::sleep(PERIOD).await;
    };
    let writer = store::Writer::new(resource.clone());
    let store = writer.as_reader();
    let api = api(client, namespace.as_deref(), &resource);
    let news = AtomicBool::new(false);
    let note = |event: &Event<DynamicObject>| news.store(is_news(event, &store, &resource), Ordering::Relaxed);
    let mut stream = pin!(watch(api, watch_config()).modify(keep_url).inspect_ok(note).reflect(writer));
    let (mut waits, mut listed) = (Waits::default(), false);
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                // That a list begins says nothing yet.
                waits = if matches!(event, Event::Init) { waits } else { Waits::default() };
                listed |= matches!(event, Event::InitDone);
                if listed && news.load(Ordering::Relaxed) {
                    set(State::Watched(resource.clone(), store.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(group, kind, "a kind of servers cannot be watched: {}", words(&error));
                if let Some(state) = after_failure(listed, &error) {
                    set(state);
                }
                tokio::time::sleep(waits.after(&error, Instant::now())).await;
            }
        }
    }
}

/// Whether an event may change a server's URL: most kinds have objects that change often and have none. `store` is as it
/// was before the event.
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

/// What is known of a kind whose watch failed: one that was never listed says why. Of any other, what was seen last
/// counts on.
fn after_failure(listed: bool, error: &watcher::Error) -> Option<State> {
    (!listed).then(|| State::Absent(format!("the operator cannot read it: {}", words(error))))
}

async fn resource(client: &Client, group: &str, kind: &str) -> Result<ApiResource, String> {
    let absent = || format!("the cluster has no kind {kind} in group {group:?}");
    let found = discovery::group(client, group).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code != 404 => status.message.clone(),
        kube::Error::Api(_) | kube::Error::Discovery(_) => absent(),
        other => other.to_string(),
    })?;
    found.recommended_kind(kind).map(|(resource, _)| resource).ok_or_else(absent)
}

#[cfg(test)]
mod tests {
    use kube::Config;
    use kube::core::Status;

    use super::*;

    fn servers(is_scoped: bool) -> Servers {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let nobody = Config::new("http://127.0.0.1:9".parse().unwrap());
        Servers::new(Client::try_from(nobody).unwrap(), Arc::default(), is_scoped)
    }

    fn server(namespace: &str, kind: String) -> (String, ServerInput) {
        let group = "example.org".to_owned();
        (namespace.to_owned(), ServerInput { group, kind, name: "s".into(), port: None, path: None })
    }

    #[tokio::test]
    async fn kinds_are_bounded_in_a_namespace_and_in_all() {
        let mut all = servers(true);
        let named: Vec<_> = (0..9).map(|n| server("greedy", format!("K{n}"))).collect();
        let urls = all.urls(named.iter());
        let why = urls[&named[8]].clone().unwrap_err();
        assert!(why.0 == Reason::KindNotSupported && why.1.contains("8 kinds"), "{why:?}");
        assert_eq!(urls.values().filter(|url| matches!(url, Err((Reason::ServerNotFound, _)))).count(), 8);
        let named: Vec<_> = (0..100).map(|n| server(&format!("n{n}"), "K0".into())).collect();
        let urls = all.urls(named.iter());
        assert_eq!(all.watches.len(), MAX_WATCHES);
        assert_eq!(
            urls.values().filter(|url| matches!(url, Err((Reason::ServerNotFound, _)))).count(),
            MAX_WATCHES - 8
        );
        let mut one = servers(false);
        one.urls(named.iter());
        assert_eq!(one.watches.len(), 1, "a kind is watched once where all namespaces are");
    }

    #[tokio::test]
    async fn a_kind_that_nothing_names_any_more_is_not_watched_any_more() {
        let mut servers = servers(false);
        let named = [server("a", "K".into()), server("a", "L".into())];
        servers.urls(named.iter());
        let long_ago = Instant::now().checked_sub(KEPT).unwrap();
        servers.watches.values_mut().for_each(|watch| watch.named = long_ago);
        servers.urls(named[..1].iter());
        let kinds: Vec<_> = servers.watches.keys().map(|watched| watched.kind.as_str()).collect();
        assert_eq!(kinds, ["K"]);
    }

    #[test]
    fn a_watch_that_fails_takes_nothing_away_that_was_seen() {
        let status = Status { code: 403, message: "servers is forbidden".into(), ..Status::default() };
        let error = watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()));
        assert!(after_failure(true, &error).is_none());
        let Some(State::Absent(why)) = after_failure(false, &error) else { panic!("it does not say why") };
        assert_eq!(why, "the operator cannot read it: servers is forbidden");
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

    #[test]
    fn a_path_takes_the_place_of_another() {
        for (url, expected) in [
            ("http://host:1/a/b?c", "http://host:1/mcp"),
            ("https://host", "https://host/mcp"),
            ("http://host#x", "http://host/mcp"),
        ] {
            assert_eq!(with_path(url, "/mcp"), expected);
        }
    }
}
