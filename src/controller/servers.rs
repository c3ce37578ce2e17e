//! Finds the URLs of servers that other operators run: objects of any kind that has the field `status.address.url`. The
//! kind does not have to exist in the cluster.

mod shares;
mod watching;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use self::shares::{KindState, MAX_WATCHES, Shares, refusal, share};
use self::watching::{Shared, State, WatchedKind, follow};
use crate::config::input::ServerInput;
use crate::domain::reason::Reason;

/// How long a kind is watched after the last upstream that names it has gone, because an edit can name the kind again.
const KEPT: Duration = Duration::from_secs(60);

/// The namespace of an upstream, and the server that it names.
type Named = (String, ServerInput);

/// The URL of a server, or why it is not known.
type Url = Result<String, (Reason, String)>;

/// One watch, which ends when it is dropped.
struct Watch {
    shared: Shared,
    /// When an upstream last named the kind.
    named: Instant,
    /// Whether the kind existed when watches were last granted.
    has_place: bool,
    _task: AbortOnDropHandle<()>,
}

/// Watches the kinds of servers that upstreams name.
pub(super) struct Servers {
    client: Client,
    changed: Arc<Notify>,
    /// Whether the operator watches only some namespaces.
    is_scoped: bool,
    watches: HashMap<WatchedKind, Watch>,
}

impl Servers {
    pub(super) fn new(client: Client, changed: Arc<Notify>, is_scoped: bool) -> Self {
        Self { client, changed, is_scoped, watches: HashMap::new() }
    }

    /// Returns the URL of each of `servers`. A kind that none of them names is watched for at most another [`KEPT`].
    pub(super) fn urls<'r>(&mut self, servers: impl Iterator<Item = &'r Named> + Clone) -> BTreeMap<Named, Url> {
        let kinds = self.kinds(servers.clone());
        let Shares { granted, is_full } = share(&kinds, |watched| self.known(watched));
        let now = Instant::now();
        let new = granted.iter().filter(|watched| self.known(watched) == KindState::New).count();
        let is_room = self.watches.len() + new <= MAX_WATCHES;
        let may_stay = |watch: &Watch| is_room && now.saturating_duration_since(watch.named) < KEPT;
        self.watches.retain(|watched, watch| granted.contains(watched) || may_stay(watch));
        for watched in &granted {
            let watch = self.watches.entry(watched.clone());
            let watch = watch.or_insert_with(|| begin(&self.client, watched, &self.changed));
            (watch.named, watch.has_place) = (now, !watch.shared.is_absent());
        }
        let url = |named: &Named| {
            let (namespace, server) = named;
            let watched = self.watched(namespace, server);
            match self.watches.get(&watched).filter(|_| granted.contains(&watched)) {
                Some(watch) => url(namespace, server, watch.shared.get()),
                None => {
                    let why = refusal(namespace, &kinds[namespace.as_str()], &watched, is_full);
                    Err((Reason::KindNotSupported, format!("{}.{}: {why}", server.kind, server.group)))
                }
            }
        };
        servers.map(|named| (named.clone(), url(named))).collect()
    }

    /// Returns the kinds that the upstreams of each namespace name, in the order of [`KindState`].
    fn kinds<'r>(&self, servers: impl Iterator<Item = &'r Named>) -> BTreeMap<&'r str, Vec<WatchedKind>> {
        let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (namespace, server) in servers {
            kinds.entry(namespace.as_str()).or_default().push(self.watched(namespace, server));
        }
        for named in kinds.values_mut() {
            named.sort();
            named.dedup();
            named.sort_by_key(|watched| self.known(watched));
        }
        kinds
    }

    fn known(&self, watched: &WatchedKind) -> KindState {
        match self.watches.get(watched) {
            None => KindState::New,
            Some(watch) if watch.shared.is_absent() => KindState::Absent,
            Some(watch) if watch.has_place => KindState::There,
            Some(_) => KindState::Found,
        }
    }

    fn watched(&self, namespace: &str, server: &ServerInput) -> WatchedKind {
        let namespace = self.is_scoped.then(|| namespace.to_owned());
        WatchedKind { group: server.group.clone(), kind: server.kind.clone(), namespace }
    }
}

fn begin(client: &Client, watched: &WatchedKind, changed: &Arc<Notify>) -> Watch {
    let shared = Shared::new(Arc::clone(changed));
    let task = tokio::spawn(follow(client.clone(), watched.clone(), shared.clone()));
    Watch { shared, named: Instant::now(), has_place: true, _task: AbortOnDropHandle::new(task) }
}

/// Returns the URL of `server` in `namespace`, given the state of its kind.
fn url(namespace: &str, server: &ServerInput, state: State) -> Url {
    let what = format!("{}.{} {namespace}/{}", server.kind, server.group, server.name);
    let (resource, store) = match state {
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

/// Returns the URL with another path, without query and fragment.
fn with_path(url: &str, path: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    format!("{}{path}", &url[..end])
}

#[cfg(test)]
mod tests {
    use kube::Config;

    use super::*;

    fn servers(is_scoped: bool) -> Servers {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let nobody = Config::new("http://127.0.0.1:9".parse().unwrap());
        Servers::new(Client::try_from(nobody).unwrap(), Arc::default(), is_scoped)
    }

    fn server(namespace: &str, kind: String) -> Named {
        let group = "example.org".to_owned();
        (namespace.to_owned(), ServerInput { group, kind, name: "s".into(), port: None, path: None })
    }

    /// Returns how many servers are being looked for, and how many are refused because of a limit.
    fn counts(urls: &BTreeMap<Named, Url>) -> (usize, usize) {
        let refused = urls.values().filter(|url| matches!(url, Err((Reason::KindNotSupported, _)))).count();
        (urls.len() - refused, refused)
    }

    #[tokio::test]
    async fn kinds_are_bounded_in_a_namespace_and_in_all() {
        let mut all = servers(true);
        let greedy = |count: usize| (0..count).map(|number| server("greedy", format!("K{number}")));
        let named: Vec<_> = greedy(9).collect();
        let urls = all.urls(named.iter());
        let why = urls[&named[8]].clone().unwrap_err();
        assert!(why.0 == Reason::KindNotSupported && why.1.contains("8 kinds"), "{why:?}");
        assert_eq!(counts(&urls), (8, 1));
        let named: Vec<_> = (0..100).map(|n| server(&format!("n{n}"), "K0".into())).chain(greedy(8)).collect();
        let urls = all.urls(named.iter());
        assert_eq!((all.watches.len(), counts(&urls)), (MAX_WATCHES, (MAX_WATCHES, 108 - MAX_WATCHES)));
        let mut one = servers(false);
        one.urls(named[..100].iter());
        assert_eq!(one.watches.len(), 1, "a kind is watched once where all namespaces are");
    }

    #[tokio::test]
    async fn kinds_that_are_not_there_leave_their_places_to_others() {
        let mut all = servers(true);
        let absent: Vec<_> =
            (0..8).flat_map(|n| (0..8).map(move |k| server(&format!("n{n}"), format!("Absent{k}")))).collect();
        assert_eq!(counts(&all.urls(absent.iter())), (64, 0));
        all.watches.values().for_each(|watch| watch.shared.set(State::Absent("there is none".into())));
        let more: Vec<_> =
            (0..8).flat_map(|n| (0..8).map(move |k| server(&format!("m{n}"), format!("K{k}")))).collect();
        let urls = all.urls(absent.iter().chain(&more));
        let looked_for = more.iter().filter(|named| matches!(urls[*named], Err((Reason::ServerNotFound, _)))).count();
        assert_eq!((looked_for, all.watches.len()), (64, 128));
    }

    #[tokio::test]
    async fn a_kind_that_nothing_names_any_more_is_not_watched_any_more() {
        let mut servers = servers(false);
        let named = [server("a", "K".into()), server("a", "L".into())];
        servers.urls(named.iter());
        servers.urls(named[..1].iter());
        assert_eq!(servers.watches.len(), 2, "an edit may name it again");
        let long_ago = Instant::now().checked_sub(KEPT).unwrap();
        servers.watches.values_mut().for_each(|watch| watch.named = long_ago);
        servers.urls(named[..1].iter());
        let kinds: Vec<_> = servers.watches.keys().map(|watched| watched.kind.as_str()).collect();
        assert_eq!(kinds, ["K"]);
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
