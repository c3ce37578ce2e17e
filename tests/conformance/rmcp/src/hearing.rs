//! What a client hears, and what it answers servers that ask.

#![allow(deprecated)] // Servers ask for what is on its way out of the protocol too.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use serde_json::{Map, Value, json};

use crate::catalogue::typed;

/// What came during a line of a script.
#[derive(Default)]
pub struct Heard {
    pub progress: Vec<Value>,
    pub logs: Vec<Value>,
    pub changes: Vec<Value>,
    /// The methods of the changes that are listened for.
    pub wanted: Vec<&'static str>,
}

impl Heard {
    /// Listens for what a filter of `subscriptions/listen` names.
    pub fn want(&mut self, filter: &Value) {
        let changes = [
            ("toolsListChanged", "notifications/tools/list_changed"),
            ("promptsListChanged", "notifications/prompts/list_changed"),
            ("resourcesListChanged", "notifications/resources/list_changed"),
            ("resourceSubscriptions", "notifications/resources/updated"),
        ];
        self.wanted = changes.iter().filter(|(name, _)| !filter[name].is_null()).map(|(_, method)| *method).collect();
    }

    /// Keeps that something has changed, as the notification says, if that is listened for.
    pub fn change(&mut self, notification: &Value) {
        if !self.wanted.iter().any(|method| notification["method"] == *method) {
            return;
        }
        let mut change = json!({"method": notification["method"]});
        if let Some(uri) = notification["params"]["uri"].as_str() {
            change["uri"] = uri.into();
        }
        self.changes.push(change);
    }
}

/// A client that answers each capability in `answers` with the result that is there, and has no other.
pub struct Answering {
    pub answers: Value,
    pub heard: Arc<Mutex<Heard>>,
}

impl Answering {
    fn hear(&self, take: impl FnOnce(&mut Heard)) {
        take(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn changed(&self, method: &str, params: &Value) {
        self.hear(|heard| heard.change(&json!({"method": method, "params": params})));
    }
}

impl ClientHandler for Answering {
    fn get_info(&self) -> ClientConfig {
        let names = self.answers.as_object().into_iter().flat_map(Map::keys);
        let capabilities: Map<_, _> = names.map(|name| (name.clone(), json!({}))).collect();
        let capabilities = typed(capabilities.into()).expect("the capabilities are some");
        ClientConfig::new(capabilities, Implementation::new("rmcp-client", "1.0.0"))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        typed(self.answers["sampling"].clone())
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        typed(self.answers["elicitation"].clone())
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        typed(self.answers["roots"].clone())
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear(|heard| heard.progress.push(json!(params)));
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear(|heard| heard.logs.push(json!(params)));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.changed("notifications/resources/updated", &json!(params));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed("notifications/tools/list_changed", &Value::Null);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed("notifications/prompts/list_changed", &Value::Null);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed("notifications/resources/list_changed", &Value::Null);
    }
}
