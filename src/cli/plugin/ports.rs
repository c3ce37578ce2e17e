//! Adapters for a gateway that runs one plugin: an upstream with a fixed answer, a store that keeps records only until
//! they are read, and a collector of progress notifications.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::ports::{CallUpstream, Records, ToClient};
use crate::domain::raw::to_raw;
use crate::domain::record::{CallRecord, PluginExecution};
use crate::domain::upstream::{
    Answer, OutCall, Probed, ServerAnswer, ServerFacts, Target, UpstreamError, UpstreamEvent,
};
use crate::domain::version::Era;

/// Maximum number of progress notifications that are kept. Further notifications are dropped.
const MAX_PROGRESS: usize = 1000;

/// An upstream with one tool. Clones share its state.
#[derive(Clone, Default)]
pub struct TestUpstream(Arc<Mutex<TestTool>>);

#[derive(Default)]
struct TestTool {
    tool: String,
    answer: Option<Answer>,
    /// The arguments of the last call.
    sent: Option<Box<RawValue>>,
}

impl TestUpstream {
    /// Sets the tool and its answer, and forgets the arguments of the last call.
    pub fn set(&self, tool: &str, answer: Answer) {
        *lock(&self.0) = TestTool { tool: tool.to_owned(), answer: Some(answer), sent: None };
    }

    /// Takes out the arguments of the last call, or returns `None` if there was no call since the answer was set.
    pub fn sent(&self) -> Option<Box<RawValue>> {
        lock(&self.0).sent.take()
    }
}

#[async_trait]
impl CallUpstream for TestUpstream {
    fn prepare(&self, _: &[Target]) {}

    fn retire(&self, _: &[Target]) {}

    fn log_dropped(&self, _: &ObjectKey, _: usize) {}

    async fn probe(&self, _: &Target, _: Duration) -> Result<Probed, UpstreamError> {
        let facts = ServerFacts {
            has_tools: true,
            has_prompts: true,
            has_resources: true,
            ..ServerFacts::new(Era::Legacy, "2025-11-25")
        };
        Ok(Probed::Up(facts))
    }

    async fn list(&self, _: &Target, kind: ItemKind, _: Duration) -> Result<Listed, UpstreamError> {
        if kind != ItemKind::Tool {
            return Ok(Listed::default());
        }
        let definition = to_raw(&json!({"name": lock(&self.0).tool, "inputSchema": {"type": "object"}}));
        let items = vec![Item::parse(ItemKind::Tool, &definition).map_err(UpstreamError::Protocol)?];
        Ok(Listed { items, ..Listed::default() })
    }

    fn call<'a>(
        &'a self,
        _: &'a Target,
        call: &'a OutCall,
        _: &'a dyn ToClient,
    ) -> BoxFuture<'a, Result<ServerAnswer, UpstreamError>> {
        Box::pin(async move {
            let mut tool = lock(&self.0);
            tool.sent = call.arguments().map(RawValue::to_owned);
            let answer = tool.answer.clone().ok_or_else(|| UpstreamError::Protocol("no answer is set".into()))?;
            Ok(ServerAnswer { era: Era::Legacy, answer })
        })
    }

    async fn next_event(&self) -> UpstreamEvent {
        pending().await
    }

    async fn shutdown(&self) {}

    async fn abort(&self) {}
}

/// Collects records. The caller takes the records out after each call.
#[derive(Default)]
pub struct Rows {
    rows: Mutex<(Vec<PluginExecution>, Vec<CallRecord>)>,
    call_recorded: Notify,
}

impl Rows {
    /// Takes out the records of executions.
    pub fn executions(&self) -> Vec<PluginExecution> {
        std::mem::take(&mut lock(&self.rows).0)
    }

    /// Waits for the record of the call that the command makes, and returns it. Records of calls that the plugin made
    /// are dropped.
    pub async fn call(&self) -> CallRecord {
        loop {
            if let Some(row) = std::mem::take(&mut lock(&self.rows).1).into_iter().find(|row| row.within.is_none()) {
                return row;
            }
            self.call_recorded.notified().await;
        }
    }

    pub fn forget_calls(&self) {
        lock(&self.rows).1.clear();
    }
}

impl Records for Rows {
    fn execution(&self, row: PluginExecution) {
        lock(&self.rows).0.push(row);
    }

    fn call(&self, row: CallRecord) {
        lock(&self.rows).1.push(row);
        self.call_recorded.notify_one();
    }
}

/// Collects the progress notifications that the client of a call receives.
#[derive(Default)]
pub struct ProgressLog(Mutex<Vec<Box<RawValue>>>);

impl ProgressLog {
    /// Returns the collected notifications, in order.
    pub fn into_all(self) -> Vec<Box<RawValue>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToClient for ProgressLog {
    fn progress(&self, params: Box<RawValue>) {
        let mut log = lock(&self.0);
        if log.len() < MAX_PROGRESS {
            log.push(params);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
