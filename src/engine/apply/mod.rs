//! Puts a plan in force: links it, starts to load new plugins, swaps the snapshot, and releases what is no longer used.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::domain::kept_form::KeptForm;
use crate::domain::plan::Plan;
use crate::domain::ports::{Clock, RunPlugin, Secrets};
use crate::domain::problem::Problem;
use crate::engine::access::gate::Gate;
use crate::engine::audit_trail::AuditTrail;
use crate::engine::catalogue::Catalogues;
use crate::engine::lists::Lists;
use crate::engine::plan::check_places::CheckRoom;
use crate::engine::plan::in_force::InForce;
use crate::engine::plan::kept_connections::keep_connections;
use crate::engine::plan::link::{Linked, link};
use crate::engine::plan::plugin_revisions::{FormChoice, PluginRevisions, WantedPlan};
use crate::engine::plan::secret_values::secret_states;
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::servers::Servers;
use crate::telemetry::metrics::Metrics;

/// Puts plans in force.
pub struct Applier {
    pub(in crate::engine) plugins: Arc<dyn RunPlugin>,
    pub(in crate::engine) servers: Arc<Servers>,
    pub(in crate::engine) lists: Arc<Lists>,
    pub(in crate::engine) audit: Arc<AuditTrail>,
    pub(in crate::engine) gate: Arc<Gate>,
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) catalogues: Arc<Catalogues>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    pub(in crate::engine) metrics: Arc<Metrics>,
    /// Room for checks of arguments that take long.
    pub(in crate::engine) checks: Arc<CheckRoom>,
    /// Held while a plan is applied.
    pub(in crate::engine) applying: tokio::sync::Mutex<()>,
    /// The plans that calls may still be running on.
    pub(in crate::engine) held: Mutex<Vec<Weak<Linked>>>,
    /// The most recently loaded form of each plugin.
    pub(in crate::engine) forms: Mutex<PluginRevisions>,
    /// Counts the changes of `forms`.
    pub(in crate::engine) forms_changed: watch::Sender<u64>,
    /// The task that puts new forms of plugins in force once they are loaded.
    pub(in crate::engine) following: Mutex<Option<AbortHandle>>,
}

impl Applier {
    /// Puts `plan` in force without waiting for plugins to load: until a plugin's new form is loaded, its previous form
    /// runs, or its entries wait. Running calls end on the plan that they began with. Plans are applied one at a time.
    pub async fn apply(self: &Arc<Self>, mut plan: Plan, mut problems: Vec<Problem>, secrets: &impl Secrets) {
        let _one_at_a_time = self.applying.lock().await;
        let started = self.clock.monotonic();
        let before = Arc::clone(&self.in_force.snapshot().linked);
        let states = secret_states(&plan, secrets);
        let kept = keep_connections(&mut plan, &before.upstreams, secrets);
        let (mut linked, link_problems) = link(plan, &problems, secrets, &self.checks);
        linked.secrets = states;
        problems.extend(kept.into_iter().chain(link_problems));
        let newest = self.newest(linked, problems, secrets);
        self.plugins.prepare(&newest.plugins(), &newest.linked.plan.gateway.runtime).await;
        let choice = self.choose(&newest);
        self.in_force.snapshot().linked.log_changes(&choice);
        let linked = Arc::new(newest.linked.with(&choice));
        let problems = newest.problems_with(&choice);
        self.hold(&linked);
        self.servers.prepare(&linked.targets());
        self.lists.end_old_probes(&linked).await;
        self.forget_missing(&linked);
        self.gate.let_calls_run(&linked.plan);
        self.in_force
            .publish(|previous| Snapshot::build(Arc::clone(&linked), problems.clone(), &self.catalogues, previous));
        self.in_force.since.get_or_init(|| self.clock.monotonic());
        self.in_force.plans.send_replace(());
        self.audit.plan_changes(&before.plan, &linked.plan);
        self.gate.cut_calls(&linked);
        self.retire_upstreams();
        self.plugins.retire(&newest.needed(&choice));
        if !choice.is_settled {
            self.follow_loads(newest);
        }
        self.lists.probe_targets(&linked);
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
        let (applier, let_go) = (Arc::downgrade(self), linked.let_go());
        tokio::spawn(async move {
            let_go.cancelled().await;
            if let Some(applier) = applier.upgrade() {
                applier.retire_upstreams();
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
        let applier = Arc::clone(self);
        let following = tokio::spawn(async move {
            let mut seen = 0;
            loop {
                seen = applier.plugins.loads(seen).await;
                let _one_at_a_time = applier.applying.lock().await;
                if applier.gate.ended.is_cancelled() || applier.settle(&newest) {
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
        let before = Arc::clone(&self.in_force.snapshot().linked);
        if before.differs(&choice) {
            before.log_changes(&choice);
            let linked = Arc::new(newest.linked.with(&choice));
            let problems = newest.problems_with(&choice);
            self.metrics.plan_problems(&problems);
            self.hold(&linked);
            self.in_force
                .publish(|previous| Snapshot::build(Arc::clone(&linked), problems, &self.catalogues, previous));
            self.in_force.plans.send_replace(());
            self.plugins.retire(&newest.needed(&choice));
        }
        choice.is_settled
    }

    fn forget_missing(&self, linked: &Linked) {
        let planned = |name: &str| linked.upstreams.iter().any(|u| u.target.plan.key.to_string() == name);
        self.catalogues.make_room_for_names(planned);
        for old in self.in_force.snapshot().linked.upstreams.iter() {
            let key = &old.target.plan.key;
            let kept = linked.upstreams.iter().find(|new| new.target.plan.key == *key);
            match kept {
                None => self.catalogues.forget(key),
                // An upstream that has left routing comes back if its spec, or the value of the annotation that enables
                // it, has changed. Its server can be another one, whose lists are unread.
                Some(new) if new.target != old.target => self.catalogues.update(key, |state| {
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
        linked.upstreams.iter().for_each(|upstream| self.catalogues.track(&upstream.target.plan.key));
    }

    /// The most recently loaded form of each plugin in the plan.
    pub fn kept_forms(&self) -> Vec<KeptForm> {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner).to_kept()
    }

    /// A receiver that is notified whenever [`Self::kept_forms`] changes.
    pub fn forms_changed(&self) -> watch::Receiver<u64> {
        self.forms_changed.subscribe()
    }

    /// Restores the forms that an earlier process had loaded. Call this before the first plan is applied.
    pub fn restore_forms(&self, kept: Vec<KeptForm>) {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner).restore(kept);
    }
}

fn log_in_force(linked: &Linked, problems: usize) {
    let (upstreams, chains) = (linked.upstreams.len(), linked.chains.len());
    tracing::info!(revision = linked.plan.revision, upstreams, chains, problems, "plan in force");
}
