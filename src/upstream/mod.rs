//! Speaks with MCP servers: stdio children and Streamable HTTP, in both eras of the protocol. Implements
//! `domain::ports::CallUpstream`.
//!
//! Invariant: results and errors are handed on as the bytes they came as. Nothing of a client's credentials is sent
//! to a server, and nothing of a server's is logged.

mod events;
mod handshake;
mod link;
mod server;
mod shared;
mod slot;
mod stdio;
mod streamable;
mod tools;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::domain::ids::ObjectKey;
use crate::domain::ports::{CallUpstream, ToClient};
use crate::domain::tool::Tool;
use crate::domain::upstream::{Answer, OutCall, ServerFacts, Target, UpstreamError, UpstreamEvent};

use self::server::Server;
use self::shared::Shared;

/// How long calls in flight keep the connection of a target that is gone or changed.
const LAST_CALLS: Duration = Duration::from_secs(60);
/// The same at the end of the gateway, which let its calls end before.
const AT_SHUTDOWN: Duration = Duration::from_secs(1);
/// How long everything may take to end at shutdown.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// Every upstream there is. Made and used within one tokio runtime.
#[derive(Debug)]
pub struct Upstreams {
    known: ArcSwap<HashMap<ObjectKey, Arc<Server>>>,
    changing: Mutex<()>,
    shared: Arc<Shared>,
}

impl Default for Upstreams {
    fn default() -> Self {
        Self::new()
    }
}

impl Upstreams {
    /// None yet. To be called in a tokio runtime.
    pub fn new() -> Self {
        Self { known: ArcSwap::default(), changing: Mutex::default(), shared: Arc::new(Shared::new()) }
    }

    /// The target that an upstream has now.
    pub fn target(&self, upstream: &ObjectKey) -> Option<Target> {
        self.known.load().get(upstream).map(|server| Arc::clone(server.target()))
    }

    fn find(&self, upstream: &ObjectKey) -> Result<Arc<Server>, UpstreamError> {
        let found = self.known.load().get(upstream).cloned();
        found.ok_or_else(|| UpstreamError::Connect("it is not configured".into()))
    }

    fn replace(&self, targets: &[Target]) -> Vec<Arc<Server>> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.known.load_full();
        let kept = |target: &Target| {
            let old = before.get(&target.plan.key).filter(|old| old.serves(target));
            old.map_or_else(|| Arc::new(Server::new(target, &self.shared)), Arc::clone)
        };
        let now: HashMap<_, _> = targets.iter().map(|target| (target.plan.key.clone(), kept(target))).collect();
        let left = |(key, old): (&ObjectKey, &Arc<Server>)| {
            let stays = now.get(key).is_some_and(|new| Arc::ptr_eq(new, old));
            (!stays).then(|| Arc::clone(old))
        };
        let gone = before.iter().filter_map(left).collect();
        self.known.store(Arc::new(now));
        gone
    }
}

impl CallUpstream for Upstreams {
    fn set_targets(&self, targets: &[Target]) {
        for gone in self.replace(targets) {
            self.shared.tasks.spawn_on(async move { gone.close(LAST_CALLS).await }, self.shared.runtime());
        }
    }

    async fn probe(&self, upstream: &ObjectKey, timeout: Duration) -> Result<ServerFacts, UpstreamError> {
        self.find(upstream)?.probe(timeout).await
    }

    async fn list_tools(&self, upstream: &ObjectKey, timeout: Duration) -> Result<Vec<Tool>, UpstreamError> {
        let upstream = self.find(upstream)?;
        let listed = tokio::time::timeout(timeout, upstream.list_tools(timeout)).await;
        listed.unwrap_or(Err(UpstreamError::Timeout(timeout)))
    }

    async fn call(&self, target: &Target, call: OutCall, client: &dyn ToClient) -> Result<Answer, UpstreamError> {
        let server = self.find(&target.plan.key)?;
        if !server.serves(target) {
            return Err(UpstreamError::Connect("its configuration changed while the call was on its way".into()));
        }
        server.call(&call, client).await
    }

    async fn next_event(&self) -> UpstreamEvent {
        self.shared.events.next().await
    }

    async fn shutdown(&self) {
        let closing = self.replace(&[]).into_iter().map(|gone| async move { gone.close(AT_SHUTDOWN).await });
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
