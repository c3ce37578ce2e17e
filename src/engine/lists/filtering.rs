//! Runs chains on the definitions that upstreams list, beside calls: clients get what the chains have seen.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::Lists;
use crate::config::access::condition_values::ItemNames;
use crate::domain::budget::{Category, NoRoom};
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind};
use crate::domain::plugin::Mode;
use crate::domain::record::EntryOutcome;
use crate::domain::turns::Turns;
use crate::engine::catalogue::filtered::FilterOutcome;
use crate::engine::chains::chain::{CallContext, ChainEnd, Nobody};
use crate::engine::chains::content::Content;
use crate::engine::chains::entry_traces::{EntryTraces, count_skipped};
use crate::engine::chains::outcome::{Denial, DenialKind};
use crate::engine::chains::routed_call::CallFacts;
use crate::engine::chains::when::WhenInput;
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

/// Definitions that wait to be filtered.
struct FilterQueue<'t> {
    waiting: BTreeMap<ObjectKey, VecDeque<FilterJob>>,
    turns: &'t mut Turns<ObjectKey>,
    /// The keys of the jobs that wait or run.
    keys: HashSet<String>,
}

impl<'t> FilterQueue<'t> {
    fn new(turns: &'t mut Turns<ObjectKey>) -> Self {
        Self { waiting: BTreeMap::new(), turns, keys: HashSet::new() }
    }

    /// Adds jobs that neither wait nor run.
    fn add(&mut self, jobs: Vec<FilterJob>) {
        for job in jobs {
            if self.keys.insert(job.key.clone()) {
                self.turns.want(job.target.plan.key.clone());
                self.waiting.entry(job.target.plan.key.clone()).or_default().push_back(job);
            }
        }
    }

    /// Takes a job of the upstream whose turn it is; `None` if none may run.
    fn next(&mut self) -> Option<FilterJob> {
        let open = self.waiting.iter().filter(|(_, jobs)| !jobs.is_empty()).map(|(upstream, _)| upstream);
        let upstream = self.turns.next(open, MAX_OF_ONE)?;
        self.waiting.get_mut(&upstream)?.pop_front()
    }

    /// Records that a job of this upstream has ended.
    fn end(&mut self, upstream: &ObjectKey, key: &str) {
        self.keys.remove(key);
        self.turns.end(upstream);
    }
}

impl Lists {
    /// Filters definitions, for ever.
    pub(super) async fn filter_lists(self: Arc<Self>) {
        let mut turns = Turns::default();
        loop {
            self.filter_due(&mut turns).await;
        }
    }

    /// Filters the definitions that are due, or waits until some are.
    async fn filter_due(self: &Arc<Self>, turns: &mut Turns<ObjectKey>) {
        let published = self.in_force.published.notified();
        tokio::pin!(published);
        // Registers before the look, so that no snapshot between the look and the wait is missed.
        published.as_mut().enable();
        let due = self.due_jobs();
        if !due.is_empty() {
            return self.filter_all(due, turns).await;
        }
        let now = self.clock.monotonic();
        let next = self.in_force.snapshot().filters.jobs.iter().map(|job| job.not_before.saturating_sub(now)).min();
        match next {
            Some(wait) => drop(tokio::time::timeout(wait, published).await),
            None => published.await,
        }
    }

    fn due_jobs(&self) -> Vec<FilterJob> {
        let (snapshot, now) = (self.in_force.snapshot(), self.clock.monotonic());
        self.catalogues.filtered.note_new(snapshot.filters.with_new(), now);
        snapshot.filters.jobs.iter().filter(|job| job.not_before <= now).cloned().collect()
    }

    /// Filters these definitions and those that become due meanwhile, some of each upstream at a time, until all are
    /// filtered or another plan is in force.
    async fn filter_all(self: &Arc<Self>, due: Vec<FilterJob>, turns: &mut Turns<ObjectKey>) {
        let linked = Arc::clone(&self.in_force.snapshot().linked);
        // Who has waited since another plan was in force goes first.
        let keys: HashSet<_> = due.iter().map(|job| &job.target.plan.key).collect();
        turns.begin_anew(|upstream| keys.contains(upstream));
        let (mut queue, mut running) = (FilterQueue::new(turns), FuturesUnordered::new());
        queue.add(due);
        let (mut published, mut has_news) = (Instant::now(), false);
        loop {
            let most = (self.plugins.load().permits / 2).clamp(1, MAX_OF_ALL) as usize;
            while running.len() < most
                && let Some(job) = queue.next()
            {
                running.push(self.filter(job));
            }
            if running.is_empty() {
                break;
            }
            tokio::select! {
                Some((upstream, key)) = running.next() => {
                    queue.end(&upstream, &key);
                    has_news = true;
                }
                () = tokio::time::sleep_until(published + PUBLISH) => {}
            }
            if published.elapsed() < PUBLISH {
                continue;
            }
            if !Arc::ptr_eq(&self.in_force.snapshot().linked, &linked) {
                break;
            }
            if std::mem::take(&mut has_news) {
                self.publish_filtered();
            }
            queue.add(self.due_jobs());
            published = Instant::now();
        }
        drop(running);
        self.publish_filtered();
    }

    fn publish_filtered(&self) {
        self.in_force.relist();
        self.in_force.tried.send_replace(());
    }

    /// Runs the chains on one definition and keeps what they make of it. Returns the upstream and the key of the job.
    async fn filter(self: &Arc<Self>, job: FilterJob) -> (ObjectKey, String) {
        self.let_calls_go_first().await;
        let mut traces = EntryTraces::default();
        let outcome = self.outcome_of(&job, &mut traces).await;
        count_skipped(&self.metrics, &traces.entries);
        let failed = |outcome: EntryOutcome| matches!(outcome, EntryOutcome::Failed(_));
        let has_failed =
            outcome.is_err() || traces.entries.iter().any(|entry| entry.mode == Mode::Enforce && failed(entry.outcome));
        let outcome = outcome.unwrap_or_else(|NoRoom| FilterOutcome::without_room());
        if let FilterOutcome::Dropped(why) = &outcome {
            let (upstream, kind) = (&job.target.plan.key.name, job.item.kind);
            tracing::warn!(upstream, item = job.item.kind.shown(&job.item.name), "a {kind} is not offered: {why}");
        }
        self.catalogues.filtered.put(job.key.clone(), outcome, has_failed, self.clock.monotonic());
        (job.target.plan.key.clone(), job.key)
    }

    /// Runs the chains on one definition.
    ///
    /// # Errors
    /// If there is no room now for what they make of it.
    async fn outcome_of(self: &Arc<Self>, job: &FilterJob, traces: &mut EntryTraces) -> Result<FilterOutcome, NoRoom> {
        let FilterJob { item, target, own, chains, .. } = job;
        let method = item.kind.listed_by();
        traces.begin(method, chains.iter());
        let content = Content::Definition(item.kind, (*item.public_definition(own)).to_owned());
        let unique_keys = chains.iter().any(Selected::guards);
        if unique_keys && content.doubled_key().is_some() {
            return Ok(FilterOutcome::Dropped(
                "a key stands twice in its definition, which a plugin guards".to_owned(),
            ));
        }
        let facts = Arc::new(CallFacts::of_definition(target, item, self.clock.unix_millis()));
        let category = if item.kind == ItemKind::Tool { Category::List } else { Category::OtherList };
        let reservation = self.budget.reservation(category);
        let reservation = Some(&reservation);
        let context = CallContext { unique_keys, reservation, ..CallContext::of(&facts, method, &Nobody) };
        let name = if item.kind.has_name() { format!("{}__{own}", facts.upstream) } else { own.clone() };
        let names = ItemNames::new(item.kind, Cow::Owned(name), &item.name, &facts.upstream);
        let when = WhenInput { facts: &facts, item, upstream: &target.plan, method, names, request: "{}" };
        Ok(match self.chains.run_chains(context, chains, &when, &content, traces).await {
            Ok(None) => FilterOutcome::Same,
            Ok(Some(Content::Definition(kind, changed))) => match named(kind, &changed, &item.name) {
                Ok(changed) => FilterOutcome::Changed(changed),
                Err(fault) => FilterOutcome::Dropped(fault),
            },
            Ok(Some(_)) => FilterOutcome::Dropped("its chains gave no definition".to_owned()),
            Err(ChainEnd::NoRoom) => return Err(NoRoom),
            Err(ChainEnd::Denied(denial)) => FilterOutcome::Dropped(why(denial)),
        })
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
fn why(Denial { kind, chain, plugin, .. }: Denial) -> String {
    let what = if matches!(kind, DenialKind::Denied(_)) { "denied its definition" } else { "failed on its definition" };
    let (chain, plugin) = (chain.unwrap_or_default(), plugin.unwrap_or_default());
    format!("plugin {plugin} of chain {chain} {what}: {kind:.MAX_SAID$}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::raw::to_raw;
    use crate::domain::reason::Reason;

    #[test]
    fn a_definition_keeps_the_name_of_its_server() {
        let changed = to_raw(&json!({"name": "up__read", "description": "d", "inputSchema": {"type": "object"}}));
        let item = named(ItemKind::Tool, &changed, "read").unwrap();
        assert_eq!(item.name, "read");
        assert!(item.definition.get().contains(r#""description":"d""#), "{}", item.definition);
        assert!(named(ItemKind::Tool, &to_raw(&json!({"description": "nameless"})), "read").is_err());
    }

    #[test]
    fn a_definition_that_is_left_out_says_which_plugin_of_which_chain_is_the_cause() {
        let (chain, plugin, text) = (Some("default/c".into()), Some("default/p".into()), String::new());
        let denied = Denial { kind: DenialKind::Denied("no".repeat(500)), chain, plugin, text };
        let failed = Denial { kind: DenialKind::Failed(Reason::Timeout), ..denied.clone() };
        let said = why(denied);
        assert!(said.starts_with("plugin default/p of chain default/c denied its definition: nono"), "{said}");
        assert!(said.len() < 300, "the message of a plugin is cut");
        assert_eq!(why(failed), "plugin default/p of chain default/c failed on its definition: Timeout");
    }
}
