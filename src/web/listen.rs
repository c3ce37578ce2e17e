//! `subscriptions/listen`: a stream of the notifications that a modern client asks for (MCP 2026-07-28). Its first message
//! says what it reports, and its answer, at the end of the gateway, that it ends. A client that closes it ends what it
//! subscribed to.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::dispatch::{ClientRequest, invalid};
use super::stream_place::StreamPlace;
use crate::domain::item::{ItemKind, MAX_URI};
use crate::domain::question::{COMPLETE, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{INVALID_REQUEST, RpcError, request};
use crate::engine::{ListChanges, MAX_OF_CLIENT, Mailbox, Notice, Reply, SubscribeRequest, Subscription};

/// The method of the notification that a resource has changed.
pub(super) const RESOURCE_UPDATED: &str = "notifications/resources/updated";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The member of `_meta` that says which stream a message is of.
const STREAM_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// How many resources are subscribed to at the same time for one stream.
const AT_A_TIME: usize = 16;
/// How many messages wait for a client that reads slowly. Later changes wait in the mailbox, where the same change waits
/// once.
const MOST_WAITING: usize = 32;
/// How long to wait before looking again whether a slow client has read.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Which notifications a client asks for. Other members, such as those of extensions, are ignored, and not acknowledged.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    resource_subscriptions: BTreeSet<String>,
}

impl Filter {
    /// Reads the filter from the parameters. The error says what is wrong with it.
    fn read(params: Option<&RawValue>) -> Result<Self, String> {
        let params = params.and_then(|params| RawObject::parse(params.get()).ok()).unwrap_or_default();
        let filter = params.get("notifications").filter(|filter| filter.get().starts_with('{'));
        let filter = filter.ok_or("`notifications` must be an object that names the notifications to send")?;
        let filter: Self = serde_json::from_str(filter.get())
            .map_err(|_| "`notifications` has booleans, and `resourceSubscriptions`, a list of URIs")?;
        if filter.resource_subscriptions.len() > MAX_OF_CLIENT {
            return Err(format!("`notifications/resourceSubscriptions` has more than {MAX_OF_CLIENT} URIs"));
        }
        if filter.resource_subscriptions.iter().any(|uri| uri.len() > MAX_URI) {
            return Err(format!("`notifications/resourceSubscriptions` has a URI of more than {MAX_URI} bytes"));
        }
        Ok(filter)
    }

    fn wants(&self, kind: ItemKind) -> bool {
        match kind {
            ItemKind::Tool => self.tools_list_changed,
            ItemKind::Prompt => self.prompts_list_changed,
            ItemKind::Resource | ItemKind::Template => self.resources_list_changed,
        }
    }
}

/// Returns the method of the notification that a list of this kind has changed. Templates have none of their own.
pub(super) fn list_changed(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "notifications/tools/list_changed",
        ItemKind::Prompt => "notifications/prompts/list_changed",
        ItemKind::Resource | ItemKind::Template => "notifications/resources/list_changed",
    }
}

impl ClientRequest<'_> {
    /// Sends what the client at `peer` asks for, until it closes the stream or the gateway ends.
    pub(super) async fn listen(&self, peer: IpAddr) -> Reply {
        let filter = match Filter::read(self.params.raw) {
            Ok(filter) => filter,
            Err(message) => return invalid(&message),
        };
        if !self.exchange.is_read() {
            return Reply::Error(RpcError::new(INVALID_REQUEST, "Accept must name text/event-stream"));
        }
        if let Err(error) = self.gate.engine.gate.admit_stream() {
            return Reply::Error(error);
        }
        let _place = match StreamPlace::take(self.gate, peer) {
            Ok(place) => place,
            Err(error) => return Reply::Error(error),
        };
        // What changes from now on is not missed.
        let (lists, mailbox) = (ListChanges::new(&self.gate.engine.in_force), Arc::<Mailbox>::default());
        let subscriptions = self.subscribe_to(&filter, &mailbox).await;
        let agreed = subscriptions.iter().map(|(uri, _)| uri.clone()).collect();
        let filter = Filter { resource_subscriptions: agreed, ..filter };
        self.tell(ACKNOWLEDGED, &[("notifications", to_raw(&filter))]);
        tokio::select! {
            () = self.report(&filter, lists, &mailbox) => {}
            () = self.gate.shutdown.cancelled() => {}
            () = self.requester.until_proved_again() => {}
        }
        let mut result = RawObject::default();
        result.set(RESULT_TYPE, to_raw(&COMPLETE));
        result.set("_meta", self.stream_id());
        Reply::Result(result.to_raw())
    }

    /// Subscribes to the resources. Those that cannot be subscribed to are left out.
    async fn subscribe_to(&self, filter: &Filter, mailbox: &Arc<Mailbox>) -> Vec<(String, Subscription)> {
        let engine = &self.gate.engine;
        let caller = self.caller();
        let within = Duration::from_millis(u64::from(engine.in_force.snapshot().plan().gateway.limits.list_timeout_ms));
        let subscribing = filter.resource_subscriptions.iter().map(|uri| {
            let request = SubscribeRequest {
                endpoint: self.endpoint.as_engine(),
                caller: &caller,
                uri,
                mailbox,
                within: Some(within),
            };
            async move { Some((uri.clone(), engine.calls.subscribe(request).await.ok()?)) }
        });
        let subscribing: Vec<_> = subscribing.collect();
        let subscribed: Vec<_> = stream::iter(subscribing).buffer_unordered(AT_A_TIME).collect().await;
        subscribed.into_iter().flatten().collect()
    }

    async fn report(&self, filter: &Filter, mut lists: ListChanges, mailbox: &Mailbox) {
        let (reader, caller) = (mailbox.attach(), self.caller());
        loop {
            tokio::select! {
                biased;
                changed = lists.next() => {
                    let Some(changed) = changed else { return };
                    for kind in changed.into_iter().filter(|kind| filter.wants(*kind)) {
                        self.tell(list_changed(kind), &[]);
                    }
                }
                // A client may send on only what it was told that the stream reports.
                notice = mailbox.next(reader) => if let Notice::Updated(update) = notice
                    && self.gate.engine.chains.still_shows(&caller, self.endpoint.as_engine(), &update.subscribed)
                {
                    self.tell(RESOURCE_UPDATED, &[("uri", to_raw(&&*update.subscribed))]);
                },
            }
            while self.exchange.waiting() >= MOST_WAITING {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// Sends one notification.
    fn tell(&self, method: &str, members: &[(&str, Box<RawValue>)]) {
        let mut params = RawObject::default();
        params.set("_meta", self.stream_id());
        members.iter().for_each(|(name, value)| params.set(name, value.clone()));
        self.exchange.notify(request(None, method, Some(&params.to_raw())));
    }

    /// The `_meta` of messages of this stream: the id of the request that opened it, as it came.
    fn stream_id(&self) -> Box<RawValue> {
        let mut meta = RawObject::default();
        meta.set(STREAM_ID, RawValue::from_string(self.id.to_owned()).unwrap_or_default());
        meta.to_raw()
    }
}
