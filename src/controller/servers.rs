//! Servers that other operators run: any kind that publishes `status.address.url`. Its definition need not be there.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, discovery};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::waits::{Waits, words};
use crate::config::input::ServerInput;
use crate::domain::reason::Reason;

/// How often a kind that is not there, or may not be read, is looked for.
const PERIOD: Duration = Duration::from_secs(60);

/// A group and a kind in it.
type GroupKind = (String, String);

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

/// The kinds that upstreams name, each watched from its first mention on.
pub(super) struct Servers {
    client: Client,
    changed: Arc<Notify>,
    kinds: HashMap<GroupKind, Arc<Mutex<State>>>,
    tasks: JoinSet<()>,
}

impl Servers {
    pub(super) fn new(client: Client, changed: Arc<Notify>) -> Self {
        Self { client, changed, kinds: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Where `server`, of `namespace`, is reached.
    pub(super) fn url(&mut self, namespace: &str, server: &ServerInput) -> Result<String, (Reason, String)> {
        let what = format!("{}.{} {namespace}/{}", server.kind, server.group, server.name);
        let state = self.state(&server.group, &server.kind);
        let state = state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (resource, store) = match state {
            State::Looking => return Err((Reason::ServerNotFound, format!("{what} is being looked for"))),
            State::Absent(why) => return Err((Reason::KindNotSupported, format!("{what}: {why}"))),
            State::Watched(resource, store) => (resource, store),
        };
        let object = store.get(&ObjectRef::new_with(&server.name, resource).within(namespace));
        let object = object.ok_or_else(|| (Reason::ServerNotFound, format!("there is no {what}")))?;
        let url = object.data.pointer("/status/address/url").and_then(|url| url.as_str());
        let url = url.filter(|url| url.starts_with("http://") || url.starts_with("https://"));
        let url = url.ok_or_else(|| {
            (Reason::ServerNotFound, format!("{what} does not say yet where it is (its status.address.url)"))
        })?;
        Ok(server.path.as_ref().map_or_else(|| url.to_owned(), |path| with_path(url, path)))
    }

    fn state(&mut self, group: &str, kind: &str) -> Arc<Mutex<State>> {
        let key = (group.to_owned(), kind.to_owned());
        if let Some(known) = self.kinds.get(&key) {
            return Arc::clone(known);
        }
        let state = Arc::new(Mutex::new(State::Looking));
        self.kinds.insert(key.clone(), Arc::clone(&state));
        self.tasks.spawn(follow(self.client.clone(), key, Arc::clone(&state), Arc::clone(&self.changed)));
        state
    }
}

/// The URL with another path.
fn with_path(url: &str, path: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    format!("{}{path}", &url[..end])
}

/// Looks for the kind until it is there, then watches it.
async fn follow(client: Client, (group, kind): GroupKind, state: Arc<Mutex<State>>, changed: Arc<Notify>) {
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
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut stream = pin!(watcher(api, watcher::Config::default()).reflect(writer));
    let (mut waits, mut listed) = (Waits::default(), false);
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                waits = Waits::default();
                listed |= matches!(event, watcher::Event::InitDone);
                if listed {
                    set(State::Watched(resource.clone(), store.clone()));
                }
            }
            Err(error) => {
                tracing::warn!(group, kind, "a kind of servers cannot be watched: {}", words(&error));
                // What was seen last counts on; a kind that was never seen says why.
                if !listed {
                    set(State::Absent(format!("the operator cannot read it: {}", words(&error))));
                }
                tokio::time::sleep(waits.after(&error, Instant::now())).await;
            }
        }
    }
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
    #[test]
    fn a_path_takes_the_place_of_another() {
        for (url, expected) in [
            ("http://host:1/a/b?c", "http://host:1/mcp"),
            ("https://host", "https://host/mcp"),
            ("http://host#x", "http://host/mcp"),
        ] {
            assert_eq!(super::with_path(url, "/mcp"), expected);
        }
    }
}
