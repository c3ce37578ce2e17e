//! Puts a plan in force: links it, starts to load new plugins, swaps the snapshot, and releases what is no longer used.

use std::sync::{Arc, PoisonError, Weak};

use super::kept_connections::keep_connections;
use super::link::{Linked, link};
use super::plugin_revisions::{FormChoice, WantedPlan};
use super::secret_values::secret_states;
use super::snapshot::Snapshot;
use crate::domain::ids::ObjectKey;
use crate::domain::item::ItemKind;
use crate::domain::plan::Plan;
use crate::domain::ports::Secrets;
use crate::domain::problem::Problem;
use crate::engine::Engine;

impl Engine {
    /// Puts `plan` in force without waiting for plugins to load: until a plugin's new form is loaded, its previous form
    /// runs, or its entries wait. Running calls end on the plan that they began with. Plans are applied one at a time.
    pub async fn apply(self: &Arc<Self>, mut plan: Plan, mut problems: Vec<Problem>, secrets: &impl Secrets) {
        let _one_at_a_time = self.applying.lock().await;
        let started = self.clock.monotonic();
        let before = Arc::clone(&self.snapshot().linked);
        let states = secret_states(&plan, secrets);
        let kept = keep_connections(&mut plan, &before.upstreams, secrets);
        let (mut linked, link_problems) = link(plan, &problems, secrets, &self.state.checks);
        linked.secrets = states;
        problems.extend(kept.into_iter().chain(link_problems));
        let newest = self.newest(linked, problems, secrets);
        self.plugins.prepare(&newest.plugins(), &newest.linked.plan.gateway.runtime).await;
        let choice = self.choose(&newest);
        self.snapshot().linked.log_changes(&choice);
        let linked = Arc::new(newest.linked.with(&choice));
        let problems = newest.problems_with(&choice);
        self.hold(&linked);
        self.servers.prepare(&linked.targets());
        self.end_old_probes(&linked).await;
        self.forget_missing(&linked);
        self.let_calls_run(&linked.plan);
        self.publish(|previous| Snapshot::build(Arc::clone(&linked), problems.clone(), &self.state, previous));
        self.state.in_force_since.get_or_init(|| self.clock.monotonic());
        self.plans.send_replace(());
        self.audit_changes(&before.plan, &linked.plan);
        self.cut_calls(&linked);
        self.retire_upstreams();
        self.plugins.retire(&newest.needed(&choice));
        if !choice.is_settled {
            self.follow_loads(newest);
        }
        self.probe_targets(&linked);
        let took = self.clock.monotonic().saturating_sub(started);
        self.metrics.plan(&linked.plan.revision, &problems, took);
        if before.plan.revision == linked.plan.revision {
            return;
        }
        log_in_force(&linked, problems.len());
    }

    /// Keeps the connections to the upstreams of a plan until no call or snapshot uses the plan any more.
    fn hold(self: &Arc<Self>, linked: &Arc<Linked>) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(linked));
        let (engine, let_go) = (Arc::downgrade(self), linked.let_go());
        tokio::spawn(async move {
            let_go.cancelled().await;
            if let Some(engine) = engine.upgrade() {
                engine.retire_upstreams();
            }
        });
    }

    /// Closes the connections to upstreams that belong to no plan in use.
    fn retire_upstreams(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|linked| linked.strong_count() > 0);
        let keep: Vec<_> = held.iter().filter_map(Weak::upgrade).flat_map(|linked| linked.targets()).collect();
        self.servers.retire(&keep);
    }

    fn newest(&self, linked: Linked, problems: Vec<Problem>, secrets: &impl Secrets) -> WantedPlan {
        self.stop_following();
        let mut forms = self.forms.lock().unwrap_or_else(PoisonError::into_inner);
        if forms.retain(&linked.plan) {
            self.forms_changed.send_modify(|count| *count += 1);
        }
        WantedPlan { candidates: forms.candidates(&linked, secrets), linked, problems }
    }

    /// Chooses which form of each plugin runs now. Stores the loaded forms, so that they can later run if newer forms
    /// are not loaded.
    fn choose(&self, newest: &WantedPlan) -> FormChoice {
        let choice = newest.choose(&*self.plugins);
        let mut forms = self.forms.lock().unwrap_or_else(PoisonError::into_inner);
        let news = choice.loaded.iter().filter(|plugin| forms.accept(&newest.linked.plan, plugin)).count();
        if news > 0 {
            self.forms_changed.send_modify(|count| *count += 1);
        }
        choice
    }

    /// Starts a task that replaces older forms of plugins with the plan's forms as soon as these are loaded.
    fn follow_loads(self: &Arc<Self>, newest: WantedPlan) {
        let engine = Arc::clone(self);
        let following = tokio::spawn(async move {
            let mut seen = 0;
            loop {
                seen = engine.plugins.loads(seen).await;
                let _one_at_a_time = engine.applying.lock().await;
                if engine.state.ended.is_cancelled() || engine.settle(&newest) {
                    return;
                }
            }
        });
        *self.following.lock().unwrap_or_else(PoisonError::into_inner) = Some(following.abort_handle());
    }

    fn stop_following(&self) {
        if let Some(following) = self.following.lock().unwrap_or_else(PoisonError::into_inner).take() {
            following.abort();
        }
    }

    /// Called after a load has ended: chooses the forms again, and puts the new choice in force if it differs from the
    /// current one. Returns whether every plugin now runs in the form of the plan.
    fn settle(self: &Arc<Self>, newest: &WantedPlan) -> bool {
        let choice = self.choose(newest);
        let before = Arc::clone(&self.snapshot().linked);
        if before.differs(&choice) {
            before.log_changes(&choice);
            let linked = Arc::new(newest.linked.with(&choice));
            let problems = newest.problems_with(&choice);
            self.metrics.plan_problems(&problems);
            self.hold(&linked);
            self.publish(|previous| Snapshot::build(Arc::clone(&linked), problems, &self.state, previous));
            self.plans.send_replace(());
            self.plugins.retire(&newest.needed(&choice));
        }
        choice.is_settled
    }

    /// If the calls in flight were cancelled, and neither this plan nor the admin API stops calls, creates a new token, so
    /// that calls on this plan are not cancelled.
    pub(crate) fn let_calls_run(&self, plan: &Plan) {
        let is_stopped = plan.gateway.stopped || self.is_stopped_by_admin();
        if !is_stopped && self.state.cut.load().is_cancelled() {
            self.state.cut.store(Arc::default());
        }
    }

    /// Ends calls in flight if the plan is stopped with `stopMode: Cancel`.
    fn cut_calls(&self, linked: &Linked) {
        let gateway = &linked.plan.gateway;
        if gateway.stopped && gateway.stop_cancels {
            self.state.cut.load().cancel();
        }
    }

    /// Builds the next snapshot from the current one and puts it in force. Notifies waiters if the tool list has
    /// changed.
    pub(crate) fn publish(&self, build: impl FnOnce(&Snapshot) -> Snapshot) {
        let _one_at_a_time = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = self.snapshot.load_full();
        let next = build(&previous);
        let changed = next.list_revisions != previous.list_revisions;
        self.snapshot.store(Arc::new(next));
        self.published.notify_waiters();
        if changed {
            self.lists.send_replace(());
        }
    }

    /// Rebuilds the snapshot after a tool list has changed.
    pub(crate) fn relist(&self) {
        self.publish(|previous| previous.relist(&self.state));
    }

    /// Whether the snapshot in force, or the one that is being built, counts this list of an upstream as one that was never
    /// read and that chains have to see.
    pub(crate) fn awaits_list(&self, upstream: &ObjectKey, kind: ItemKind) -> bool {
        let _none_is_being_built = self.publishing.lock().unwrap_or_else(PoisonError::into_inner);
        self.snapshot().is_unread(upstream, kind)
    }

    fn forget_missing(&self, linked: &Linked) {
        let planned = |name: &str| linked.upstreams.iter().any(|u| u.target.plan.key.to_string() == name);
        self.state.make_room_for_names(planned);
        for old in self.snapshot().linked.upstreams.iter() {
            let key = &old.target.plan.key;
            let kept = linked.upstreams.iter().find(|new| new.target.plan.key == *key);
            match kept {
                None => self.state.forget(key),
                // An upstream that has left routing comes back if its spec, or the value of the annotation that enables
                // it, has changed. Its server can be another one, whose lists are unread.
                Some(new) if new.target != old.target => self.state.update(key, |state| {
                    // What the old server lists says nothing of what has the same name or URI at another one. A value that
                    // has changed can lead to another one, but most are credentials, for which no tool is to vanish.
                    if new.target.plan.transport != old.target.plan.transport {
                        state.catalogue = None;
                    } else if (&new.target.values, &new.target.tls) != (&old.target.values, &old.target.tls) {
                        state.catalogue = state.catalogue.take().map(|known| Arc::new(known.without_others()));
                    }
                    (state.stale, state.fresh_until) = (state.catalogue.is_some(), None);
                    state.health = Default::default();
                    state.short = Default::default();
                    state.auto_disabled_at = None;
                    state.tried = false;
                    state.others = Default::default();
                }),
                Some(_) => {}
            }
        }
        linked.upstreams.iter().for_each(|upstream| self.state.track(&upstream.target.plan.key));
    }
}

fn log_in_force(linked: &Linked, problems: usize) {
    let (upstreams, chains) = (linked.upstreams.len(), linked.chains.len());
    tracing::info!(revision = linked.plan.revision, upstreams, chains, problems, "plan in force");
}
