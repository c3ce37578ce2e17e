//! The watches of a kind that the cluster does not have to have, one for each watched namespace. Until the kind is
//! installed, nothing is asked of the API server but whether it is there, by one of them for all, and the watches count as
//! lists without objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{BoxStream, iter, unfold};
use futures_util::{Stream, StreamExt};
use kube::Client;
use kube::api::ApiResource;
use kube::runtime::watcher::{self, Event};
use tokio::sync::Mutex;

use super::backoff::is_absent;

/// How often to look for a kind that is not installed.
const PERIOD: Duration = Duration::from_secs(5);

/// Whether a kind is known not to be installed. Clones share their state.
#[derive(Clone, Default)]
pub(super) struct Absence(Arc<AtomicBool>);

impl Absence {
    pub(super) fn is_known(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, is_absent: bool) {
        self.0.store(is_absent, Ordering::Release);
    }
}

/// A kind that may not be installed. Clones share what is known of it.
#[derive(Clone)]
pub(super) struct OptionalKind {
    client: Client,
    resource: ApiResource,
    absence: Absence,
    /// When the API server was last asked whether it serves the kind, and its answer.
    asked: Arc<Mutex<Option<(Instant, bool)>>>,
}

/// The state of a watch of an optional kind.
struct Optional<K, W> {
    kind: OptionalKind,
    watch: W,
    /// The events of the kind's watch, while the kind is installed.
    events: Option<BoxStream<'static, watcher::Result<Event<K>>>>,
    /// Whether that watch completed a list.
    listed: bool,
    /// Whether the events so far say that there are no objects, because the kind is not installed.
    told: bool,
    /// Whether to wait before the next look for the kind.
    waits: bool,
    /// When this watch last learned whether the kind is installed.
    known: Option<Instant>,
}

/// Returns the events of the watch that `watch` starts whenever the kind is installed. If it is not, or is removed, the
/// events are those of an empty list.
pub(super) fn if_installed<K, S>(
    kind: OptionalKind,
    watch: impl Fn() -> S + Send + 'static,
) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: Send + 'static,
    S: Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
{
    let watch = move || watch().boxed();
    let optional = Optional { kind, watch, events: None, listed: false, told: false, waits: false, known: None };
    unfold(optional, async |mut optional| {
        let events = optional.next().await?;
        Some((iter(events), optional))
    })
    .flatten()
    .boxed()
}

impl<K, W> Optional<K, W>
where
    W: Fn() -> BoxStream<'static, watcher::Result<Event<K>>>,
{
    /// Returns the next events; `None` if the kind's watch has ended.
    async fn next(&mut self) -> Option<Vec<watcher::Result<Event<K>>>> {
        loop {
            if let Some(events) = &mut self.events {
                let event = events.next().await?;
                if !event.as_ref().is_err_and(is_absent) {
                    self.listed |= matches!(event, Ok(Event::InitDone));
                    return Some(vec![event]);
                }
                // A kind that is found but cannot be listed is on its way in or out.
                (self.events, self.waits, self.known) = (None, !self.listed, Some(Instant::now()));
            } else if let Some(events) = self.look().await {
                return Some(events);
            }
        }
    }

    /// Looks for the kind, and starts its watch if it is there. Returns what is news if it is not.
    async fn look(&mut self) -> Option<Vec<watcher::Result<Event<K>>>> {
        if std::mem::replace(&mut self.waits, false) {
            tokio::time::sleep(PERIOD).await;
        }
        let installed = self.kind.is_installed(self.known).await;
        self.known = installed.is_ok().then(Instant::now).or(self.known);
        match installed {
            Ok(true) => {
                self.kind.absence.set(false);
                (self.events, self.listed, self.told) = (Some((self.watch)()), false, false);
                None
            }
            Ok(false) => {
                self.waits = true;
                self.kind.absence.set(true);
                (!std::mem::replace(&mut self.told, true)).then(|| vec![Ok(Event::Init), Ok(Event::InitDone)])
            }
            Err(error) => Some(vec![Err(watcher::Error::InitialListFailed(error))]),
        }
    }
}

impl OptionalKind {
    /// Creates a kind of which nothing is known yet. `absence` is set to whether it is missing.
    pub(super) fn new(client: Client, resource: ApiResource, absence: Absence) -> Self {
        Self { client, resource, absence, asked: Arc::default() }
    }

    /// Asks the API server whether it serves the kind in the version that the operator writes, unless another watch has
    /// asked after `known`.
    async fn is_installed(&self, known: Option<Instant>) -> kube::Result<bool> {
        let mut asked = self.asked.lock().await;
        if let Some((_, answer)) = asked.filter(|(when, _)| known.is_none_or(|known| known <= *when)) {
            return Ok(answer);
        }
        let (ApiResource { api_version, plural, .. }, now) = (&self.resource, Instant::now());
        let answer = match self.client.list_api_group_resources(api_version).await {
            Ok(served) => served.resources.iter().any(|served| served.name == *plural),
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(error) => return Err(error),
        };
        *asked = Some((now, answer));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::AtomicUsize;

    use futures_util::stream;
    use http::{Request, Response};
    use kube::client::Body;
    use kube::core::Status;
    use serde_json::json;
    use tower::BoxError;

    use super::*;

    type Events = Vec<watcher::Result<Event<u8>>>;

    /// Returns a kind of which the API server says that it is installed as often as `installed` says, and the answer to
    /// all later questions has this status code.
    fn kind(installed: usize, code: u16) -> OptionalKind {
        counted(installed, code).0
    }

    /// The same with the number of questions.
    fn counted(installed: usize, code: u16) -> (OptionalKind, Arc<AtomicUsize>) {
        let (left, count) = (AtomicBool::new(installed > 0), Arc::<AtomicUsize>::default());
        let asked = Arc::clone(&count);
        let served = move |request: Request<Body>| {
            assert_eq!(request.uri().path(), "/apis/example.org/v1");
            asked.fetch_add(1, Ordering::Relaxed);
            let is_there = left.swap(false, Ordering::AcqRel);
            let resource =
                json!({"name": "things", "kind": "Thing", "namespaced": true, "singularName": "", "verbs": []});
            let resources = if is_there { vec![resource] } else { Vec::new() };
            let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.org/v1",
                "resources": resources});
            let failure =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "m"});
            let (code, body) = if is_there || code == 200 { (200, list) } else { (code, failure) };
            let body = Body::from(body.to_string().into_bytes());
            ready(Ok::<_, BoxError>(Response::builder().status(code).body(body).unwrap()))
        };
        let resource = ApiResource {
            group: "example.org".into(),
            version: "v1".into(),
            api_version: "example.org/v1".into(),
            kind: "Thing".into(),
            plural: "things".into(),
        };
        let client = Client::new(tower::service_fn(served), "default");
        (OptionalKind::new(client, resource, Absence::default()), count)
    }

    fn gone() -> watcher::Error {
        let status = Status { code: 404, message: "there is no such kind".into(), ..Status::default() };
        watcher::Error::WatchStartFailed(kube::Error::Api(status.boxed()))
    }

    #[tokio::test]
    async fn a_kind_that_is_not_installed_is_an_empty_list_and_is_not_watched() {
        // The group is not known, or it has no such kind.
        for code in [404, 200] {
            let kind = kind(0, code);
            let absence = kind.absence.clone();
            let none = || -> stream::Empty<watcher::Result<Event<u8>>> { panic!("it is not installed") };
            let events: Events = if_installed(kind, none).take(2).collect().await;
            assert!(matches!(events[..], [Ok(Event::Init), Ok(Event::InitDone)]), "{events:?}");
            assert!(absence.is_known());
        }
    }

    #[tokio::test]
    async fn the_objects_of_a_kind_that_is_removed_are_gone() {
        let kind = kind(1, 404);
        let absence = kind.absence.clone();
        let known = absence.clone();
        let watched = move || {
            assert!(!known.is_known());
            stream::iter([Ok(Event::Init), Ok(Event::InitApply(1)), Ok(Event::InitDone), Err(gone())])
        };
        let events: Events = if_installed(kind, watched).take(5).collect().await;
        let [Ok(Event::Init), Ok(Event::InitApply(1)), Ok(Event::InitDone), Ok(Event::Init), Ok(Event::InitDone)] =
            events[..]
        else {
            panic!("{events:?}")
        };
        assert!(absence.is_known());
    }

    #[tokio::test]
    async fn one_watch_asks_for_all_namespaces() {
        let (kind, count) = counted(0, 404);
        let watches = (0..20).map(|_| {
            let none = || -> stream::Empty<watcher::Result<Event<u8>>> { panic!("it is not installed") };
            if_installed(kind.clone(), none).take(2).collect::<Events>()
        });
        for events in futures_util::future::join_all(watches).await {
            assert!(matches!(events[..], [Ok(Event::Init), Ok(Event::InitDone)]), "{events:?}");
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let known = Some(Instant::now());
        for _ in 0..20 {
            assert!(!kind.is_installed(known).await.unwrap());
        }
        assert_eq!(count.load(Ordering::Relaxed), 2, "the next look is one for all of them too");
    }

    #[tokio::test]
    async fn an_api_server_that_fails_says_nothing_of_a_kind() {
        let kind = kind(0, 503);
        let absence = kind.absence.clone();
        let events: Events = if_installed(kind, stream::empty).take(1).collect().await;
        assert!(matches!(events[..], [Err(watcher::Error::InitialListFailed(_))]), "{events:?}");
        assert!(!absence.is_known());
    }
}
