//! The state of the cluster as the operator sees it, in stores that watches keep current.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceSpec};
use kube::api::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::{Lookup, ObjectRef, Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::cache_sync::{CacheSync, WatchKey};
use super::dropped;
use super::kinds::{owned_kinds, resource, written_kinds};
use super::lowered::Origin;
use super::managed::{has_same_health, keep_health};
use super::named_namespaces::or_named;
use super::optional_kind::{Absence, OptionalKind, if_installed};
use super::owned::{keep_own, keep_own_status};
use super::owner::Owner;
use super::watch::{is_news, keep, slim};
use super::{GATEWAY_LABEL, MANAGED_BY};
use crate::api::item::{Item, watch, watch_config};
use crate::api::snapshot::GatewaySnapshot;
use crate::api::upstream::managed::UPSTREAM_LABEL;
use crate::domain::ids::{Kind, ObjectKey};

/// The name of the watch of managed upstreams' pods.
pub(super) const MANAGED_PODS: &str = "pods of servers";

/// The stores of one kind: one for each watched namespace, or a single one for all namespaces.
type Stores<K> = Vec<Store<K>>;

/// All watches, and their stores.
pub(super) struct Watches {
    /// The namespaces to watch; all if empty.
    pub(super) scope: BTreeSet<String>,
    objects: Vec<(Kind, Stores<DynamicObject>)>,
    pub(super) namespaces: Stores<PartialObjectMeta<Namespace>>,
    pub(super) config_maps: Stores<PartialObjectMeta<ConfigMap>>,
    pub(super) services: Stores<Service>,
    /// Gateways' pods.
    pub(super) pods: Stores<Pod>,
    /// Pods of managed upstreams, reduced by [`keep_health`]; none if the operator creates no pods.
    pub(super) managed_pods: Stores<Pod>,
    /// GatewaySnapshots, each of which holds an index or a shard.
    pub(super) snapshots: Stores<PartialObjectMeta<GatewaySnapshot>>,
    /// Objects other than snapshots that this operator created, by kind, reduced by [`keep_own`].
    owned: Vec<(ApiResource, Stores<DynamicObject>)>,
    /// Whether the extensions among their kinds are not installed.
    pub(super) extensions: Absence,
    /// Which watches have completed a list, and which are failing.
    pub(super) cache_sync: Arc<CacheSync>,
    /// Notified when a change requires a round of the planning loop.
    pub(super) changed: Arc<Notify>,
    /// Notified when something changes that belongs to a managed upstream, or a Service that its policy can name.
    pub(super) managed_changed: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Starts to watch these namespaces, or all namespaces if the set is empty. `runs_pods` is true if the operator
    /// creates workloads.
    pub(super) fn start(client: &Client, namespaces: BTreeSet<String>, runs_pods: bool) -> Self {
        let (changed, managed_changed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (cache_sync, extensions) = (Arc::default(), Absence::default());
        let mut starting = Starting {
            client,
            namespaces: &namespaces,
            changed: &changed,
            managed_changed: &managed_changed,
            cache_sync: &cache_sync,
            tasks: JoinSet::new(),
        };
        let managed = format!("{}={}", MANAGED_BY.0, MANAGED_BY.1);
        let with = |labels: &str| watch_config().labels(labels);
        let objects = written_kinds().map(|kind| (kind, starting.objects(kind))).collect();
        Self {
            objects,
            namespaces: starting.namespaces(),
            config_maps: starting.metadata(&watch_config()),
            services: {
                let same = |before: &Service, now: &Service| before.spec == now.spec;
                starting.typed_with(&watch_config(), (same, |_: &Service| Wakes::Both))
            },
            // Plans do not depend on pods, and the pod poller reads this store periodically.
            pods: starting.typed_with(&with(GATEWAY_LABEL), (|_: &Pod, _: &Pod| true, |_: &Pod| Wakes::Plans)),
            managed_pods: if runs_pods { starting.managed_pods() } else { Vec::new() },
            snapshots: starting.metadata(&with(&managed)),
            owned: owned_kinds(runs_pods)
                .map(|row| {
                    let extension = row.is_extension().then_some(&extensions);
                    (row.api_resource(), starting.owned(&row.api_resource(), extension, &with(&managed)))
                })
                .collect(),
            extensions,
            _tasks: starting.tasks,
            scope: namespaces,
            cache_sync,
            changed,
            managed_changed,
        }
    }

    /// Returns an object that this operator created, reduced by [`keep_own`], or `None` if the watch does not show it.
    pub(super) fn owned(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        let (kind, stores) = self.owned.iter().find(|(known, _)| known.plural == plural)?;
        let object = ObjectRef::new_with(name, kind.clone()).within(namespace);
        stores.iter().find_map(|store| store.get(&object))
    }

    /// Whether the watch of this kind shows an object for the owner's pods that belongs to the owner.
    pub(super) fn has_own(&self, plural: &str, owner: &Owner) -> bool {
        let seen = self.owned(plural, &owner.key.namespace, &owner.workload());
        seen.is_some_and(|seen| owner.owns(&seen.metadata))
    }

    /// Returns the spec of a Service, if the watch shows it.
    pub(super) fn service(&self, namespace: &str, name: &str) -> Option<ServiceSpec> {
        let object = ObjectRef::<Service>::new(name).within(namespace);
        self.services.iter().find_map(|store| store.get(&object)).and_then(|service| service.spec.clone())
    }

    /// Returns all snapshots, by the uids of their owners.
    pub(super) fn snapshots_by_owner(&self) -> HashMap<String, Vec<Seen>> {
        let mut found: HashMap<_, Vec<_>> = HashMap::new();
        for snapshot in all(&self.snapshots) {
            for owner in snapshot.metadata.owner_references.iter().flatten() {
                found.entry(owner.uid.clone()).or_default().push(Arc::clone(&snapshot));
            }
        }
        found
    }

    /// Returns the uids of all MCPGateways, by namespace and name.
    pub(super) fn gateways(&self) -> BTreeMap<ObjectKey, String> {
        let stores = self.objects.iter().filter(|(kind, _)| *kind == Kind::MCPGateway);
        let keyed = stores.flat_map(|(_, stores)| all(stores)).filter_map(|gateway| {
            let ObjectMeta { namespace, name, uid, .. } = &gateway.metadata;
            Some((ObjectKey::new(namespace.clone()?, name.clone()?), uid.clone()?))
        });
        keyed.collect()
    }

    /// Returns every object of the kinds that users write.
    pub(super) fn objects(&self) -> impl Iterator<Item = (Kind, Arc<DynamicObject>)> + '_ {
        self.objects.iter().flat_map(|(kind, stores)| all(stores).map(|object| (*kind, object)))
    }
}

/// Returns the name of the watch of objects that this operator created. It differs from `plural`, because some
/// resources, such as Services, have a second watch for other objects.
pub(super) fn watch_of_owned(plural: &str) -> String {
    format!("managed {plural}")
}

/// A snapshot object as the watch shows it.
pub(super) type Seen = Arc<PartialObjectMeta<GatewaySnapshot>>;

/// Returns all objects in these stores.
pub(super) fn all<K>(stores: &[Store<K>]) -> impl Iterator<Item = Arc<K>> + '_
where
    K: Lookup + Clone + 'static,
    K::DynamicType: Clone + Debug + Eq + Hash,
{
    stores.iter().flat_map(Store::state)
}

/// Returns all objects in these stores, by namespace and name.
pub(super) fn by_key<K>(stores: &Stores<K>) -> HashMap<(String, String), Arc<K>>
where
    K: Resource + Lookup + Clone + 'static,
    <K as Lookup>::DynamicType: Clone + Debug + Eq + Hash,
{
    all(stores)
        .map(|object| ((Resource::meta(&*object).namespace.clone().unwrap_or_default(), object.name_any()), object))
        .collect()
}

/// Everything that is needed to start watches.
struct Starting<'a> {
    client: &'a Client,
    namespaces: &'a BTreeSet<String>,
    changed: &'a Arc<Notify>,
    managed_changed: &'a Arc<Notify>,
    cache_sync: &'a Arc<CacheSync>,
    tasks: JoinSet<()>,
}

impl Starting<'_> {
    fn objects(&mut self, kind: Kind) -> Stores<DynamicObject> {
        let resource = resource(kind);
        let scopes = self.scopes(|client, namespace| match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        });
        // Only the parts that an object is lowered from count as a change, because the operator itself writes thousands
        // of statuses.
        let same =
            |before: &DynamicObject, now: &DynamicObject| Origin::of(&before.metadata) == Origin::of(&now.metadata);
        let follow = |(namespace, api): (String, Api<Item<DynamicObject>>)| {
            let stream =
                watch(api, watch_config()).modify(keep_own_status).modify(move |object| dropped::keep(kind, object));
            self.follow((resource.plural.clone(), namespace), resource.clone(), stream, (same, |_: &_| Wakes::Plans))
        };
        scopes.into_iter().map(follow).collect()
    }

    /// Starts the watches of objects that this operator created. With `extension`, which says whether the kind is not
    /// installed, the kind is watched only while it is.
    fn owned(
        &mut self,
        resource: &ApiResource,
        extension: Option<&Absence>,
        config: &watcher::Config,
    ) -> Stores<DynamicObject> {
        let scopes = self.scopes(|client, namespace| match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        });
        // Fields that others set do not count as a change, and neither does the status, but for what `keep_own` keeps.
        let same = |before: &DynamicObject, now: &DynamicObject| {
            let parts = |object: &DynamicObject| {
                let ObjectMeta { uid, labels, annotations, owner_references, .. } = object.metadata.clone();
                (uid, labels, annotations, owner_references)
            };
            parts(before) == parts(now) && before.data == now.data
        };
        let optional =
            extension.map(|absence| OptionalKind::new(self.client.clone(), resource.clone(), absence.clone()));
        let follow = |(namespace, api): (String, Api<Item<DynamicObject>>)| {
            let config = config.clone();
            let watch = move || watch(api.clone(), config.clone());
            let stream = match &optional {
                Some(kind) => if_installed(kind.clone(), watch),
                None => watch().boxed(),
            };
            let watched = (watch_of_owned(&resource.plural), namespace);
            self.follow(watched, resource.clone(), stream.modify(keep_own), (same, wakes))
        };
        scopes.into_iter().map(follow).collect()
    }

    /// Starts the watches of a kind; see [`Self::follow`].
    fn typed_with<K>(
        &mut self,
        config: &watcher::Config,
        news: (impl Fn(&K, &K) -> bool + Copy + Send + 'static, impl Fn(&K) -> Wakes + Copy + Send + 'static),
    ) -> Stores<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K: Send + Sync + 'static,
    {
        let scopes = self.scopes(scoped::<Item<K>>);
        let follow = |(namespace, api)| {
            let name = K::plural(&()).into_owned();
            self.follow((name, namespace), (), watch(api, config.clone()), news)
        };
        scopes.into_iter().map(follow).collect()
    }

    /// Starts the watch of the pods of managed upstreams.
    fn managed_pods(&mut self) -> Stores<Pod> {
        let scopes = self.scopes(scoped::<Item<Pod>>);
        let follow = |(namespace, api)| {
            let stream = watch(api, watch_config().labels(UPSTREAM_LABEL)).modify(keep_health);
            self.follow((MANAGED_PODS.to_owned(), namespace), (), stream, (has_same_health, |_: &Pod| Wakes::Servers))
        };
        scopes.into_iter().map(follow).collect()
    }

    fn metadata<K>(&mut self, config: &watcher::Config) -> Stores<PartialObjectMeta<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
        K: Send + Sync + 'static,
    {
        let scopes = self.scopes(scoped::<Item<PartialObjectMeta<K>>>);
        let follow = |(namespace, api)| {
            let news = (|_: &_, _: &_| false, |_: &_| Wakes::Plans);
            self.follow((K::plural(&()).into_owned(), namespace), (), watch(api, config.clone()), news)
        };
        scopes.into_iter().map(follow).collect()
    }

    fn namespaces(&mut self) -> Stores<PartialObjectMeta<Namespace>> {
        let api = Api::<Item<PartialObjectMeta<Namespace>>>::all(self.client.clone());
        let stream = or_named(watch(api, watch_config()), Api::all(self.client.clone()), self.namespaces);
        let news = (|_: &_, _: &_| false, |_: &_| Wakes::Plans);
        vec![self.follow(("namespaces".to_owned(), String::new()), (), stream, news)]
    }

    /// Returns each watched namespace with an API for it, or an empty name with an API for all namespaces.
    fn scopes<K>(&self, scope: impl Fn(Client, Option<&str>) -> Api<K>) -> Vec<(String, Api<K>)> {
        if self.namespaces.is_empty() {
            return vec![(String::new(), scope(self.client.clone(), None))];
        }
        self.namespaces.iter().map(|name| (name.clone(), scope(self.client.clone(), Some(name)))).collect()
    }

    /// Starts a watch that keeps the returned store current. It notifies those whom `wakes` returns when an object
    /// changes, unless `same` returns true for the two versions of the object.
    fn follow<K>(
        &mut self,
        watched: WatchKey,
        kind: <K as Resource>::DynamicType,
        stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
        (same, wakes): (impl Fn(&K, &K) -> bool + Send + 'static, impl Fn(&K) -> Wakes + Send + 'static),
    ) -> Store<K>
    where
        K: Resource + Lookup<DynamicType = <K as Resource>::DynamicType> + Clone + Send + Sync + 'static,
        <K as Resource>::DynamicType: Clone + Debug + Eq + Hash + Send + Sync,
    {
        let mut writer = store::Writer::new(kind.clone());
        let store = writer.as_reader();
        let (seen, changed, managed) = (store.clone(), Arc::clone(self.changed), Arc::clone(self.managed_changed));
        let cache_sync = Arc::clone(self.cache_sync);
        cache_sync.begins(&watched);
        let (told, listing) = (Arc::clone(&cache_sync), watched.clone());
        let hear = move |event: &watcher::Event<K>| {
            let news = is_news(&seen, &kind, event, &same);
            let before = match event {
                watcher::Event::Apply(object) | watcher::Event::Delete(object) => {
                    seen.get(&ObjectRef::from_obj_with(object, kind.clone()))
                }
                _ => None,
            };
            writer.apply_watcher_event(event);
            if matches!(event, watcher::Event::InitDone) {
                told.listed(&listing);
            }
            match event {
                watcher::Event::Apply(object) | watcher::Event::Delete(object) => {
                    // What no longer belongs to an upstream concerns the loop that it belonged to.
                    let wakes = before.map_or(wakes(object), |before| wakes(object).and(wakes(&before)));
                    if news && wakes != Wakes::Plans {
                        managed.notify_one();
                    }
                    news && wakes != Wakes::Servers
                }
                watcher::Event::InitDone => {
                    managed.notify_one();
                    news
                }
                watcher::Event::Init | watcher::Event::InitApply(_) => news,
            }
        };
        self.tasks.spawn(async move { keep(pin!(stream.modify(slim)), (&cache_sync, &watched), &changed, hear).await });
        store
    }
}

/// The loops that a change of an object concerns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wakes {
    /// The planning loop.
    Plans,
    /// The loop of managed servers.
    Servers,
    Both,
}

impl Wakes {
    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Both }
    }
}

/// Returns the loop that brings in line what the operator created: the one of servers if it belongs to an upstream.
fn wakes(object: &DynamicObject) -> Wakes {
    let is_of_upstream = object.owner_references().iter().any(|owner| owner.kind == Kind::MCPUpstream.as_str());
    if is_of_upstream { Wakes::Servers } else { Wakes::Plans }
}

fn scoped<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}
