//! Reads one watch forever, and restarts it when it fails.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::reflector::{Lookup, Store};
use kube::runtime::watcher;
use tokio::sync::Notify;

use super::backoff::{RetryBackoff, is_absent, is_lasting, words};
use super::cache_sync::{CacheSync, WatchKey};
use super::dropped::LAST_APPLIED;

/// A watch that was restarted after a failure counts as working after this long without an event, because an API server
/// that refuses a watch does so immediately.
const QUIET: Duration = Duration::from_secs(5);

/// Reads a watch forever. `hear` gets each event, and returns whether the event changes anything relevant.
pub(super) async fn keep<K>(
    mut stream: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Unpin,
    (cache_sync, watched): (&CacheSync, &WatchKey),
    changed: &Notify,
    mut hear: impl FnMut(&watcher::Event<K>) -> bool,
) {
    let mut waits = RetryBackoff::default();
    // The current failure, as it was logged.
    let mut failing: Option<String> = None;
    loop {
        let next = tokio::select! {
            next = stream.next() => Some(next),
            () = tokio::time::sleep(QUIET), if failing.is_some() => None,
        };
        let (works, mut news) = match next {
            Some(None) => return,
            Some(Some(Err(error))) => {
                let why = why(&error);
                // Each retry fails with the same message, so it is logged once.
                if failing.as_ref() != Some(&why) {
                    tracing::warn!(error = why, resource = watched.0, "a watch failed; it is tried again");
                }
                cache_sync.failed(watched, why.clone(), is_lasting(&error));
                failing = Some(why);
                changed.notify_one();
                tokio::time::sleep(waits.after(&error, Instant::now())).await;
                continue;
            }
            // The start of a list is not a success yet.
            Some(Some(Ok(event))) => (!matches!(event, watcher::Event::Init), hear(&event)),
            // The watch has resumed where it failed, and nothing has changed.
            None => (true, false),
        };
        if works {
            waits.worked();
            if failing.take().is_some() {
                tracing::info!(resource = watched.0, "the watch works again");
            }
            news |= cache_sync.works(watched);
        }
        if news {
            changed.notify_one();
        }
    }
}

/// Returns why a watch fails. Built-in kinds of Kubernetes always exist, so a kind that is absent is one of
/// Hawsepipe's.
fn why(error: &watcher::Error) -> String {
    match is_absent(error) {
        true => "the cluster does not know this kind: run `hawsepipe crds | kubectl apply --server-side -f -`".into(),
        false => words(error),
    }
}

/// Whether an event changes anything relevant. The objects in a new list count once the list is complete.
pub(super) fn is_news<K>(
    seen: &Store<K>,
    kind: &<K as Lookup>::DynamicType,
    event: &watcher::Event<K>,
    same: &impl Fn(&K, &K) -> bool,
) -> bool
where
    K: Lookup + Clone + 'static,
    <K as Lookup>::DynamicType: Clone + Debug + Eq + Hash,
{
    match event {
        watcher::Event::Init | watcher::Event::InitApply(_) => false,
        watcher::Event::InitDone | watcher::Event::Delete(_) => true,
        watcher::Event::Apply(now) => {
            seen.get(&now.to_object_ref(kind.clone())).is_none_or(|before| !same(&before, now))
        }
    }
}

/// Drops metadata that nobody reads and that takes up most of the memory.
pub(super) fn slim(object: &mut impl Resource) {
    object.meta_mut().managed_fields = None;
    if let Some(annotations) = &mut object.meta_mut().annotations {
        annotations.remove(LAST_APPLIED);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::Status;

    use super::*;

    #[tokio::test]
    async fn every_event_is_heard_and_only_news_and_failures_are_told() {
        let (cache_sync, changed, watched) =
            (CacheSync::default(), Notify::new(), ("configmaps".to_owned(), String::new()));
        cache_sync.begins(&watched);
        let forbidden = Status { code: 403, message: "forbidden".into(), ..Status::default() }.boxed();
        let (send, mut events) = tokio::sync::mpsc::unbounded_channel();
        let events = futures_util::stream::poll_fn(move |context| events.poll_recv(context));
        let mut heard = Vec::new();
        let hear = |event: &watcher::Event<ConfigMap>| {
            heard.push(format!("{event:?}").split(['(', ' ']).next().unwrap_or_default().to_owned());
            if matches!(event, watcher::Event::InitDone) {
                cache_sync.listed(&watched);
            }
            matches!(event, watcher::Event::InitDone)
        };
        let mut keeping = Box::pin(keep(events, (&cache_sync, &watched), &changed, hear));
        let is_told = || changed.notified().now_or_never().is_some();
        for (event, news) in [
            (Ok(watcher::Event::Init), false),
            (Ok(watcher::Event::InitDone), true),
            (Ok(watcher::Event::Delete(ConfigMap::default())), false),
            (Err(watcher::Error::InitialListFailed(kube::Error::Api(forbidden))), true),
        ] {
            send.send(event).unwrap();
            assert!((&mut keeping).now_or_never().is_none());
            assert_eq!(is_told(), news);
        }
        assert_eq!(cache_sync.faults(), ["configmaps: forbidden"]);
        drop(keeping);
        assert_eq!(heard, ["Init", "InitDone", "Delete"]);
    }

    #[test]
    fn a_kind_that_lacks_names_the_command() {
        let status = |code, message: &str| Status { code, message: message.into(), ..Status::default() }.boxed();
        let why = |status| why(&watcher::Error::InitialListFailed(kube::Error::Api(status)));
        assert!(why(status(404, "404 page not found")).contains("hawsepipe crds | kubectl apply"));
        assert_eq!(why(status(403, "plugins is forbidden")), "plugins is forbidden");
    }
}
