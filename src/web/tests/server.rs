//! A fake upstream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::ports::{CallUpstream, ToClient};
use crate::domain::upstream::{
    Answer, OutCall, Probed, ServerAnswer, ServerFacts, Subscribed, Target, UpstreamError, UpstreamEvent,
};
use crate::domain::version::Era;

/// An upstream with the tools `echo`, `progress`, `wait`, `fails` and `region`, and with the resource `file:///a`.
#[derive(Default)]
pub(super) struct Server {
    /// Makes `wait`, or a subscription, be answered.
    pub(super) go: Notify,
    /// Notified when a call of `wait`, or a subscription, begins. `dropped` is notified if the call is dropped before it answers,
    /// `finished` when it answers.
    pub(super) began: Notify,
    pub(super) dropped: Notify,
    pub(super) finished: Notify,
    /// For each call, whether progress and log messages were wanted.
    pub(super) wanted: std::sync::Mutex<Vec<(bool, bool)>>,
    /// Whether calls panic after they have sent their progress.
    pub(super) panics: AtomicBool,
}

const TOOLS: [&str; 5] = [
    r#"{"name":"echo","inputSchema":{"type":"object"}, "x-unknown": 1.0}"#,
    r#"{"name":"progress","inputSchema":{"type":"object"}}"#,
    r#"{"name":"wait","inputSchema":{"type":"object"}}"#,
    r#"{"name":"fails","inputSchema":{"type":"object"}}"#,
    r#"{"name":"region","inputSchema":{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}}"#,
];

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn legacy(answer: Answer) -> ServerAnswer {
    ServerAnswer { era: Era::Legacy, answer }
}

struct Dropped<'a>(&'a Server, bool);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        if self.1 { &self.0.finished } else { &self.0.dropped }.notify_one();
    }
}

#[async_trait]
impl CallUpstream for Server {
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
        let listed = match kind {
            ItemKind::Tool => &TOOLS[..],
            ItemKind::Resource => &[r#"{"uri":"file:///a","name":"a"}"#],
            ItemKind::Prompt | ItemKind::Template => &[],
        };
        let items = listed.iter().map(|item| Item::parse(kind, &raw(item)).unwrap()).collect();
        Ok(Listed { items, ..Listed::default() })
    }

    fn call<'a>(
        &'a self,
        _: &'a Target,
        call: &'a OutCall,
        client: &'a dyn ToClient,
    ) -> BoxFuture<'a, Result<ServerAnswer, UpstreamError>> {
        Box::pin(async move {
            self.wanted.lock().unwrap().push((call.wants_progress, call.log_level.is_some()));
            match call.name.as_str() {
                "fails" => return Ok(legacy(Answer::Error(raw(r#"{"code":-32602,"message":"no","data": 1.0}"#)))),
                "progress" => {
                    client.progress(raw(r#"{"progress":1,"total": 2.0}"#));
                    tokio::task::yield_now().await;
                    client.progress(raw(r#"{"progress":2}"#));
                }
                "wait" => {
                    let mut dropped = Dropped(self, false);
                    self.began.notify_one();
                    self.go.notified().await;
                    dropped.1 = true;
                }
                _ => {}
            }
            assert!(!self.panics.load(Ordering::Relaxed), "a call that was to panic");
            let arguments = call.arguments().map_or("null", RawValue::get);
            Ok(legacy(Answer::Result(raw(&format!(r#"{{"content":[], "n": 1.0,"got":{arguments}}}"#)))))
        })
    }

    async fn subscribe(&self, _: &Target, _: &str, _: Duration) -> Result<Subscribed, UpstreamError> {
        self.began.notify_one();
        self.go.notified().await;
        Ok(Subscribed::Yes)
    }

    async fn next_event(&self) -> UpstreamEvent {
        std::future::pending().await
    }

    async fn shutdown(&self) {}

    async fn abort(&self) {}
}
