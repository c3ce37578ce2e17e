//! Connects to MCP servers: stdio children and Streamable HTTP, in both eras of the protocol. Implements
//! `domain::ports::CallUpstream`.
//!
//! Invariant: the bytes of results and errors are passed on unchanged. No credentials of a client are sent to a server,
//! and no credentials of a server are logged.

mod call_questions;
mod connector;
mod context;
mod duplex;
mod event_queue;
mod handshake;
mod late;
mod list_reader;
mod listening;
mod metrics;
mod notices;
mod oauth;
mod own_connections;
mod pauses;
mod questions;
mod request_failure;
mod server;
mod server_connection;
mod server_message;
mod slot;
mod stdio;
pub mod streamable;
mod subscriptions;
mod wire;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::domain::boxed::boxed;
use crate::domain::budget::ByteBudget;
use crate::domain::ids::ObjectKey;
use crate::domain::instance::Instance;
use crate::domain::item::{ItemKind, Listed};
use crate::domain::ports::{CallUpstream, ToClient};
use crate::domain::upstream::{
    Answer, OutCall, OutCompletion, Probed, ServerAnswer, Subscribed, Target, UpstreamError, UpstreamEvent,
};

pub use self::metrics::UpstreamMetrics;

use crate::transport::ServerLauncher;

use self::context::UpstreamContext;
use self::metrics::Dropped;
use self::server::Server;

/// How long a retired target's connection stays open for its calls in flight.
const LAST_CALLS: Duration = Duration::from_secs(60);
/// Like `LAST_CALLS`, but at shutdown. The limit is short, because the calls should have ended before.
const AT_SHUTDOWN: Duration = Duration::from_secs(1);
/// How long shutdown waits for all tasks to end.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// All upstreams. Created and used within one Tokio runtime.
#[derive(Debug)]
pub struct Upstreams {
    known: ArcSwap<ServersByKey>,
    changing: Mutex<()>,
    shared: Arc<UpstreamContext>,
}

/// The servers of each upstream. While one plan replaces another, an upstream can have a server for each of the two.
type ServersByKey = HashMap<ObjectKey, Vec<Arc<Server>>>;

impl Upstreams {
    /// Creates a collection without upstreams. `budget` accounts for the memory of answers. HTTP requests name
    /// `instance` as their sender. Must be called in a Tokio runtime.
    pub fn new(
        launcher: ServerLauncher,
        metrics: UpstreamMetrics,
        budget: &Arc<ByteBudget>,
        instance: Instance,
    ) -> Self {
        let shared = Arc::new(UpstreamContext::new(launcher, metrics, budget, instance));
        Self { known: ArcSwap::default(), changing: Mutex::default(), shared }
    }

    fn find(&self, target: &Target) -> Result<Arc<Server>, UpstreamError> {
        let known = self.known.load();
        let found = known.get(&target.plan.key).and_then(|servers| servers.iter().find(|server| server.serves(target)));
        found.cloned().ok_or_else(|| UpstreamError::Connect("it is no longer configured".into()))
    }

    fn change<T>(&self, change: impl FnOnce(&mut ServersByKey) -> T) -> T {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = ServersByKey::clone(&self.known.load());
        let outcome = change(&mut known);
        self.known.store(Arc::new(known));
        outcome
    }

    /// Removes all servers that serve none of the targets in `keep`, and returns them.
    fn forget_all_but(&self, keep: &[Target]) -> Vec<Arc<Server>> {
        self.change(|known| {
            let mut gone = Vec::new();
            for servers in known.values_mut() {
                gone.extend(servers.extract_if(.., |server| !keep.iter().any(|target| server.serves(target))));
            }
            known.retain(|key, servers| {
                if servers.is_empty() {
                    self.shared.metrics.forget(&key.name);
                    self.shared.unwatch(key);
                }
                !servers.is_empty()
            });
            self.shared.forget_shares(|key| known.contains_key(key));
            gone
        })
    }
}

#[async_trait]
impl CallUpstream for Upstreams {
    fn prepare(&self, targets: &[Target]) {
        self.change(|known| {
            for target in targets {
                let servers = known.entry(target.plan.key.clone()).or_default();
                if !servers.iter().any(|server| server.serves(target)) {
                    servers.push(Arc::new(Server::new(target, &self.shared)));
                }
            }
        });
    }

    fn retire(&self, keep: &[Target]) {
        for gone in self.forget_all_but(keep) {
            self.shared.tasks.spawn_on(async move { gone.close(LAST_CALLS).await }, self.shared.runtime());
        }
    }

    async fn probe(&self, target: &Target, timeout: Duration) -> Result<Probed, UpstreamError> {
        self.find(target)?.probe(timeout).await
    }

    async fn list(&self, target: &Target, kind: ItemKind, timeout: Duration) -> Result<Listed, UpstreamError> {
        let listed = tokio::time::timeout(timeout, self.find(target)?.list(kind, timeout)).await;
        listed.unwrap_or(Err(UpstreamError::Timeout(timeout)))
    }

    fn call<'a>(
        &'a self,
        target: &'a Target,
        call: &'a OutCall,
        client: &'a dyn ToClient,
    ) -> BoxFuture<'a, Result<ServerAnswer, UpstreamError>> {
        boxed(|| async move { self.find(target)?.call(call, client).await })
    }

    fn is_over_sse(&self, target: &Target) -> bool {
        self.find(target).is_ok_and(|server| server.is_over_sse())
    }

    async fn complete(&self, target: &Target, completion: &OutCompletion) -> Result<Option<Answer>, UpstreamError> {
        let limit = completion.timeout;
        let completed = tokio::time::timeout(limit, self.find(target)?.complete(completion)).await;
        completed.unwrap_or(Err(UpstreamError::Timeout(limit)))
    }

    async fn subscribe(&self, target: &Target, uri: &str, timeout: Duration) -> Result<Subscribed, UpstreamError> {
        let subscribed = tokio::time::timeout(timeout, self.find(target)?.subscribe(uri, timeout)).await;
        subscribed.unwrap_or(Err(UpstreamError::Timeout(timeout)))
    }

    fn unsubscribe(&self, upstream: &ObjectKey, uri: &str) {
        if let Some(server) = self.known.load().get(upstream).and_then(|servers| servers.last()) {
            return server.unsubscribe(uri);
        }
        let watched = self.shared.watched(upstream);
        if let Some(entry) = watched.unwant(uri) {
            watched.forget(uri, &entry);
        }
        self.shared.unwatch(upstream);
    }

    fn log_dropped(&self, upstream: &ObjectKey, messages: usize) {
        self.shared.metrics.dropped_many(&upstream.name, Dropped::Message, messages);
    }

    fn forget_client(&self, session: &str, has_ended: bool) {
        self.known.load().values().flatten().for_each(|server| server.forget_client(session, has_ended));
    }

    async fn next_event(&self) -> UpstreamEvent {
        self.shared.events.next().await
    }

    async fn shutdown(&self) {
        let closing = self.forget_all_but(&[]).into_iter().map(|gone| async move { gone.close(AT_SHUTDOWN).await });
        tokio::select! {
            _ = futures_util::future::join_all(closing) => {}
            () = self.shared.hurry.cancelled() => {}
        }
        self.shared.tasks.close();
        if tokio::time::timeout(SHUTDOWN, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("some upstreams did not end in time");
        }
    }

    async fn abort(&self) {
        self.shared.hurry.cancel();
        self.shutdown().await;
    }
}
