//! Resolves what objects refer to: ConfigMaps, which are read again only when they change; Services and servers of
//! other operators, as the watches show them; and labels of namespaces.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{Api, ResourceExt};
use tokio::sync::watch;

use super::managed_state::{Address, ManagedServers};
use super::references::References;
use super::rights::RequestError;
use super::servers::Servers;
use super::watches::{Watches, all, by_key};
use super::writer::Writer;
use crate::api::upstream::managed::workload;
use crate::config::input::{ConfigMapData, Labels, ManagedInput, ServerInput};
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// How long to wait after a transient failure before a ConfigMap is read again.
const PAUSE: Duration = Duration::from_secs(5);

/// Why a managed upstream has no server if the operator creates no pods.
const NO_IMAGE: &str = "the operator runs no servers: start it with --gateway-image";

/// Resolves references, and remembers the ConfigMaps that it read.
pub(super) struct Dereferencing {
    writer: Writer,
    servers: Servers,
    /// The servers that the operator runs; `None` if it runs none.
    managed: Option<watch::Receiver<ManagedServers>>,
    config_maps: BTreeMap<ObjectKey, Known>,
}

/// The last known state of one ConfigMap.
struct Known {
    /// Resource version of the ConfigMap from which `data` was read; `None` if there is no data.
    version: Option<String>,
    data: ConfigMapData,
    /// When to try again after a failed read.
    again: Option<Instant>,
}

/// The results of resolving references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dereferenced {
    pub(super) config_maps: BTreeMap<ObjectKey, ConfigMapData>,
    pub(super) servers: BTreeMap<(String, ServerInput), Result<String, (Reason, String)>>,
    pub(super) managed: BTreeMap<ObjectKey, Result<String, (Reason, String)>>,
    pub(super) namespaces: BTreeMap<String, Labels>,
    /// Whether the operator makes no pods of gateways and servers.
    pub(super) no_pods: bool,
}

impl Dereferencing {
    /// `managed` are the servers that the operator runs; `None` if it runs none.
    pub(super) fn new(writer: Writer, watches: &Watches, managed: Option<watch::Receiver<ManagedServers>>) -> Self {
        let servers = Servers::new(writer.client.clone(), watches.changed.clone(), !watches.scope.is_empty());
        Self { writer, servers, managed, config_maps: BTreeMap::new() }
    }

    /// Resolves `references`. While a ConfigMap cannot be read because of a transient failure, its last data stays in
    /// use.
    pub(super) async fn find(&mut self, references: &References, watches: &Watches) -> Dereferenced {
        self.read_config_maps(references, watches).await;
        let services = by_key(&watches.services);
        let unseen = watches.cache_sync.unseen(&["services"]);
        let (of_services, of_others): (Vec<_>, Vec<_>) = references.servers.iter().partition(|(_, s)| is_service(s));
        let mut servers = self.servers.urls(of_others.iter().copied());
        servers.extend(of_services.into_iter().map(|named @ (namespace, server)| {
            let url = match &unseen {
                Some(why) => Err((Reason::Unreadable, why.clone())),
                None => {
                    let service = services.get(&(namespace.clone(), server.name.clone()));
                    service_url(service.map(|service| &**service), namespace, server)
                }
            };
            (named.clone(), url)
        }));
        let namespaces = all(&watches.namespaces).map(|namespace| (namespace.name_any(), namespace.labels().clone()));
        Dereferenced {
            config_maps: self.config_maps.iter().map(|(key, known)| (key.clone(), known.data.clone())).collect(),
            servers,
            managed: self.managed_urls(references),
            namespaces: namespaces.collect(),
            no_pods: self.managed.is_none(),
        }
    }

    /// Returns the URL of each managed server whose Service was seen and is the upstream's. Of upstreams that cannot be
    /// read, only those are returned whose name somebody else has: what ran before may not run on then.
    fn managed_urls(&self, references: &References) -> BTreeMap<ObjectKey, Result<String, (Reason, String)>> {
        let Some(managed) = &self.managed else {
            let none = |key: &ObjectKey| (key.clone(), Err((Reason::ServerNotFound, NO_IMAGE.to_owned())));
            return references.managed.keys().map(none).collect();
        };
        let known = ManagedServers::clone(&managed.borrow());
        let taken = known.iter().filter_map(|(key, server)| match &server.address {
            Address::Taken(why) => Some((key.clone(), Err((Reason::NameTaken, why.clone())))),
            _ => None,
        });
        let url = |(key, server): (&ObjectKey, &ManagedInput)| {
            let pending = |why: &str| Err((Reason::Pending, why.to_owned()));
            let url = match known.get(key).map(|known| &known.address) {
                None => pending("its server was not looked at yet"),
                Some(Address::Unseen) => pending("its Service does not exist yet"),
                Some(Address::Taken(why)) => Err((Reason::NameTaken, why.clone())),
                Some(Address::Ours) => {
                    let (name, ManagedInput { port, path, .. }) = (workload(&key.name), server);
                    Ok(format!("http://{name}.{}.svc:{port}{path}", key.namespace))
                }
            };
            (key.clone(), url)
        };
        taken.chain(references.managed.iter().map(url)).collect()
    }

    /// Forgets the ConfigMaps that were read in a deleted namespace.
    pub(super) fn forget(&mut self, namespace: &str) {
        self.config_maps.retain(|key, _| key.namespace != namespace);
    }

    async fn read_config_maps(&mut self, references: &References, watches: &Watches) {
        let seen = by_key(&watches.config_maps);
        let unseen = watches.cache_sync.unseen(&["configmaps"]);
        self.config_maps.retain(|key, _| references.config_maps.contains(key));
        for key in &references.config_maps {
            if let Some(why) = &unseen {
                let known = Known { version: None, data: Err((Reason::Unreadable, why.clone())), again: None };
                self.config_maps.insert(key.clone(), known);
                continue;
            }
            let version = seen.get(&(key.namespace.clone(), key.name.clone())).and_then(|seen| seen.resource_version());
            let Some(version) = version else {
                self.config_maps.remove(key);
                continue;
            };
            let is_current = |known: &Known| known.version.as_ref() == Some(&version) && known.data.is_ok();
            let is_paused = |known: &Known| known.again.is_some_and(|again| Instant::now() < again);
            if !self.config_maps.get(key).is_some_and(|known| is_current(known) || is_paused(known)) {
                self.read_config_map(key, version).await;
            }
        }
    }

    /// Reads one ConfigMap. After a transient failure, the data of the last read stays in use.
    async fn read_config_map(&mut self, key: &ObjectKey, version: String) {
        let api: Api<ConfigMap> = Api::namespaced(self.writer.client.clone(), &key.namespace);
        let what = format!("get configmaps in {}", key.namespace);
        let known = match self.writer.read(&what, api.get_opt(&key.name)).await {
            Ok(Some(map)) => {
                let version = map.resource_version().or(Some(version));
                Known { version, data: Ok(map.data.unwrap_or_default()), again: None }
            }
            Ok(None) => return drop(self.config_maps.remove(key)),
            Err(RequestError::Forbidden(words, again)) => {
                Known { version: None, data: Err((Reason::Unreadable, words)), again: Some(again) }
            }
            Err(error) => {
                tracing::warn!(%error, config_map = %key, "a ConfigMap cannot be read; what was read before counts");
                let data = || Err((Reason::Unreadable, format!("ConfigMap {key} cannot be read: {error}")));
                let before = self.config_maps.remove(key);
                let before = before.unwrap_or_else(|| Known { version: None, data: data(), again: None });
                Known { again: Some(Instant::now() + PAUSE), ..before }
            }
        };
        self.config_maps.insert(key.clone(), known);
    }
}

fn is_service(server: &ServerInput) -> bool {
    server.group.is_empty() && server.kind == "Service"
}

/// Returns the URL of a Service. The URL contains a DNS name and not the addresses of pods, so it stays valid when pods
/// change.
fn service_url(service: Option<&Service>, namespace: &str, server: &ServerInput) -> Result<String, (Reason, String)> {
    let not_found = |why: String| (Reason::ServerNotFound, why);
    let name = format!("Service {namespace}/{}", server.name);
    let service = service.ok_or_else(|| not_found(format!("there is no {name}")))?;
    let wanted = server.port.as_deref().unwrap_or_default();
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref()).into_iter().flatten();
    let port = ports.clone().find(|port| port.name.as_deref() == Some(wanted) || port.port.to_string() == wanted);
    let port = port.ok_or_else(|| {
        let has: Vec<_> =
            ports.map(|port| format!("{} ({})", port.port, port.name.as_deref().unwrap_or("-"))).collect();
        not_found(format!("{name} has no port {wanted:?}; it has {}", has.join(", ")))
    })?;
    let path = server.path.as_deref().unwrap_or("/mcp");
    let spec = service.spec.as_ref();
    let host = match spec.and_then(|spec| spec.external_name.as_deref()) {
        Some(external) if spec.and_then(|s| s.type_.as_deref()) == Some("ExternalName") => external.to_owned(),
        _ => format!("{}.{namespace}.svc", server.name),
    };
    Ok(format!("http://{host}:{}{path}", port.port))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use http::{Request, Response};
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
    use crate::controller::managed_state::ManagedServer;

    /// Simulates an API server with one ConfigMap and nothing else. Counts how often the ConfigMap is read by its
    /// name.
    async fn serve(
        request: Request<Body>,
        reads: Arc<AtomicUsize>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            let nothing = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
            return Ok(Response::new(StreamBody::new(nothing).boxed_unsync()));
        }
        let path = request.uri().path();
        let map = json!({"metadata": {"name": "code", "namespace": "ns", "resourceVersion": "1"}, "data": {"k": "v"}});
        let answer = if path.ends_with("/configmaps/code") {
            reads.fetch_add(1, Ordering::Relaxed);
            map
        } else {
            let items = if path.ends_with("/configmaps") { vec![map] } else { Vec::new() };
            json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})
        };
        Ok(Response::new(Full::from(answer.to_string()).map_err(BoxError::from).boxed_unsync()))
    }

    #[tokio::test]
    async fn a_config_map_is_read_where_it_is_seen_and_not_again_while_it_stays_the_same() {
        let reads = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&reads);
        let client = Client::new(tower::service_fn(move |request| serve(request, Arc::clone(&counted))), "ns");
        let watches = Watches::start(&client, BTreeSet::new(), false);
        watches.cache_sync.settled().await;
        let writer = Writer::new(client, Leadership::default(), Liveness::default().pulse("plans"));
        let mut dereferencing = Dereferencing::new(writer, &watches, None);
        let key = |name: &str| ObjectKey::new("ns", name);
        let references = References { config_maps: [key("code"), key("none")].into(), ..References::default() };
        for _ in 0..2 {
            let found = dereferencing.find(&references, &watches).await.config_maps;
            assert_eq!(found, [(key("code"), Ok([("k".to_owned(), "v".to_owned())].into()))].into());
        }
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_managed_server_has_a_url_once_its_service_is_seen() {
        let client = Client::new(tower::service_fn(|request| serve(request, Arc::default())), "ns");
        let watches = Watches::start(&client, BTreeSet::new(), false);
        let writer = Writer::new(client, Leadership::default(), Liveness::default().pulse("plans"));
        let key = |name: &str| ObjectKey::new("ns", name);
        let server = |address| ManagedServer { address, ..ManagedServer::default() };
        let theirs = || Address::Taken("theirs".to_owned());
        let named = [("unseen", Address::Unseen), ("ours", Address::Ours), ("taken", theirs()), ("unread", theirs())];
        let servers = named.map(|(name, address)| (key(name), server(address)));
        let (_told, known) = watch::channel(ManagedServers::new(servers.into()));
        let dereferencing = Dereferencing::new(writer, &watches, Some(known));
        let input = || ManagedInput { port: 80, path: "/x".to_owned(), fault: None };
        let managed = ["unseen", "ours", "taken", "new"].map(|name| (key(name), input())).into();
        let found = dereferencing.managed_urls(&References { managed, ..References::default() });
        let found: Vec<_> = found.into_iter().map(|(key, url)| (key.name, url.map_err(|(reason, _)| reason))).collect();
        let expected = [
            ("new", Err(Reason::Pending)),
            ("ours", Ok("http://ours-mcp.ns.svc:80/x".to_owned())),
            ("taken", Err(Reason::NameTaken)),
            ("unread", Err(Reason::NameTaken)),
            ("unseen", Err(Reason::Pending)),
        ];
        assert_eq!(found, expected.map(|(name, url)| (name.to_owned(), url)));
    }

    #[test]
    fn a_service_is_reached_by_its_dns_name_and_the_port_that_was_asked_for() {
        let url = |spec: Value, port: &str, path: Option<&str>| {
            let service: Service = serde_json::from_value(json!({"spec": spec})).unwrap();
            let server = json!({"group": "", "kind": "Service", "name": "mcp", "port": port, "path": path});
            service_url(Some(&service), "ns", &server_of(&server)).map_err(|(_, message)| message)
        };
        let ports = json!({"ports": [{"name": "http", "port": 80}, {"port": 8080}]});
        assert_eq!(url(ports.clone(), "http", None).unwrap(), "http://mcp.ns.svc:80/mcp");
        assert_eq!(url(ports.clone(), "8080", Some("/x")).unwrap(), "http://mcp.ns.svc:8080/x");
        assert!(url(ports, "81", None).unwrap_err().contains("has no port \"81\"; it has 80 (http), 8080 (-)"));
        let outside = |kind: &str| json!({"type": kind, "externalName": "example.com", "ports": [{"port": 80}]});
        assert_eq!(url(outside("ExternalName"), "80", None).unwrap(), "http://example.com:80/mcp");
        assert_eq!(url(outside("ClusterIP"), "80", None).unwrap(), "http://mcp.ns.svc:80/mcp");
        let none = service_url(None, "ns", &server_of(&json!({"name": "mcp"})));
        assert_eq!(none.unwrap_err(), (Reason::ServerNotFound, "there is no Service ns/mcp".to_owned()));
    }

    fn server_of(fields: &Value) -> ServerInput {
        let text = |name: &str| fields[name].as_str().map(ToOwned::to_owned);
        ServerInput {
            group: text("group").unwrap_or_default(),
            kind: text("kind").unwrap_or_default(),
            name: text("name").unwrap_or_default(),
            port: text("port"),
            path: text("path"),
        }
    }
}
