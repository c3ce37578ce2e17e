//! The objects of the namespaces in `--namespaces`, for an operator that may not list namespaces.
//!
//! A Role in a namespace can give the right to `get` that namespace, but none to list or watch it. So the namespaces are
//! read one by one, periodically.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::stream::{BoxStream, iter, unfold};
use futures_util::{Stream, StreamExt, future};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};

use super::backoff::is_forbidden;

/// How often the namespaces are read.
const INTERVAL: Duration = Duration::from_secs(10);

type Seen = PartialObjectMeta<Namespace>;
type Heard = watcher::Result<Event<Seen>>;

/// Returns the events of `watched`, the watch of all namespaces. If there are `names` and the API server never allowed
/// to list namespaces, these are read instead.
pub(super) fn or_named(
    watched: impl Stream<Item = Heard> + Send + 'static,
    api: Api<Namespace>,
    names: &BTreeSet<String>,
) -> BoxStream<'static, Heard> {
    if names.is_empty() {
        return watched.boxed();
    }
    let mut listed = false;
    let allowed = watched.take_while(move |event| {
        listed |= matches!(event, Ok(Event::InitDone));
        let forbidden = !listed && event.as_ref().is_err_and(is_forbidden);
        if forbidden {
            tracing::info!("the operator may not watch namespaces: it reads those of --namespaces every {INTERVAL:?}");
        }
        future::ready(!forbidden)
    });
    allowed.chain(read(Named { api, names: names.clone(), seen: BTreeMap::new(), listed: false })).boxed()
}

fn read(named: Named) -> impl Stream<Item = Heard> {
    unfold(named, async |mut named| {
        if named.listed {
            tokio::time::sleep(INTERVAL).await;
        }
        let answers = named.ask().await;
        Some((iter(named.events(answers)), named))
    })
    .flatten()
}

/// What the API server said about a namespace; `None` if it does not exist.
type Answer = (String, watcher::Result<Option<Seen>>);

struct Named {
    api: Api<Namespace>,
    names: BTreeSet<String>,
    /// The namespaces that exist, by name.
    seen: BTreeMap<String, Seen>,
    /// Whether every one of them was read.
    listed: bool,
}

impl Named {
    async fn ask(&self) -> Vec<Answer> {
        let mut answers = Vec::new();
        for name in &self.names {
            let answer = self.api.get_metadata_opt(name).await;
            answers.push((name.clone(), answer.map_err(watcher::Error::InitialListFailed)));
        }
        answers
    }

    /// The events that a watch would have had. The first ones are a complete list, or only errors.
    fn events(&mut self, answers: Vec<Answer>) -> Vec<Heard> {
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        for (name, answer) in answers {
            match answer {
                Ok(now) => found.push((name, now)),
                // The Role that allows to read a namespace is in it, so there is none before the namespace exists.
                Err(error) if is_forbidden(&error) && !self.seen.contains_key(&name) => found.push((name, None)),
                Err(error) => errors.push(Err(error)),
            }
        }
        if !self.listed && !errors.is_empty() {
            return errors;
        }
        let first = !std::mem::replace(&mut self.listed, true);
        let changes = found.into_iter().filter_map(|(name, now)| self.change(name, now));
        if first {
            let list = changes.map(|event| match event {
                Event::Apply(namespace) => Event::InitApply(namespace),
                other => other,
            });
            return std::iter::once(Event::Init).chain(list).chain([Event::InitDone]).map(Ok).collect();
        }
        changes.map(Ok).chain(errors).collect()
    }

    fn change(&mut self, name: String, now: Option<Seen>) -> Option<Event<Seen>> {
        let Some(now) = now else { return self.seen.remove(&name).map(Event::Delete) };
        let version = |seen: &Seen| (seen.uid(), seen.resource_version());
        let is_known = self.seen.get(&name).is_some_and(|before| version(before) == version(&now));
        self.seen.insert(name, now.clone());
        (!is_known).then_some(Event::Apply(now))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::api::ObjectMeta;
    use kube::core::Status;
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt};

    use super::*;

    fn error(code: u16) -> watcher::Error {
        let status = Status { code, ..Status::default() };
        watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))
    }

    fn namespace(name: &str, version: &str) -> Seen {
        let (name, resource_version) = (Some(name.to_owned()), Some(version.to_owned()));
        PartialObjectMeta {
            metadata: ObjectMeta { name, resource_version, ..ObjectMeta::default() },
            ..Seen::default()
        }
    }

    fn named() -> Named {
        let service =
            tower::service_fn(async |_| Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("")));
        let api = Api::all(kube::Client::new(service, "default"));
        let names = ["a", "b"].map(str::to_owned).into();
        Named { api, names, seen: BTreeMap::new(), listed: false }
    }

    fn shown(events: &[Heard]) -> Vec<String> {
        let shown = |event: &Heard| match event {
            Ok(Event::Init) => "init".to_owned(),
            Ok(Event::InitApply(seen)) => format!("init {}", seen.name_any()),
            Ok(Event::InitDone) => "done".to_owned(),
            Ok(Event::Apply(seen)) => format!("apply {}", seen.name_any()),
            Ok(Event::Delete(seen)) => format!("delete {}", seen.name_any()),
            Err(_) => "error".to_owned(),
        };
        events.iter().map(shown).collect()
    }

    #[tokio::test]
    async fn a_namespace_that_was_seen_stays_until_it_is_known_to_be_gone() {
        let mut named = named();
        let mut events = |a, b| shown(&named.events(vec![("a".to_owned(), a), ("b".to_owned(), b)]));
        let is = |version| Ok(Some(namespace("a", version)));
        assert_eq!(events(Err(error(503)), Ok(None)), ["error"], "nothing is listed before everything was read");
        assert_eq!(events(is("1"), Err(error(403))), ["init", "init a", "done"]);
        assert_eq!(events(is("1"), Ok(Some(namespace("b", "2")))), ["apply b"]);
        assert_eq!(events(is("3"), Err(error(403))), ["apply a", "error"]);
        assert_eq!(events(Ok(None), Err(error(500))), ["delete a", "error"]);
        assert_eq!(events(Ok(None), Ok(None)), ["delete b"]);
    }

    /// Counts what this module logs.
    #[derive(Clone, Default)]
    struct Logged(Arc<AtomicUsize>);

    impl<S: tracing::Subscriber> Layer<S> for Logged {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            let is_ours = module_path!().starts_with(event.metadata().target());
            self.0.fetch_add(usize::from(is_ours), Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_list_that_was_allowed_once_is_not_replaced_and_one_that_is_replaced_is_logged() {
        let logged = Logged::default();
        let _logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(logged.clone()));
        let logged = || logged.0.load(Ordering::Relaxed);
        let names = named().names;
        let events = |events: Vec<Heard>, names: &BTreeSet<String>| {
            let api = named().api;
            or_named(iter(events), api, names).take(3).collect::<Vec<_>>()
        };
        let after = events(vec![Ok(Event::Init), Ok(Event::InitDone), Err(error(403))], &names).await;
        assert_eq!(shown(&after), ["init", "done", "error"]);
        let all = events(vec![Ok(Event::Init), Err(error(403))], &BTreeSet::new()).await;
        assert_eq!(shown(&all), ["init", "error"], "without names there is nothing else to read");
        assert_eq!(logged(), 0);
        // The API server of the test does not answer.
        let never = events(vec![Ok(Event::Init), Err(error(403))], &names).await;
        assert_eq!(shown(&never), ["init", "error", "error"]);
        assert_eq!(logged(), 1, "who operates it learns of the missing right");
    }
}
