//! Probes upstreams, each in its own task, so that an upstream that does not answer does not delay the probes of the
//! others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::Lists;
use super::tools::DueLists;
use crate::domain::health::{ConnectionState, ShortConnections};
use crate::domain::ids::ObjectKey;
use crate::domain::item::{ItemKind, Listed};
use crate::domain::plan::{TransportPlan, UpstreamPlan};
use crate::domain::record::millis;
use crate::domain::upstream::{FIRST_START, Probed, ServerFacts, Target, UpstreamError, UpstreamEvent};
use crate::domain::version::Era;
use crate::engine::catalogue::freshness::fresh_for;
use crate::engine::catalogue::probes::Probe;
use crate::engine::catalogue::upstream_state::UpstreamState;
use crate::engine::pipelines;
use crate::engine::plan::link::Linked;

/// The shortest time between two probes if the second is caused by an event or a failed call, because a server can
/// report changes endlessly.
const SHORTEST: Duration = Duration::from_secs(1);

impl Lists {
    /// Ends the probes of upstreams that are not in this plan, or whose settings this plan changes. Other probes
    /// continue. What the ended ones found is recorded by the time this returns, so that it can be forgotten.
    pub(crate) async fn end_old_probes(&self, linked: &Linked) {
        let wanted = probed(linked);
        let is_old = |key: &ObjectKey, probe: &mut Probe| wanted.get(key).is_none_or(|target| *target != probe.target);
        let old = self.probes.lock().extract_if(is_old).map(|(_, probe)| probe).collect();
        Probe::end_all(old).await;
    }

    /// Starts to probe the upstreams of this plan, and to run chains on what they list. Call [`Self::end_old_probes`] first.
    pub(crate) fn probe_targets(self: &Arc<Self>, linked: &Linked) {
        self.probes.events.start(Arc::clone(self).take_events());
        self.probes.filters.start(Arc::clone(self).filter_lists());
        self.probes.index.start(Arc::clone(self).index_tools());
        let mut running = self.probes.lock();
        for (key, target) in probed(linked) {
            running.entry(key).or_insert_with(|| {
                let (wake, retry) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
                let probing = Arc::clone(self).probe_on(Arc::clone(&target), Arc::clone(&wake), Arc::clone(&retry));
                let task = tokio::spawn(probing);
                let wake_lists = Arc::new(Notify::new());
                let lists = Arc::clone(self).read_other_lists(Arc::clone(&target), Arc::clone(&wake_lists));
                Probe { target, wake, retry, task, wake_lists, lists: tokio::spawn(lists) }
            });
        }
    }

    /// Takes what upstreams report, for ever.
    async fn take_events(self: Arc<Self>) {
        loop {
            match self.servers.next_event().await {
                UpstreamEvent::ListChanged(key, kind) => self.read_anew(&key, kind, true),
                UpstreamEvent::ListStale(key, kind) => self.read_anew(&key, kind, false),
                UpstreamEvent::Logged(key, session, params) => self.take_log(&key, &session, params),
                UpstreamEvent::Updated(key, uri) => self.take_update(&key, &uri),
                UpstreamEvent::Disconnected(key) => self.take_disconnected(&key),
                UpstreamEvent::Doubtful(key) => self.probes.kick(&key),
            }
        }
    }

    /// Has the connection made again that has ended by itself: at once, or after a while if it keeps ending.
    fn take_disconnected(&self, key: &ObjectKey) {
        let now = self.clock.monotonic();
        let (was_lost, was_fault, count, fault, wait) = self.catalogues.update(key, |state| {
            let was_lost = state.health.state == ConnectionState::Disconnected;
            let was_fault = state.short.fault().is_some();
            let count = state.short.ended(now);
            let fault = state.short.fault();
            if state.health.state == ConnectionState::Connected {
                state.health.state = ConnectionState::Disconnected;
                state.health.last_error = fault.as_ref().map(|fault| format!("ConnectFailed: {fault}"));
            }
            (was_lost, was_fault, count, fault, state.short.wait())
        });
        let is_other = was_fault != fault.is_some();
        if let Some(fault) = fault.filter(|_| count == ShortConnections::FAULT || count.is_power_of_two()) {
            tracing::warn!(upstream = key.name, count, ?wait, "{fault}");
        }
        if is_other {
            self.in_force.relist();
        }
        // One that is lost already is connected to when its time comes: what a call connected for itself has ended.
        if !was_lost {
            self.probes.kick(key);
        }
    }

    /// Tries an upstream that does not answer once more for a call, and waits for the outcome. One try at a time is made, and at
    /// most one a second.
    pub(crate) async fn try_again(&self, plan: &UpstreamPlan) {
        if self.retry_probe(&plan.key) {
            let is_untried = || !self.catalogues.was_tried(&plan.key, ItemKind::Tool);
            let _ = tokio::time::timeout(first_try(plan), self.in_force.wait_while(is_untried)).await;
        }
    }

    /// Begins a probe of an upstream that does not answer. Returns whether one is under way.
    pub(crate) fn retry_probe(&self, key: &ObjectKey) -> bool {
        let now = self.clock.monotonic();
        let Some(retry) = self.probes.retry_of(key) else { return false };
        let (is_due, is_untried) = self.catalogues.update(key, |state| {
            let is_down = state.health.state == ConnectionState::Error && state.tried;
            let is_due = is_down && state.retried_at.is_none_or(|at| now.saturating_sub(at) >= SHORTEST);
            if is_due {
                (state.retried_at, state.tried) = (Some(now), false);
            }
            (is_due, !state.tried)
        });
        if is_due {
            retry.notify_one();
        }
        is_untried
    }

    /// Has a list read again that may have changed. `is_announced` tells whether the server said so.
    fn read_anew(&self, key: &ObjectKey, kind: ItemKind, is_announced: bool) {
        self.catalogues.update(key, |state| {
            if is_announced {
                state.announced[kind as usize] = true;
            }
            if kind == ItemKind::Tool {
                state.stale = true;
            } else {
                state.others.ask(kind);
            }
        });
        if kind == ItemKind::Tool {
            self.probes.kick(key);
        } else {
            self.probes.wake_lists(key);
        }
    }

    /// Returns whether the server announced a change of the list that clients are told of, and forgets that.
    pub(super) fn take_announced(&self, key: &ObjectKey, kind: ItemKind) -> bool {
        let now = self.clock.monotonic();
        self.catalogues
            .update(key, |state| std::mem::take(&mut state.announced[kind as usize]) && state.announcements.take(now))
    }

    /// `wake` asks for a probe of an upstream that answers, `retry` for one of an upstream that does not.
    async fn probe_on(self: Arc<Self>, target: Target, wake: Arc<Notify>, retry: Arc<Notify>) {
        let key = target.plan.key.clone();
        loop {
            let began = self.clock.monotonic();
            let wait = self.probe_once(&target).await;
            let due = wait.map(|wait| self.clock.unix_millis() + u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            self.catalogues.update(&key, |state| state.next_probe_at = due);
            // A call that fails meanwhile must not shorten the wait before a retry, nor restart probes that were given
            // up.
            let Some(wait) = wait else { return };
            if self.catalogues.upstream(&key).health.state == ConnectionState::Error {
                let _ = tokio::time::timeout(wait, retry.notified()).await;
            } else {
                let _ = tokio::time::timeout(wait, wake.notified()).await;
                let rest_of = |pause: Duration| pause.saturating_sub(self.clock.monotonic().saturating_sub(began));
                tokio::time::sleep(rest_of(SHORTEST)).await;
                let known = self.catalogues.upstream(&key);
                if known.health.state == ConnectionState::Disconnected {
                    // What was told before the connection ended does not count. What is told from now on comes over one that a
                    // call has made.
                    let _ = wake.notified().now_or_never();
                    let _ = tokio::time::timeout(rest_of(known.short.wait()), wake.notified()).await;
                }
            }
        }
    }

    /// Probes once, reads the tool list if it is due, and returns how long to wait before the next probe.
    async fn probe_once(&self, target: &Target) -> Option<Duration> {
        let plan = &target.plan;
        let known = self.catalogues.upstream(&plan.key);
        let connected = known.health.state == ConnectionState::Connected;
        if !connected {
            let now = self.clock.monotonic();
            self.catalogues.update(&plan.key, |state| {
                state.health.state = ConnectionState::Connecting;
                state.connecting_since = Some(now);
            });
        }
        let before = self.clock.monotonic();
        let probed = match plan.is_served_here() {
            true => Ok(pipelines::probed(plan)),
            false => self.servers.probe(target, probe_timeout(target, connected, known.tried)).await,
        };
        let took = self.clock.monotonic().saturating_sub(before);
        let rested = matches!(probed, Ok(Probed::Resting)).then(|| self.clock.unix_millis());
        self.catalogues
            .update(&plan.key, |state| state.resting_since = rested.map(|now| state.resting_since.unwrap_or(now)));
        let wait = self.take_probed(target, probed, took, &known).await;
        let first = self.catalogues.update(&plan.key, |state| {
            state.connecting_since = None;
            !std::mem::replace(&mut state.tried, true)
        });
        let state = self.catalogues.upstream(&plan.key);
        self.metrics.upstream_state(&plan.key.name, state.health.state, !state.health.in_routing());
        if first {
            self.in_force.relist();
            self.in_force.tried.send_replace(());
        }
        wait
    }

    /// Records what a probe that took this long brought, and reads the tool list if it is due. `known` is the state before
    /// the probe. Returns how long to wait before the next probe.
    async fn take_probed(
        &self,
        target: &Target,
        probed: Result<Probed, UpstreamError>,
        took: Duration,
        known: &UpstreamState,
    ) -> Option<Duration> {
        let plan = &target.plan;
        let connected = known.health.state == ConnectionState::Connected;
        match probed {
            Ok(Probed::Up(facts)) => {
                self.metrics.ping(&plan.key.name, took);
                self.note_success(target, &facts, took);
                let is_fresh = known.fresh_until.is_some_and(|until| self.clock.monotonic() < until);
                let is_modern = facts.era == Era::Modern;
                let due = DueLists { tools: !connected || is_modern && !is_fresh, others: !connected || is_modern };
                self.refresh_tools(target, due, connected).await
            }
            Ok(Probed::Resting) => {
                self.catalogues.update(&plan.key, |state| state.others.give_up());
                self.refresh_tools(target, DueLists::default(), connected).await
            }
            // The server works on a call, so a request for the tool list would have to wait too.
            Ok(Probed::Busy) => Some(self.note_reachable(target, connected)),
            Err(error) => self.note_failure(target, "", &error),
        }
    }

    fn note_success(&self, target: &Target, facts: &ServerFacts, took: Duration) {
        let (now, facts) = (self.clock.unix_millis(), facts.masked(&target.mask()));
        self.catalogues.update(&target.plan.key, |state| {
            if state.facts.as_ref() != Some(&facts) {
                tracing::info!(
                    upstream = target.plan.key.name,
                    version = facts.version,
                    server = facts.server_name,
                    "connected"
                );
            }
            if state.health.state != ConnectionState::Connected {
                state.short.made(self.clock.monotonic());
            }
            state.facts = Some(facts);
            state.ping_ms = Some(millis(took));
            state.last_ping_at = Some(now);
        });
    }

    pub(super) fn note_failure(&self, target: &Target, asked: &str, error: &UpstreamError) -> Option<Duration> {
        let (plan, to_client) = (&target.plan, error.to_client());
        let error = format!("{asked}{}: {error}", error.reason());
        self.metrics.upstream_failed(&plan.key.name);
        let jitter = jitter();
        let (now, today) = (self.clock.monotonic(), self.clock.unix_millis());
        let (wait, failures, out) = self.catalogues.update(&plan.key, |state| {
            let wait = state.health.failed(&plan.health, now, error.clone(), jitter);
            if !state.health.in_routing() {
                state.auto_disabled_at.get_or_insert(today);
            }
            state.stale = state.catalogue.is_some();
            state.down = Some(to_client);
            state.others.give_up();
            (wait, state.health.failures, !state.health.in_routing())
        });
        tracing::warn!(upstream = plan.key.name, failures, out_of_routing = out, "probe failed: {error}");
        wait
    }

    /// Records that the upstream is connected. Returns how long to wait before the next probe.
    pub(super) fn note_reachable(&self, target: &Target, was_connected: bool) -> Duration {
        let plan = &target.plan;
        let (wait, lasts) = self.catalogues.update(&plan.key, |state| {
            let now = self.clock.monotonic();
            if !was_connected {
                state.connected_at = Some(self.clock.unix_millis());
            }
            (state.auto_disabled_at, state.down) = (None, None);
            (state.health.succeeded(&plan.health, now), state.short.lasts(now))
        });
        if lasts {
            self.in_force.relist();
        }
        self.probes.wake_lists(&plan.key);
        wait
    }

    /// Returns for how long a list that was read in the time `took` is fresh; `None` if the server does not say so.
    pub(super) fn fresh_for(&self, listed: &Listed, took: Duration) -> Option<Duration> {
        fresh_for(listed.caching.ttl_ms, took, jitter())
    }
}

/// Returns a random number from 0 to 1.
fn jitter() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 255.0
}

/// Returns the upstreams of a plan that are probed: those that are enabled, have a usable transport and whose lists are read.
fn probed(linked: &Linked) -> HashMap<ObjectKey, Target> {
    let targets = linked.upstreams.iter().filter(|upstream| upstream.lists()).map(|upstream| &upstream.target);
    let wanted = targets.filter(|target| target.plan.enabled && target.plan.transport != TransportPlan::None);
    wanted.map(|target| (target.plan.key.clone(), Arc::clone(target))).collect()
}

fn probe_timeout(target: &Target, connected: bool, tried: bool) -> Duration {
    let plan = &target.plan;
    let probe = Duration::from_millis(u64::from(plan.health.timeout_ms));
    match (connected, tried) {
        (true, _) => probe,
        (false, false) => first_try(plan),
        (false, true) => Duration::from_millis(u64::from(plan.connect_timeout_ms)) + probe,
    }
}

/// How long the first try of an upstream can take.
pub(crate) fn first_try(plan: &UpstreamPlan) -> Duration {
    let probe = Duration::from_millis(u64::from(plan.health.timeout_ms));
    match plan.transport {
        TransportPlan::Process { .. } => FIRST_START.max(probe),
        _ => Duration::from_millis(u64::from(plan.connect_timeout_ms)) + probe,
    }
}
