//! The most recently loaded form of each plugin. It continues to run while the plan's newer form is being loaded, and
//! if that form fails to load.
//!
//! Deliberate changes still take effect immediately. A plugin that is no longer in the plan has no older form. Consent
//! to share a plugin and `enabled` are always read from the plan. An older form is not used if it has a right that the
//! plan has taken away from the plugin: a host of `egress`, a Secret, or a variable of the gateway's environment.

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

#[derive(Default)]
pub(crate) struct PluginRevisions(BTreeMap<ObjectKey, LoadedForm>);

struct LoadedForm {
    form: Form,
    /// A digest of everything that is stored of the form, to detect changes.
    stamp: String,
}

impl PluginRevisions {
    /// Adds forms that an earlier process stored, for plugins that have no form yet. A form is left out if its code
    /// does not match the stored digest, because records would then name code that did not run.
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

    pub(crate) fn to_kept(&self) -> Vec<KeptForm> {
        self.0.values().map(|loaded| loaded.form.to_kept()).collect()
    }

    /// Removes plugins that are not in `plan`. Returns whether any were removed.
    pub(crate) fn retain(&mut self, plan: &Plan) -> bool {
        let before = self.0.len();
        self.0.retain(|key, _| plan.plugin(key).is_some());
        self.0.len() < before
    }

    /// Records that `plugin` was loaded and runs with the entries of `plan`. Returns whether the form differs from the
    /// last one.
    pub(crate) fn accept(&mut self, plan: &Plan, plugin: &Arc<LinkedPlugin>) -> bool {
        let form = Form::of(plan, plugin);
        let stamp = revision(&form.to_kept());
        let before = self.0.insert(plugin.plan.key.clone(), LoadedForm { form, stamp: stamp.clone() });
        before.is_none_or(|before| before.stamp != stamp)
    }

    /// Returns the forms that can run instead of the plugins of `linked`, best first: the form that was loaded last,
    /// linked with the current secrets and runtime settings, then the same form unchanged.
    pub(crate) fn candidates(&self, linked: &Linked, secrets: &impl Secrets) -> BTreeMap<ObjectKey, Vec<Arc<Form>>> {
        let of = |(key, newest): (&ObjectKey, &Result<Arc<LinkedPlugin>, Failure>)| {
            let (form, plan) = (&self.0.get(key)?.form, linked.plan.plugin(key)?);
            let old = &form.plugin.plan;
            let runtime = &linked.plan.gateway.runtime;
            if !old.keeps_its_rights(&plan.egress, &plan.env) || !runtime.allows(old) {
                return None;
            }
            let code = form.plugin.code.to_string();
            let renewed = link_plugin(runtime, Some(&code), old, secrets).ok()?;
            // The files beside the code are not stored: a new worker would load their current versions.
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

/// A plan to put in force, with the older forms that can run in place of its own.
pub(crate) struct WantedPlan {
    pub(crate) linked: Linked,
    pub(crate) candidates: BTreeMap<ObjectKey, Vec<Arc<Form>>>,
    pub(crate) problems: Vec<Problem>,
}

/// A choice of the forms in which the plugins of a plan run at one moment.
pub(crate) struct FormChoice {
    pub(crate) stand_ins: StandIns,
    pub(crate) not_loaded: Vec<FailedForm>,
    /// Plugins that run in the form of the plan.
    pub(crate) loaded: Vec<Arc<LinkedPlugin>>,
    /// Whether every plugin runs in the form of the plan.
    pub(crate) is_settled: bool,
}

impl WantedPlan {
    /// Returns the plan's plugins, followed by the older forms that can run in their place.
    pub(crate) fn plugins(&self) -> Vec<Arc<LinkedPlugin>> {
        let wanted = self.linked.wanted();
        let newest = wanted.iter().filter_map(|(_, plugin)| plugin.as_ref().ok()).cloned();
        newest.chain(self.candidates.values().flatten().map(|form| Arc::clone(&form.plugin))).collect()
    }

    /// Returns the problems of the plan, and of the plugins that could not be loaded.
    pub(crate) fn problems_with(&self, choice: &FormChoice) -> Vec<Problem> {
        self.problems.iter().cloned().chain(choice.not_loaded.iter().map(FailedForm::problem)).collect()
    }

    /// Returns [`WantedPlan::plugins`] without the older forms of those plugins whose form in the plan is loaded.
    pub(crate) fn needed(&self, choice: &FormChoice) -> Vec<Arc<LinkedPlugin>> {
        let taken = |plugin: &LinkedPlugin| {
            let key = &plugin.plan.key;
            choice.loaded.iter().any(|loaded| loaded.plan.key == *key && loaded.identity != plugin.identity)
        };
        self.plugins().into_iter().filter(|plugin| !taken(plugin)).collect()
    }

    /// Chooses which form of each plugin runs: the form of the plan if it is loaded, else an older form that is loaded.
    /// If none is loaded, calls wait for the plan's form, or, if that failed to load, for an older one that is being
    /// loaded.
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
    /// Returns the same plan with the older forms of `choice`.
    pub(crate) fn with(&self, choice: &FormChoice) -> Self {
        self.relinked(choice.stand_ins.clone(), choice.not_loaded.clone())
    }

    /// Whether `choice` differs from the forms that run.
    pub(crate) fn differs(&self, choice: &FormChoice) -> bool {
        let runs = |stand_ins: &StandIns| -> Vec<_> {
            stand_ins.iter().map(|(key, form)| (key.clone(), form.plugin.identity.clone())).collect()
        };
        self.not_loaded != choice.not_loaded || runs(&self.stand_ins) != runs(&choice.stand_ins)
    }

    /// Logs how `choice` differs from the forms that run.
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
