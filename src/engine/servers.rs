//! The MCP servers that calls go to. Answers leave this file as [`Unchecked`], which only chains open.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt;

use crate::domain::ids::ObjectKey;
use crate::domain::item::{ItemKind, Listed};
use crate::domain::ports::CallUpstream;
use crate::domain::upstream::{
    OutCall, OutCompletion, Probed, ServerAnswer, Subscribed, Target, UpstreamError, UpstreamEvent,
};
use crate::domain::version::Era;
use crate::engine::chains::unchecked::{GuardedClient, Unchecked};
use crate::engine::notices::Unsubscribe;

/// Connects to MCP servers and calls them.
pub(in crate::engine) struct Servers {
    port: Arc<dyn CallUpstream>,
}

impl Servers {
    pub(super) fn new(port: Arc<dyn CallUpstream>) -> Self {
        Self { port }
    }

    /// Registers these upstreams before a plan that names them is put in force.
    pub(super) fn prepare(&self, targets: &[Target]) {
        self.port.prepare(targets);
    }

    /// Removes all upstreams except these.
    pub(super) fn retire(&self, keep: &[Target]) {
        self.port.retire(keep);
    }

    /// Sends a request that uses one item. Chains see the server's questions to the client.
    pub(super) fn call<'a>(
        &'a self,
        target: &'a Target,
        call: &'a OutCall,
        client: &'a dyn GuardedClient,
    ) -> impl Future<Output = Result<Unchecked, UpstreamError>> + Send + 'a {
        self.port.call(target, call, client).map_ok(Unchecked::new)
    }

    /// Sends a request for completions. Returns `None` if the server completes nothing.
    pub(super) async fn complete(
        &self,
        target: &Target,
        completion: &OutCompletion,
    ) -> Result<Option<Unchecked>, UpstreamError> {
        let completed = self.port.complete(target, completion).await?;
        // It has nothing of either era.
        Ok(completed.map(|answer| Unchecked::new(ServerAnswer { era: Era::Modern, answer })))
    }

    /// Connects to the server, or sends it a request if it is connected.
    pub(super) async fn probe(&self, target: &Target, timeout: Duration) -> Result<Probed, UpstreamError> {
        self.port.probe(target, timeout).await
    }

    /// Fetches all pages of a list within `timeout`.
    pub(super) async fn list(
        &self,
        target: &Target,
        kind: ItemKind,
        timeout: Duration,
    ) -> Result<Listed, UpstreamError> {
        self.port.list(target, kind, timeout).await
    }

    /// Whether a server at a URL is reached over HTTP+SSE, as far as that is known.
    pub(super) fn is_over_sse(&self, target: &Target) -> bool {
        self.port.is_over_sse(target)
    }

    /// Makes the server report changes of a resource.
    pub(super) async fn subscribe(
        &self,
        target: &Target,
        uri: &str,
        timeout: Duration,
    ) -> Result<Subscribed, UpstreamError> {
        self.port.subscribe(target, uri, timeout).await
    }

    /// Counts log messages that were dropped.
    pub(super) fn log_dropped(&self, upstream: &ObjectKey, messages: usize) {
        self.port.log_dropped(upstream, messages);
    }

    /// Closes the connections that are for the client of this session alone.
    pub(super) fn forget_client(&self, session: &str, has_ended: bool) {
        self.port.forget_client(session, has_ended);
    }

    /// Waits for the next event that a server reports on its own.
    pub(super) async fn next_event(&self) -> UpstreamEvent {
        self.port.next_event().await
    }

    /// Closes all connections, and waits until all child processes have ended.
    pub(super) async fn shutdown(&self) {
        self.port.shutdown().await;
    }

    /// Like [`Self::shutdown`], but kills child processes.
    pub(super) async fn abort(&self) {
        self.port.abort().await;
    }
}

impl Unsubscribe for Servers {
    fn unsubscribe(&self, upstream: &ObjectKey, uri: &str) {
        self.port.unsubscribe(upstream, uri);
    }
}
