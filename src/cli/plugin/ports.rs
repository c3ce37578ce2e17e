//! What stands behind the ports of a gateway that runs one plugin: real workers; an upstream that answers what it is
//! told, and rows that are taken away.

use async_trait::async_trait;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::domain::ports::{CallUpstream, Records, ToClient};
use crate::domain::raw::to_raw;
use crate::domain::record::{CallRecord, PluginExecution};
use crate::domain::tool::{Listed, Tool};
use crate::domain::upstream::{Answer, Era, OutCall, Probed, ServerFacts, Target, UpstreamError, UpstreamEvent};

/// The most that is kept of what a plugin says of its progress.
const MAX_PROGRESS: usize = 1000;

/// One server with one tool. Clones are the same.
#[derive(Clone, Default)]
pub struct Upstream(Arc<Mutex<Given>>);

#[derive(Default)]
struct Given {
    tool: String,
    answer: Option<Answer>,
    /// The arguments of the last call.
    sent: Option<Box<RawValue>>,
}

impl Upstream {
    /// From here on the tool is `tool`, and answers `answer`.
    pub fn give(&self, tool: &str, answer: Answer) {
        *lock(&self.0) = Given { tool: tool.to_owned(), answer: Some(answer), sent: None };
    }

    /// The arguments that arrived, where a call did.
    pub fn sent(&self) -> Option<Box<RawValue>> {
        lock(&self.0).sent.take()
    }
}

#[async_trait]
impl CallUpstream for Upstream {
    fn prepare(&self, _: &[Target]) {}

    fn retire(&self, _: &[Target]) {}

    async fn probe(&self, _: &Target, _: Duration) -> Result<Probed, UpstreamError> {
        let version = "2025-11-25".to_owned();
        let facts = ServerFacts { era: Era::Legacy, version, server_name: None, server_version: None, has_tools: true };
        Ok(Probed::Up(facts))
    }

    async fn list_tools(&self, _: &Target, _: Duration) -> Result<Listed, UpstreamError> {
        let definition = to_raw(&json!({"name": lock(&self.0).tool, "inputSchema": {"type": "object"}}));
        let tools = vec![Tool::parse(&definition).map_err(UpstreamError::Protocol)?];
        Ok(Listed { tools, ..Listed::default() })
    }

    async fn call(&self, _: &Target, call: OutCall, _: &dyn ToClient) -> Result<Answer, UpstreamError> {
        let mut given = lock(&self.0);
        given.sent = call.arguments;
        given.answer.clone().ok_or_else(|| UpstreamError::Protocol("nothing is given".into()))
    }

    async fn next_event(&self) -> UpstreamEvent {
        pending().await
    }

    async fn shutdown(&self) {}

    async fn abort(&self) {}
}

/// What was written down since it was last taken. Whoever makes calls takes their rows after each.
#[derive(Default)]
pub struct Rows {
    kept: Mutex<(Vec<PluginExecution>, Vec<CallRecord>)>,
    told: Notify,
}

impl Rows {
    /// The rows of executions.
    pub fn executions(&self) -> Vec<PluginExecution> {
        std::mem::take(&mut lock(&self.kept).0)
    }

    /// The row of the call that was made alone, not of those that its plugin made.
    pub async fn call(&self) -> CallRecord {
        loop {
            if let Some(row) = std::mem::take(&mut lock(&self.kept).1).into_iter().find(|row| row.within.is_none()) {
                return row;
            }
            self.told.notified().await;
        }
    }

    /// Forgets the rows of calls.
    pub fn forget_calls(&self) {
        lock(&self.kept).1.clear();
    }
}

impl Records for Rows {
    fn execution(&self, row: PluginExecution) {
        lock(&self.kept).0.push(row);
    }

    fn call(&self, row: CallRecord) {
        lock(&self.kept).1.push(row);
        self.told.notify_one();
    }

    fn recent_executions(&self, _: Option<&str>, _: usize) -> Vec<Arc<PluginExecution>> {
        Vec::new()
    }

    fn recent_calls(&self, _: usize) -> Vec<Arc<CallRecord>> {
        Vec::new()
    }
}

/// What the client of the call is told of progress.
#[derive(Default)]
pub struct Heard(Mutex<Vec<Box<RawValue>>>);

impl Heard {
    /// All of it, in order.
    pub fn into_all(self) -> Vec<Box<RawValue>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToClient for Heard {
    fn progress(&self, params: Box<RawValue>) {
        let mut heard = lock(&self.0);
        if heard.len() < MAX_PROGRESS {
            heard.push(params);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
