//! The forms of plugins that were loaded last. One of them runs on while the newer form of the plan is being loaded, and
//! for as long as that cannot be.
//!
//! What is an act and not a mistake counts at once all the same: a plugin that the plan does not hold any more has no
//! older form either, consent and switches are the plan's, and a form that has a right which the plan took from its
//! plugin (a host of `egress`, a Secret, a variable of the gateway) stands in for nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::form::{FailedForm, Form, StandIns};
use super::link::{Linked, link_plugin};
use crate::domain::digest::{revision, sha256_hex};
use crate::domain::ids::ObjectKey;
use crate::domain::kept_form::KeptForm;
use crate::domain::plan::Plan;
use crate::domain::plugin::Failure;
use crate::domain::ports::{LinkedPlugin, Loading, RunPlugin, Secrets};
use crate::domain::problem::Problem;

/// The last form of each plugin that was loaded.
#[derive(Default)]
pub(crate) struct Forms(BTreeMap<ObjectKey, LoadedForm>);

struct LoadedForm {
    form: Form,
    /// Tells it from another: a digest of all that is kept of it.
    stamp: String,
}

impl Forms {
    /// With those of an earlier process, where nothing is known yet. One whose code is not what its digest names was
    /// changed since: records would name code that did not run.
    pub(crate) fn restore(&mut self, kept: Vec<KeptForm>) {
        for form in kept {
            if sha256_hex(form.code.as_bytes()) != form.plugin.digest {
                let plugin = form.plugin.key.to_string();
                tracing::error!(
                    plugin,
                    "Plugin '{plugin}': the form that an earlier process kept is left out, because its code does not have \
                     the digest {:.8} that is kept with it",
                    form.plugin.digest
                );
                continue;
            }
            let loaded = LoadedForm { stamp: revision(&form), form: Form::restored(form) };
            self.0.entry(loaded.form.plugin.plan.key.clone()).or_insert(loaded);
        }
    }

    /// All of them.
    pub(crate) fn to_kept(&self) -> Vec<KeptForm> {
        self.0.values().map(|loaded| loaded.form.to_kept()).collect()
    }

    /// Forgets what `plan` does not hold. Says whether there was any.
    pub(crate) fn retain(&mut self, plan: &Plan) -> bool {
        let before = self.0.len();
        self.0.retain(|key, _| plan.plugin(key).is_some());
        self.0.len() < before
    }

    /// `plugin` was loaded, and runs with the entries of `plan`. Says whether that is news.
    pub(crate) fn accept(&mut self, plan: &Plan, plugin: &Arc<LinkedPlugin>) -> bool {
        let form = Form::of(plan, plugin);
        let stamp = revision(&form.to_kept());
        let before = self.0.insert(plugin.plan.key.clone(), LoadedForm { form, stamp: stamp.clone() });
        before.is_none_or(|before| before.stamp != stamp)
    }

    /// What may stand in for the plugins of `linked`, best first: the last form that was loaded with the values and the
    /// runtime of now, then the same as it was.
    pub(crate) fn candidates(&self, linked: &Linked, secrets: &impl Secrets) -> BTreeMap<ObjectKey, Vec<Arc<Form>>> {
        let of = |(key, newest): (&ObjectKey, &Result<Arc<LinkedPlugin>, Failure>)| {
            let (form, plan) = (&self.0.get(key)?.form, linked.plan.plugin(key)?);
            let old = &form.plugin.plan;
            if !old.keeps_its_rights(&plan.egress, &plan.env) {
                return None;
            }
            let code = form.plugin.code.to_string();
            let renewed = link_plugin(&linked.plan.gateway.runtime, Some(&code), old, secrets).ok()?;
            // Files beside the code are not kept: a worker that is started anew would load those of now.
            let can_be_renewed = (&old.folder, &old.siblings) == (&plan.folder, &plan.siblings);
            let mut forms = Vec::new();
            let as_it_was = Some(&form.plugin).filter(|_| !form.is_restored());
            for plugin in [can_be_renewed.then_some(&renewed), as_it_was].into_iter().flatten() {
                let known = newest.iter().chain(forms.iter().map(|form: &Arc<Form>| &form.plugin));
                if !known.into_iter().any(|known| known.identity == plugin.identity) {
                    forms.push(Arc::new(form.made_of(plugin)));
                }
            }
            (!forms.is_empty()).then(|| (key.clone(), forms))
        };
        linked.wanted().into_iter().filter_map(of).collect()
    }
}

/// The plan that is wanted, with what may stand in for its plugins.
pub(crate) struct WantedPlan {
    pub(crate) linked: Linked,
    pub(crate) candidates: BTreeMap<ObjectKey, Vec<Arc<Form>>>,
    pub(crate) problems: Vec<Problem>,
}

/// What runs of a plan at a moment.
pub(crate) struct FormChoice {
    pub(crate) stand_ins: StandIns,
    pub(crate) not_loaded: Vec<FailedForm>,
    /// Plugins that run in the form of the plan.
    pub(crate) loaded: Vec<Arc<LinkedPlugin>>,
    /// Whether all of them do.
    pub(crate) is_settled: bool,
}

impl WantedPlan {
    /// The plugins of the plan, then those that may stand in.
    pub(crate) fn plugins(&self) -> Vec<Arc<LinkedPlugin>> {
        let wanted = self.linked.wanted();
        let newest = wanted.iter().filter_map(|(_, plugin)| plugin.as_ref().ok()).cloned();
        newest.chain(self.candidates.values().flatten().map(|form| Arc::clone(&form.plugin))).collect()
    }

    /// What is wrong with it, and with what could not be loaded of it.
    pub(crate) fn problems_with(&self, choice: &FormChoice) -> Vec<Problem> {
        self.problems.iter().cloned().chain(choice.not_loaded.iter().map(FailedForm::problem)).collect()
    }

    /// [`WantedPlan::plugins`] without those whose place is taken.
    pub(crate) fn needed(&self, choice: &FormChoice) -> Vec<Arc<LinkedPlugin>> {
        let taken = |plugin: &LinkedPlugin| {
            let key = &plugin.plan.key;
            choice.loaded.iter().any(|loaded| loaded.plan.key == *key && loaded.identity != plugin.identity)
        };
        self.plugins().into_iter().filter(|plugin| !taken(plugin)).collect()
    }

    /// Of each plugin what is loaded: the plan's form where it is, else an older one. Where none is, calls wait for the
    /// plan's, and where that cannot be loaded, for an older one that may.
    pub(crate) fn choose(&self, plugins: &dyn RunPlugin) -> FormChoice {
        let mut choice =
            FormChoice { stand_ins: StandIns::new(), not_loaded: Vec::new(), loaded: Vec::new(), is_settled: true };
        for (key, newest) in self.linked.wanted() {
            let loading = newest.as_ref().ok().map(|newest| (newest, plugins.loading(newest)));
            if let Some((newest, Loading::Loaded)) = &loading {
                choice.loaded.push(Arc::clone(newest));
                continue;
            }
            choice.is_settled = false;
            let older = self.candidates.get(key).map_or(&[][..], Vec::as_slice);
            let of = |wanted: Loading| older.iter().find(|form| plugins.loading(&form.plugin) == wanted);
            let waits = matches!(loading, Some((_, Loading::Underway)));
            let stand_in = of(Loading::Loaded).or_else(|| of(Loading::Underway).filter(|_| !waits));
            if let Some((newest, Loading::Failed { failure, own })) = loading {
                choice.not_loaded.push(FailedForm {
                    plugin: key.clone(),
                    digest: newest.plan.digest.clone(),
                    failure,
                    own,
                    runs: stand_in.map(|form| form.plugin.plan.digest.clone()),
                });
            }
            choice.stand_ins.extend(stand_in.map(|form| (key.clone(), Arc::clone(form))));
        }
        choice
    }
}

impl Linked {
    /// The same plan with older forms where this choice has them.
    pub(crate) fn with(&self, choice: &FormChoice) -> Self {
        self.relinked(choice.stand_ins.clone(), choice.not_loaded.clone())
    }

    /// Whether another choice runs.
    pub(crate) fn differs(&self, choice: &FormChoice) -> bool {
        let runs = |stand_ins: &StandIns| -> Vec<_> {
            stand_ins.iter().map(|(key, form)| (key.clone(), form.plugin.identity.clone())).collect()
        };
        self.not_loaded != choice.not_loaded || runs(&self.stand_ins) != runs(&choice.stand_ins)
    }

    /// Tells the log what another choice changes.
    pub(crate) fn log_changes(&self, choice: &FormChoice) {
        for lost in choice.not_loaded.iter().filter(|lost| !self.not_loaded.contains(lost)) {
            let (plugin, revision) = (lost.plugin.to_string(), &lost.digest);
            match &lost.runs {
                Some(runs) => tracing::error!(
                    plugin,
                    revision,
                    runs,
                    "Plugin '{plugin}' stays as it was: revision {revision:.8} {}",
                    lost.failure
                ),
                None => tracing::error!(plugin, revision, "Plugin '{plugin}' {}", lost.failure),
            }
        }
        for loaded in choice.loaded.iter().filter(|loaded| self.stand_ins.contains_key(&loaded.plan.key)) {
            let (plugin, revision) = (loaded.plan.key.to_string(), &loaded.plan.digest);
            tracing::info!(plugin, revision, "Plugin '{plugin}' is loaded and runs in its new form");
        }
    }
}
