//! Which plugins are loaded: whether those that guard a call can run, before anything is sent, and which are late.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::content::Content;
use super::entry_traces::{EntryTraces, entry_labels, trace};
use super::outcome::{Denial, DenialKind};
use super::when::WhenInput;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Refusal;
use crate::domain::plugin::{Failure, Phase};
use crate::domain::ports::{LinkedPlugin, Loading, RunPlugin};
use crate::domain::reason::Reason;
use crate::domain::record::{EntryOutcome, EntryTrace};
use crate::engine::plan::in_force::InForce;
use crate::engine::plan::link::{Linked, LinkedChain, LinkedEntry};
use crate::engine::plan::linked_item::Selected;
use crate::engine::plan::snapshot::{Found, Snapshot};
use crate::telemetry::metrics::Metrics;

/// How often to check whether plugins are loaded.
const LOOK: Duration = Duration::from_millis(5);

/// Which plugins are loaded in this process.
#[derive(Clone)]
pub struct PluginLoads {
    pub(in crate::engine) plugins: Arc<dyn RunPlugin>,
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) metrics: Arc<Metrics>,
}

impl PluginLoads {
    /// Waits until the plugins that guard calls of this item are no longer being loaded, for at most the queue timeout
    /// plus the entry's timeout. Returns true if the item must be looked up again: all these loads have ended, or
    /// another plan or choice of forms has replaced the snapshot. Returns false after a timeout, or if no plugin was
    /// being loaded.
    pub(crate) async fn waited_for_guards(&self, snapshot: &Snapshot, found: &Found) -> bool {
        let (item, queue) = (&found.item, snapshot.plan().gateway.runtime.queue_timeout_ms);
        let (mut waited, began) = (false, Instant::now());
        for selected in item.request.iter().chain(&item.response) {
            let entries = selected.chain.entries.iter().zip(&selected.filter_admits);
            for (entry, _) in entries.filter(|(entry, filter_admits)| **filter_admits && entry.must_run()) {
                let Ok(plugin) = &entry.plugin else { continue };
                if self.plugins.loading(plugin) != Loading::Underway {
                    continue;
                }
                waited = true;
                let until = began + Duration::from_millis(queue.into()) + entry.timeout;
                let loaded_or_replaced = async {
                    tokio::select! {
                        () = self.wait_until_loaded(plugin) => false,
                        () = self.wait_until_replaced(&snapshot.linked) => true,
                    }
                };
                match timeout_at(until, loaded_or_replaced).await {
                    Ok(false) => {}
                    Ok(true) => return true,
                    Err(_) => return false,
                }
            }
        }
        waited
    }

    /// Waits until the plugins that must run in these chains are no longer being loaded, for at most the queue timeout plus
    /// the entry's timeout.
    pub(crate) async fn wait_for_entries<'a>(&self, chains: impl Iterator<Item = &'a Selected>) {
        let queue = Duration::from_millis(self.in_force.snapshot().plan().gateway.runtime.queue_timeout_ms.into());
        let began = Instant::now();
        let entries: Vec<_> = chains.flat_map(Selected::acting).filter(|entry| entry.must_run()).collect();
        for entry in entries {
            if let Ok(plugin) = &entry.plugin {
                let _ = timeout_at(began + queue + entry.timeout, self.wait_until_loaded(plugin)).await;
            }
        }
    }

    /// Waits until every plugin of the plan in force is loaded or has failed to load, and new calls use the result.
    pub async fn wait_for_loads(&self) {
        while !self.late_plugins().is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns the plugins of the plan in force that are still being loaded, and those for which new calls do not use
    /// the result of the load yet.
    pub(crate) fn late_plugins(&self) -> Vec<ObjectKey> {
        let linked = Arc::clone(&self.in_force.snapshot().linked);
        let is_late = |key: &ObjectKey, plugin: &Arc<LinkedPlugin>| match self.plugins.loading(plugin) {
            Loading::Underway | Loading::Unprepared => true,
            Loading::Loaded => linked.stand_ins.contains_key(key),
            Loading::Failed { .. } => {
                let older = linked.stand_ins.get(key).map(|form| self.plugins.loading(&form.plugin));
                older == Some(Loading::Underway) || !linked.not_loaded.iter().any(|lost| lost.plugin == *key)
            }
        };
        let wanted = linked.wanted().into_iter();
        let late = wanted.filter(|(key, plugin)| plugin.as_ref().is_ok_and(|plugin| is_late(key, plugin)));
        late.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the late plugins for which no older form runs, so that calls wait for them.
    pub(crate) fn unserved_plugins(&self) -> Vec<ObjectKey> {
        let linked = Arc::clone(&self.in_force.snapshot().linked);
        let serves = |key: &ObjectKey| {
            let older = linked.stand_ins.get(key).map(|form| self.plugins.loading(&form.plugin));
            older == Some(Loading::Loaded)
        };
        self.late_plugins().into_iter().filter(|key| !serves(key)).collect()
    }

    /// Waits until a plugin is loaded or has failed to load.
    async fn wait_until_loaded(&self, plugin: &Arc<LinkedPlugin>) {
        let mut seen = 0;
        while self.plugins.loading(plugin) == Loading::Underway {
            seen = self.plugins.loads(seen).await;
        }
    }

    /// Waits until another plan is in force, or the same plan with other forms of its plugins.
    async fn wait_until_replaced(&self, linked: &Arc<Linked>) {
        // The engine owns the sender, so the channel cannot be closed.
        let _ =
            self.in_force.plans.subscribe().wait_for(|()| !Arc::ptr_eq(&self.in_force.snapshot().linked, linked)).await;
    }

    /// Returns the denial of a call or a question that cannot be guarded: because of the first chain that refuses, or the
    /// first entry that must run but cannot run here. `chains` are those of both phases, which are checked before anything
    /// is sent, because a tool must not run if its response would have to be withheld. `content` is that of the request.
    pub(crate) fn cannot_guard<'a>(
        &self,
        chains: impl Iterator<Item = &'a Selected>,
        when: &WhenInput<'_>,
        content: impl Fn() -> Content,
        traces: &mut EntryTraces,
    ) -> Option<Denial> {
        let mut first = 0;
        for selected in chains {
            let chain = &selected.chain;
            if let Some(refusal) = &chain.plan.refusing {
                return Some(Denial::refused(Some(&chain.name), refusal));
            }
            if let Some((place, entry, failure)) = self.first_unable(selected, when, &content) {
                let outcome = EntryOutcome::Failed(failure.reason);
                let error = Some(failure.message.clone());
                let trace = EntryTrace { error, hides_error: true, ..trace(when.method, chain, entry, outcome) };
                traces.unable(first + place, trace);
                let reason = failure.reason.as_str();
                self.metrics.entry(&entry_labels(when.method, chain, entry, "failed", reason));
                let what = if when.method.is_question() { "The server's question" } else { "This call" };
                let text = format!("{what} is refused: plugin {} guards it and cannot run ({reason}).", entry.name);
                let kind = DenialKind::Refused(failure.reason);
                return Some(Denial::by_entry(kind, &chain.name, &entry.name, text));
            }
            first += chain.entries.len();
        }
        None
    }

    fn first_unable<'a>(
        &self,
        selected: &'a Selected,
        when: &WhenInput<'_>,
        content: &impl Fn() -> Content,
    ) -> Option<(usize, &'a LinkedEntry, Failure)> {
        selected.chain.entries.iter().zip(&selected.filter_admits).enumerate().find_map(
            |(place, (entry, filter_admits))| {
                if !(*filter_admits && entry.must_run()) {
                    return None;
                }
                let failure = self.unable(entry).or_else(|| self.still_loading(entry))?;
                // The content of a response is not known yet, so a `when` of a response chain cannot excuse its entry.
                let excused = selected.chain.plan.phase == Phase::Request && when.holds(entry, &content()) == Ok(false);
                (!excused).then_some((place, &**entry, failure))
            },
        )
    }

    /// Returns why a chain currently refuses the calls that it selects, or `None` if it does not. Even if an entry is
    /// the cause, calls that the filter of its plugin or its `when` excludes are not refused.
    pub(crate) fn refusing(&self, chain: &LinkedChain) -> Option<Refusal> {
        let unable = |entry: &Arc<LinkedEntry>| {
            let Failure { reason, message, .. } = self.unable(entry)?;
            // The message of the plan names the plugin itself.
            let message = match entry.plan.unavailable {
                Some(_) => message,
                None => format!("Plugin {}: {message}", entry.name),
            };
            Some(Refusal { reason, message })
        };
        let refusing = || chain.entries.iter().filter(|entry| entry.must_run()).find_map(unable);
        chain.plan.refusing.clone().or_else(refusing)
    }

    fn still_loading(&self, entry: &LinkedEntry) -> Option<Failure> {
        let plugin = entry.plugin.as_ref().ok()?;
        let is_underway = self.plugins.loading(plugin) == Loading::Underway;
        is_underway.then(|| Failure::new(Reason::NotLoaded, "is still being loaded"))
    }

    /// Returns why an entry cannot run in this process at the moment, or `None` if it can.
    pub(crate) fn unable(&self, entry: &LinkedEntry) -> Option<Failure> {
        match &entry.plugin {
            Err(failure) => Some(failure.clone()),
            Ok(plugin) => self.plugins.availability(plugin).err(),
        }
    }
}
