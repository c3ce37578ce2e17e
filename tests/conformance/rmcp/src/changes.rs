//! What changes in the server while it runs, and who is told.

// Sessions are told of resources by what only the older era has.
#![allow(deprecated)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{Prompt, ResourceUpdatedNotificationParam, Tool};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use serde_json::json;
use tokio::sync::broadcast;

use crate::catalogue::{tool, typed};

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// There is a tool more, or one less.
    Tools,
    /// There is a prompt more, or one less.
    Prompts,
    /// The resource at [`WATCHED`].
    Resource,
}

/// The changes of one server.
#[derive(Clone)]
pub struct Changes {
    told: broadcast::Sender<Changed>,
    extra: Arc<Mutex<BTreeSet<Changed>>>,
}

impl Changes {
    /// Of a server in which nothing has changed yet.
    pub fn new() -> Self {
        Self { told: broadcast::channel(16).0, extra: Arc::default() }
    }

    /// Changes something, and tells all who listen.
    pub fn make(&self, changed: Changed) {
        let mut extra = self.extra.lock().unwrap_or_else(PoisonError::into_inner);
        if !extra.remove(&changed) {
            extra.insert(changed);
        }
        drop(extra);
        let _ = self.told.send(changed);
    }

    fn has(&self, changed: Changed) -> bool {
        self.extra.lock().unwrap_or_else(PoisonError::into_inner).contains(&changed)
    }

    /// The tool that is there at times.
    pub fn tool(&self) -> Option<Tool> {
        self.has(Changed::Tools).then(|| tool("test_simple_text")).flatten().and_then(|mut tool| {
            tool["name"] = "test_another_text".into();
            typed(tool).ok()
        })
    }

    /// The prompt that is there at times.
    pub fn prompt(&self) -> Option<Prompt> {
        self.has(Changed::Prompts)
            .then(|| typed(json!({"name": "test_another_prompt", "description": "Is there at times"})).ok())
            .flatten()
    }

    /// Tells a session of the older era what changes, until it ends: of the resource while `watched` has it.
    pub async fn tell(self, peer: Peer<RoleServer>, watched: Watched) {
        let mut changes = self.told.subscribe();
        while let Ok(changed) = changes.recv().await {
            let told = match changed {
                Changed::Tools => peer.notify_tool_list_changed().await,
                Changed::Prompts => peer.notify_prompt_list_changed().await,
                Changed::Resource => match watched.uri() {
                    Some(uri) => peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await,
                    None => Ok(()),
                },
            };
            if told.is_err() {
                return;
            }
        }
    }

    /// Tells a stream of the newer era what changes, until it ends. What its client did not ask for is refused by the sink.
    pub async fn stream(&self, context: &SubscriptionContext, uri: &str) {
        let mut changes = self.told.subscribe();
        let sink = context.sink();
        loop {
            let _ = tokio::select! {
                () = context.cancelled() => return,
                changed = changes.recv() => match changed {
                    Ok(Changed::Tools) => sink.notify_tool_list_changed().await,
                    Ok(Changed::Prompts) => sink.notify_prompt_list_changed().await,
                    Ok(Changed::Resource) => sink.notify_resource_updated(uri).await,
                    Err(_) => return,
                },
            };
        }
    }
}

/// Which resource that changes a session of the older era has subscribed to.
#[derive(Clone, Default)]
pub struct Watched(Arc<Mutex<Option<String>>>);

impl Watched {
    /// Subscribes to it, or to nothing.
    pub fn set(&self, uri: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = uri;
    }

    fn uri(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
