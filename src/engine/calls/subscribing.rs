//! Subscribes clients to resources.

use std::sync::Arc;
use std::time::Duration;

use super::Calls;
use crate::domain::item::ItemKind;
use crate::domain::reason::Reason;
use crate::domain::rpc::{INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError, code_of};
use crate::domain::upstream::Subscribed;
use crate::engine::calls::finish::published;
use crate::engine::calls::request_beside::RequestBeside;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::notices::Mailbox;
use crate::engine::notices::Subscription;
use crate::engine::request::{Caller, Endpoint, ItemName, Reply};

/// A request to subscribe to a resource.
pub struct SubscribeRequest<'a> {
    /// The endpoint that received the request.
    pub endpoint: Endpoint<'a>,
    /// The client that sent the request.
    pub caller: &'a Caller,
    /// The URI of the resource.
    pub uri: &'a str,
    /// Where the changes are to go.
    pub mailbox: &'a Arc<Mailbox>,
    /// How long the server has to answer; `None` means as long as for a call.
    pub within: Option<Duration>,
}

impl Calls {
    /// Subscribes a client to a resource. The error is the reply for the client.
    pub async fn subscribe(&self, request: SubscribeRequest<'_>) -> Result<Subscription, Reply> {
        self.until_calls_end(self.subscribe_admitted(&request)).await
    }

    async fn subscribe_admitted(&self, request: &SubscribeRequest<'_>) -> Result<Subscription, CallEnd> {
        let SubscribeRequest { endpoint, caller, uri, .. } = *request;
        let item = ItemName { endpoint, kind: ItemKind::Resource, name: uri };
        let routed = self.beside(RequestBeside { item, caller, counts: false }).await?;
        if !routed.found.is_listed && routed.found.item.is_checked() {
            return Err(CallEnd::of_error(unseen()));
        }
        let (plan, timeout) = (routed.plan(), request.within.unwrap_or(routed.timeout()));
        let (name, own) = (&plan.key.name, &routed.found.route.item.name);
        let entry = self.subscribers.enter(&plan.key, (own, uri), (&caller.tracker, request.mailbox));
        let Some(entry) = entry else {
            let message = "this client, or this gateway, has as many subscriptions as it may";
            return Err(CallEnd::of_error(self.too_many_subscriptions(message)));
        };
        let error = match self.servers.subscribe(&routed.upstream().target, own, timeout).await {
            Ok(Subscribed::Yes) => return Ok(Subscription::new(entry, self.servers.clone())),
            // What checks the resource would not see the server's words.
            Ok(Subscribed::Refused(error)) if routed.found.item.is_checked() => RpcError::new(
                code_of(&error).unwrap_or(INTERNAL_ERROR),
                format!("upstream {name} does not report changes of this resource"),
            ),
            Ok(Subscribed::Refused(error)) => {
                return Err(published(CallEnd::refused_by_upstream(error), name, &endpoint));
            }
            Ok(Subscribed::Unsupported) => {
                RpcError::new(METHOD_NOT_FOUND, format!("upstream {name} does not report changes of resources"))
            }
            Ok(Subscribed::TooMany) => self
                .too_many_subscriptions(&format!("as many resources of upstream {name} are subscribed to as may be")),
            Err(error) => return Err(self.ends.request_failed(plan, &error)),
        };
        Err(CallEnd::of_error(error))
    }

    /// Counts a subscription that there is no place for, and returns the error for the client.
    fn too_many_subscriptions(&self, message: &str) -> RpcError {
        self.metrics.refused(Reason::Subscriptions);
        RpcError::refused(Reason::Subscriptions, message)
    }
}

/// The error for a subscription to a URI that its client made up, for the server alone: what checks the reading of the resource
/// would not see it.
fn unseen() -> RpcError {
    let message = "plugins check the reading of this resource and would not see what is subscribed to: only resources that the \
                   server lists can be subscribed to here";
    RpcError::refused(Reason::GuardedInput, message)
}
