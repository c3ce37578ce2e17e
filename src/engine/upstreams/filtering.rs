//! Runs chains on the definitions that upstreams list, beside calls: clients get what the chains have seen.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::domain::budget::Category;
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind};
use crate::domain::plugin::Mode;
use crate::domain::record::EntryOutcome;
use crate::engine::Engine;
use crate::engine::calls::chain::{CallContext, ChainEnd, Nobody};
use crate::engine::calls::content::Content;
use crate::engine::calls::entry_traces::{EntryTraces, count_skipped};
use crate::engine::calls::outcome::{Denial, DenialKind};
use crate::engine::calls::routed_call::CallFacts;
use crate::engine::calls::when::WhenInput;
use crate::engine::plan::filtered::FilterOutcome;
use crate::engine::plan::linked_item::Selected;
use crate::engine::plan::list_filters::FilterJob;

/// The maximum number of definitions that are filtered at once, of one upstream and of all. Further, of all permits for
/// executions at most half are taken.
const MAX_OF_ONE: usize = 2;
const MAX_OF_ALL: u32 = 4;
/// How long a definition waits for calls that wait for plugins.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often to look whether calls wait.
const LOOK: Duration = Duration::from_millis(5);
/// How often lists are published anew while definitions are filtered.
const PUBLISH: Duration = Duration::from_millis(250);
/// The maximum number of characters of a plugin's message that a Problem has.
const MAX_SAID: usize = 200;

impl Engine {
    /// Starts the task that filters definitions, unless it runs.
    pub(crate) fn filter_lists(self: &Arc<Self>) {
        let mut task = self.probes.filters.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_none() {
            let engine = Arc::clone(self);
            *task = Some(tokio::spawn(async move {
                loop {
                    engine.filter_due().await;
                }
            }));
        }
    }

    /// Filters the definitions that are due, or waits until some are.
    async fn filter_due(self: &Arc<Self>) {
        let published = self.published.notified();
        tokio::pin!(published);
        // Registers before the look, so that no snapshot between the look and the wait is missed.
        published.as_mut().enable();
        let (snapshot, now) = (self.snapshot(), self.clock.monotonic());
        let (due, later): (Vec<_>, Vec<_>) =
            snapshot.filters.jobs.iter().cloned().partition(|job| job.not_before <= now);
        if !due.is_empty() {
            return self.filter_all(due).await;
        }
        let next = later.iter().map(|job| job.not_before.saturating_sub(now)).min();
        drop(snapshot);
        match next {
            Some(wait) => drop(tokio::time::timeout(wait, published).await),
            None => published.await,
        }
    }

    /// Filters these definitions, some of each upstream at a time, until all are filtered or another plan is in force.
    async fn filter_all(self: &Arc<Self>, jobs: Vec<FilterJob>) {
        let linked = Arc::clone(&self.snapshot().linked);
        let mut waiting: BTreeMap<ObjectKey, VecDeque<FilterJob>> = BTreeMap::new();
        for job in jobs {
            waiting.entry(job.target.plan.key.clone()).or_default().push_back(job);
        }
        let (mut running, mut of_one) = (FuturesUnordered::new(), HashMap::<ObjectKey, usize>::new());
        let mut published = Instant::now();
        loop {
            let most = (self.plugins.load().permits / 2).clamp(1, MAX_OF_ALL) as usize;
            for (upstream, jobs) in &mut waiting {
                let count = of_one.entry(upstream.clone()).or_default();
                while *count < MAX_OF_ONE
                    && running.len() < most
                    && let Some(job) = jobs.pop_front()
                {
                    *count += 1;
                    running.push(self.filter(job));
                }
            }
            let Some(upstream) = running.next().await else { break };
            of_one.entry(upstream).and_modify(|count| *count -= 1);
            if published.elapsed() >= PUBLISH {
                if !Arc::ptr_eq(&self.snapshot().linked, &linked) {
                    break;
                }
                self.relist();
                self.tried.send_replace(());
                published = Instant::now();
            }
        }
        drop(running);
        self.relist();
        self.tried.send_replace(());
    }

    /// Runs the chains on one definition and keeps what they make of it. Returns the upstream.
    async fn filter(self: &Arc<Self>, job: FilterJob) -> ObjectKey {
        self.let_calls_go_first().await;
        let mut traces = EntryTraces::default();
        let outcome = self.outcome_of(&job, &mut traces).await;
        count_skipped(&self.metrics, &traces.entries);
        let failed = |outcome: EntryOutcome| matches!(outcome, EntryOutcome::Failed(_));
        let has_failed = traces.entries.iter().any(|entry| entry.mode == Mode::Enforce && failed(entry.outcome));
        if let FilterOutcome::Dropped(why) = &outcome {
            let (upstream, kind) = (&job.target.plan.key.name, job.item.kind);
            tracing::warn!(upstream, item = job.item.kind.shown(&job.item.name), "a {kind} is not offered: {why}");
        }
        self.state.filtered.put(job.key, outcome, has_failed, self.clock.monotonic());
        job.target.plan.key.clone()
    }

    async fn outcome_of(self: &Arc<Self>, job: &FilterJob, traces: &mut EntryTraces) -> FilterOutcome {
        let FilterJob { item, target, own, chains, .. } = job;
        let method = item.kind.listed_by();
        traces.begin(method, chains.iter());
        let content = Content::Definition(item.kind, (*item.public_definition(own)).to_owned());
        let unique_keys = chains.iter().any(Selected::guards);
        if unique_keys && content.doubled_key().is_some() {
            return FilterOutcome::Dropped("a key stands twice in its definition, which a plugin guards".to_owned());
        }
        let facts = Arc::new(CallFacts::of_definition(target, item, self.clock.unix_millis()));
        let category = if item.kind == ItemKind::Tool { Category::List } else { Category::OtherList };
        let reservation = self.budget.reservation(category);
        let context =
            CallContext { facts: &facts, method, client: &Nobody, unique_keys, reservation: Some(&reservation) };
        let name = if item.kind.has_name() { format!("{}__{own}", facts.upstream) } else { own.clone() };
        let (name, upstream) = (Cow::Owned(name), &target.plan);
        let when = WhenInput { facts: &facts, item, upstream, method, name, request: "{}" };
        match self.run_chains(context, chains, &when, &content, traces).await {
            Ok(None) => FilterOutcome::Same,
            Ok(Some(Content::Definition(kind, changed))) => match named(kind, &changed, &item.name) {
                Ok(changed) => FilterOutcome::Changed(changed),
                Err(fault) => FilterOutcome::Dropped(fault),
            },
            Ok(Some(_)) => FilterOutcome::Dropped("its chains gave no definition".to_owned()),
            Err(end) => FilterOutcome::Dropped(why(end)),
        }
    }

    /// Waits while calls wait for plugins, but not forever.
    async fn let_calls_go_first(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let load = self.plugins.load();
            let is_full = load.permits > 0 && load.permits_in_use >= load.permits;
            if !(load.queued > 0 || is_full) || Instant::now() >= until {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Returns the item of a definition, with the server's own name for it.
fn named(kind: ItemKind, definition: &serde_json::value::RawValue, name: &str) -> Result<Item, String> {
    let shown = Item::parse(kind, definition)?;
    Item::parse(kind, &shown.public_definition(name))
}

/// Returns why a definition did not pass its chains.
fn why(end: ChainEnd) -> String {
    let Denial { kind, chain, plugin, reason, .. } = match end {
        ChainEnd::NoRoom => return "there is no room for what its chains made of its definition".to_owned(),
        ChainEnd::Denied(denial) => denial,
    };
    let what = if kind == DenialKind::Denied { "denied its definition" } else { "failed on its definition" };
    let (chain, plugin) = (chain.unwrap_or_default(), plugin.unwrap_or_default());
    format!("plugin {plugin} of chain {chain} {what}: {reason:.MAX_SAID$}")
}
