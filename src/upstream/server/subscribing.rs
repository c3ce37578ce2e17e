//! Subscriptions to the resources of one upstream. The server is asked once for each resource, however many clients want to
//! hear of it, and again over each new connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;

use super::{Connector, Server};
use crate::domain::raw::to_raw;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::upstream::{Answer, Subscribed, UpstreamError, UpstreamEvent};
use crate::domain::version::Era;
use crate::upstream::listening::Listened;
use crate::upstream::slot::{ConnectionUse, Purpose};
use crate::upstream::subscriptions::{Subscriptions, WatchedUri};
use crate::upstream::wire::McpRequest;

/// How long a server has to answer when it is asked without a client that waits.
const PATIENCE: Duration = Duration::from_secs(30);

impl Server {
    /// Makes the server report the changes of a resource.
    pub(in crate::upstream) async fn subscribe(
        self: &Arc<Self>,
        uri: &str,
        limit: Duration,
    ) -> Result<Subscribed, UpstreamError> {
        let lease = self.lease(&self.slot, None, Purpose::Call, false).await?;
        let facts = lease.facts();
        // Changes that the server reports to the gateway itself need not be of what a user may see.
        if !facts.has_subscriptions || self.connector.has_users() {
            return Ok(Subscribed::Unsupported);
        }
        let Some(mut wish) = Wish::new(self, uri) else { return Ok(Subscribed::TooMany) };
        let entry = Arc::clone(&wish.entry);
        let mut told = entry.told.lock().await;
        let is_told = told.is_some_and(|told| facts.era == Era::Modern || told == lease.number());
        if !is_told {
            let late = |_| UpstreamError::Timeout(limit);
            let asked = match facts.era {
                Era::Legacy => self.ask_for_updates(uri, limit).await?,
                Era::Modern => tokio::time::timeout(limit, self.agreed_to(uri)).await.map_err(late)?,
            };
            match asked {
                Ok(connection) => *told = Some(connection),
                Err(error) => return Ok(Subscribed::Refused(error)),
            }
        }
        wish.is_fulfilled = true;
        Ok(Subscribed::Yes)
    }

    /// Sends `resources/subscribe`. Returns the number of the connection that it was sent over, or the server's error.
    async fn ask_for_updates(&self, uri: &str, limit: Duration) -> Result<Result<u64, Box<RawValue>>, UpstreamError> {
        let (answer, lease) = self.ask(McpRequest::Subscribe(uri), Purpose::Call, None, limit).await?;
        Ok(match answer {
            Answer::Result(_) => Ok(lease.number()),
            Answer::Error(error) => Err(error),
        })
    }

    /// Waits until the stream of a modern server was asked for the resource. Returns whether the server agreed.
    async fn agreed_to(&self, uri: &str) -> Result<u64, Box<RawValue>> {
        let mut listening = self.connector.watched.listening().subscribe();
        let agreed = match listening.wait_for(|now| now.asked.contains(uri)).await {
            Ok(now) => now.agreed.contains(uri),
            Err(_) => false,
        };
        let refused = || {
            let message = "the server does not report changes of this resource";
            to_raw(&RpcError::new(INVALID_PARAMS, message).with_data(json!({"uri": uri})))
        };
        agreed.then_some(0).ok_or_else(refused)
    }

    /// Counts one client less that wants to hear of a resource. After the last one, the server is told in the background.
    pub(in crate::upstream) fn unsubscribe(self: &Arc<Self>, uri: &str) {
        let Some(entry) = self.connector.watched.unwant(uri).filter(|entry| entry.needs_end()) else { return };
        let (server, uri) = (Arc::clone(self), uri.to_owned());
        let telling = async move { server.end_updates(&uri, &entry).await };
        self.connector.shared.tasks.spawn_on(telling, self.connector.shared.runtime());
    }

    async fn end_updates(&self, uri: &str, entry: &Arc<WatchedUri>) {
        let mut told = entry.told.lock().await;
        entry.ends();
        if entry.is_wanted() {
            return;
        }
        if told.take().is_some()
            && let Some(lease) = self.slot.current(Purpose::Maintenance)
            && lease.facts().era == Era::Legacy
            && let Err(failure) = lease.ask(McpRequest::Unsubscribe(uri), None, PATIENCE).await
        {
            let error = UpstreamError::from(failure);
            tracing::debug!(upstream = %self.connector.target.plan.key, "resources/unsubscribe: {error}");
        }
        self.connector.watched.forget(uri, entry);
    }

    /// Called once for each new connection that clients share: tells the server what they want to hear of.
    pub(super) fn greet(&self, lease: &ConnectionUse) {
        let Connector { shared, target, watched, .. } = &*self.connector;
        let facts = lease.facts();
        match facts.era {
            Era::Modern if facts.has_subscriptions || !facts.announces.is_empty() => {
                let listened = Listened {
                    key: target.plan.key.clone(),
                    shared: Arc::clone(shared),
                    watched: Arc::clone(watched),
                    announces: facts.announces.clone(),
                    has_subscriptions: facts.has_subscriptions,
                };
                if let Some(listener) = lease.listener() {
                    shared.tasks.spawn_on(listened.keep_listening(listener), shared.runtime());
                }
            }
            Era::Legacy if facts.has_subscriptions && !watched.is_empty() => {
                let Some(again) = self.slot.current(Purpose::Maintenance) else { return };
                let connector = Arc::clone(&self.connector);
                shared.tasks.spawn_on(async move { connector.subscribe_again(&again).await }, shared.runtime());
            }
            _ => {}
        }
    }
}

impl Connector {
    /// Asks a legacy server over a new connection for the resources that it was asked for before. What changed in the
    /// meantime was not reported, so all of them are said to have changed.
    async fn subscribe_again(&self, lease: &ConnectionUse) {
        let key = &self.target.plan.key;
        for (uri, entry) in self.watched.all() {
            let mut told = entry.told.lock().await;
            if *told == Some(lease.number()) || !entry.is_wanted() {
                continue;
            }
            let was_told = told.is_some();
            match lease.ask(McpRequest::Subscribe(&uri), None, PATIENCE).await {
                Ok(Answer::Result(_)) => {
                    *told = Some(lease.number());
                    if was_told {
                        self.shared.events.push(UpstreamEvent::Updated(key.clone(), uri));
                    }
                }
                Ok(Answer::Error(_)) => {
                    *told = None;
                    tracing::warn!(upstream = %key, "it does not report changes of a resource any more");
                }
                Err(failure) => {
                    *told = None;
                    let error = UpstreamError::from(failure);
                    tracing::debug!(upstream = %key, "resources/subscribe: {error}");
                    if !matches!(error, UpstreamError::Timeout(_)) {
                        return;
                    }
                }
            }
        }
    }
}

/// A client's wish to hear of a resource. It is withdrawn when this value is dropped before it is fulfilled.
struct Wish<'a> {
    server: &'a Arc<Server>,
    uri: &'a str,
    entry: Arc<WatchedUri>,
    is_fulfilled: bool,
}

impl<'a> Wish<'a> {
    fn new(server: &'a Arc<Server>, uri: &'a str) -> Option<Self> {
        let watched: &Subscriptions = &server.connector.watched;
        Some(Self { server, uri, entry: watched.want(uri)?, is_fulfilled: false })
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if !self.is_fulfilled {
            self.server.unsubscribe(self.uri);
        }
    }
}
