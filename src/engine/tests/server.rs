//! A fake server whose answers a test sets.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::config::compile::tests::raw;
use crate::domain::caching::Caching;
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind, Listed};
use crate::domain::ports::{CallUpstream, ToClient};
use crate::domain::question::Question;
use crate::domain::raw::RawObject;
use crate::domain::upstream::{
    Answer, ClientKey, OutCall, OutCompletion, Probed, ServerAnswer, ServerFacts, Subscribed, Target, UpstreamError,
    UpstreamEvent,
};
use crate::domain::version::Era;

/// One server that acts as every upstream.
pub(in crate::engine) struct Server {
    pub(in crate::engine) tools: Mutex<String>,
    /// The items of some upstreams, by name. All others have `tools`.
    pub(in crate::engine) own: Mutex<HashMap<String, String>>,
    /// What some upstreams say about the caching of their lists, by name; of one list, by name and kind.
    pub(in crate::engine) caching: Mutex<HashMap<String, Caching>>,
    /// The era of every upstream.
    pub(in crate::engine) era: Mutex<Era>,
    /// Kinds whose lists cannot be read, with the error; `None` if they take forever.
    pub(in crate::engine) unlisted: Mutex<HashMap<ItemKind, Option<UpstreamError>>>,
    /// The kinds of the lists that were asked for.
    pub(in crate::engine) listed: Mutex<Vec<ItemKind>>,
    pub(in crate::engine) answers: Mutex<Result<Answer, UpstreamError>>,
    /// The failures of the next calls, before `answers` counts.
    pub(in crate::engine) failures: Mutex<VecDeque<UpstreamError>>,
    /// What each call reports as its progress.
    pub(in crate::engine) reports: Mutex<String>,
    /// What the client answers to earlier results, as `responses state`, for each call that has such.
    pub(in crate::engine) rounds: Mutex<Vec<String>>,
    /// What is asked during each call.
    pub(in crate::engine) asks: Mutex<Option<Question>>,
    /// What it was answered.
    pub(in crate::engine) told_answer: Mutex<Option<Answer>>,
    /// The error with which subscriptions are refused; `None` if the server has none.
    pub(in crate::engine) refuses: Mutex<Option<String>>,
    /// Whether it reports changes of resources, if it has no such error. Like calls, subscriptions can be held.
    pub(in crate::engine) subscribes: AtomicBool,
    /// The subscriptions that it was told to end.
    pub(in crate::engine) unsubscribed: Mutex<Vec<String>>,
    /// The clients of these calls.
    pub(in crate::engine) clients: Mutex<Vec<ClientKey>>,
    /// The calls that were sent, as `upstream/tool arguments`.
    pub(in crate::engine) sent: Mutex<Vec<String>>,
    /// Whether calls wait for `go`.
    pub(in crate::engine) holds: Mutex<bool>,
    pub(in crate::engine) go: Notify,
    /// Whether probes wait for `started`.
    pub(in crate::engine) starting: AtomicBool,
    pub(in crate::engine) started: Notify,
    /// Queued results for the next probes, in order. When the queue is empty, probes succeed.
    pub(in crate::engine) probes: Mutex<VecDeque<Result<Probed, UpstreamError>>>,
    pub(in crate::engine) probed: Mutex<Vec<Instant>>,
    pub(in crate::engine) event: Mutex<Option<UpstreamEvent>>,
    pub(in crate::engine) told: Notify,
    /// The upstreams that can be called.
    pub(in crate::engine) open: Mutex<Vec<Target>>,
    /// The sessions whose connections were closed.
    pub(in crate::engine) forgotten: Mutex<Vec<String>>,
}

impl Default for Server {
    fn default() -> Self {
        let tools = r#"[{"name":"read","inputSchema":{"type":"object","properties":{"n":{"type":"number"}}}}]"#;
        Self {
            tools: Mutex::new(tools.into()),
            own: Mutex::default(),
            caching: Mutex::default(),
            era: Mutex::new(Era::Legacy),
            unlisted: Mutex::default(),
            listed: Mutex::default(),
            answers: Mutex::new(Ok(Answer::Result(raw(r#"{"content":[{"type":"text","text":"hello"}]}"#)))),
            failures: Mutex::default(),
            reports: Mutex::new(
                r#"{"progress":1,"total":2.0,"message":"secret","_meta":{"x":1},"more":"secret"}"#.into(),
            ),
            rounds: Mutex::default(),
            asks: Mutex::default(),
            told_answer: Mutex::default(),
            refuses: Mutex::default(),
            subscribes: AtomicBool::default(),
            unsubscribed: Mutex::default(),
            clients: Mutex::default(),
            sent: Mutex::default(),
            holds: Mutex::default(),
            go: Notify::new(),
            starting: AtomicBool::default(),
            started: Notify::new(),
            probes: Mutex::default(),
            probed: Mutex::default(),
            event: Mutex::default(),
            told: Notify::new(),
            open: Mutex::default(),
            forgotten: Mutex::default(),
        }
    }
}

impl Server {
    /// Returns a server with these items.
    pub(in crate::engine) fn with(items: impl Into<String>) -> Self {
        Self { tools: Mutex::new(items.into()), ..Self::default() }
    }
}

/// Returns the kind of an item by the members of its definition.
fn kind(definition: &RawValue) -> ItemKind {
    let object = RawObject::parse(definition.get()).unwrap();
    let has = |member: &str| object.get(member).is_some();
    match (has("arguments"), has("uri"), has("uriTemplate")) {
        (true, ..) => ItemKind::Prompt,
        (_, true, _) => ItemKind::Resource,
        (.., true) => ItemKind::Template,
        _ => ItemKind::Tool,
    }
}

#[async_trait]
impl CallUpstream for Server {
    fn prepare(&self, targets: &[Target]) {
        self.open.lock().unwrap().extend_from_slice(targets);
    }

    fn retire(&self, keep: &[Target]) {
        self.open.lock().unwrap().retain(|target| keep.contains(target));
    }

    fn log_dropped(&self, _: &ObjectKey, _: usize) {}

    async fn probe(&self, _: &Target, _: Duration) -> Result<Probed, UpstreamError> {
        self.probed.lock().unwrap().push(Instant::now());
        if self.starting.load(Ordering::Relaxed) {
            self.started.notified().await;
        }
        if let Some(probed) = self.probes.lock().unwrap().pop_front() {
            return probed;
        }
        let facts = ServerFacts {
            has_tools: true,
            has_prompts: true,
            has_resources: true,
            ..ServerFacts::new(*self.era.lock().unwrap(), "2025-11-25")
        };
        Ok(Probed::Up(facts))
    }

    async fn list(&self, target: &Target, wanted: ItemKind, _: Duration) -> Result<Listed, UpstreamError> {
        self.listed.lock().unwrap().push(wanted);
        let faulty = self.unlisted.lock().unwrap().get(&wanted).cloned();
        match faulty {
            Some(Some(error)) => return Err(error),
            Some(None) => std::future::pending::<()>().await,
            None => {}
        }
        let own = self.own.lock().unwrap().get(&target.plan.key.name).cloned();
        let all = own.unwrap_or_else(|| self.tools.lock().unwrap().clone());
        let all: Vec<Box<RawValue>> = serde_json::from_str(&all).unwrap();
        let of_kind = all.iter().filter(|item| kind(item) == wanted);
        let (name, said) = (&target.plan.key.name, self.caching.lock().unwrap());
        let caching = said.get(&format!("{name} {wanted}")).or_else(|| said.get(name)).copied().unwrap_or_default();
        drop(said);
        let items = of_kind.map(|item| Item::parse(wanted, item).unwrap()).collect();
        Ok(Listed { items, caching, ..Listed::default() })
    }

    async fn complete(&self, target: &Target, _: &OutCompletion) -> Result<Option<Answer>, UpstreamError> {
        self.sent.lock().unwrap().push(format!("{}/completion", target.plan.key.name));
        if *self.holds.lock().unwrap() {
            self.go.notified().await;
        }
        Ok(Some(Answer::Result(raw(r#"{"completion":{"values":["hello"]}}"#))))
    }

    fn call<'a>(
        &'a self,
        target: &'a Target,
        call: &'a OutCall,
        client: &'a dyn ToClient,
    ) -> BoxFuture<'a, Result<ServerAnswer, UpstreamError>> {
        Box::pin(async move {
            if !self.open.lock().unwrap().contains(target) {
                return Err(UpstreamError::Connect("it was let go".into()));
            }
            if !client.may_be_sent() {
                return Err(UpstreamError::Cancelled);
            }
            let key = &target.plan.key;
            let members = || {
                let members = call.members.iter().map(|(name, value)| format!("{name:?}:{value}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            };
            let content = match call.kind {
                ItemKind::Tool => call.arguments().map_or("-", RawValue::get).to_owned(),
                _ => members(),
            };
            self.clients.lock().unwrap().push(call.client.clone());
            self.sent.lock().unwrap().push(format!("{}/{} {content}", key.name, call.name));
            if !call.round.is_empty() {
                if *self.era.lock().unwrap() == Era::Legacy && call.round.state.is_some() {
                    return Err(UpstreamError::NeverAsked);
                }
                let member = |value: &Option<Box<RawValue>>| value.as_deref().map_or("-", RawValue::get).to_owned();
                let round = format!("{} {}", member(&call.round.responses), member(&call.round.state));
                self.rounds.lock().unwrap().push(round);
            }
            client.progress(raw(&self.reports.lock().unwrap()));
            let asked = self.asks.lock().unwrap().clone();
            if let Some(question) = asked {
                *self.told_answer.lock().unwrap() = Some(client.ask(question).await);
            }
            if *self.holds.lock().unwrap() {
                self.go.notified().await;
            }
            if let Some(failure) = self.failures.lock().unwrap().pop_front() {
                return Err(failure);
            }
            let era = *self.era.lock().unwrap();
            self.answers.lock().unwrap().clone().map(|answer| ServerAnswer { era, answer })
        })
    }

    async fn subscribe(&self, _: &Target, _: &str, _: Duration) -> Result<Subscribed, UpstreamError> {
        if *self.holds.lock().unwrap() {
            self.go.notified().await;
        }
        let without_error =
            if self.subscribes.load(Ordering::Relaxed) { Subscribed::Yes } else { Subscribed::Unsupported };
        let refuses = self.refuses.lock().unwrap();
        Ok(refuses.as_deref().map_or(without_error, |error| Subscribed::Refused(raw(error))))
    }

    fn unsubscribe(&self, _: &ObjectKey, uri: &str) {
        self.unsubscribed.lock().unwrap().push(uri.to_owned());
    }

    fn forget_client(&self, session: &str, _: bool) {
        self.forgotten.lock().unwrap().push(session.to_owned());
    }

    async fn next_event(&self) -> UpstreamEvent {
        loop {
            self.told.notified().await;
            if let Some(event) = self.event.lock().unwrap().take() {
                return event;
            }
        }
    }

    async fn shutdown(&self) {}

    async fn abort(&self) {}
}
