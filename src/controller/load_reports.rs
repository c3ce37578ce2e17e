//! Plugins that pods could not load. For such a plugin, the plan goes back to the form that ran before, so that new
//! pods run that form too.
//!
//! A pod that runs the earlier form does not try the newer one again, and so no longer reports the failure. The failure
//! is therefore remembered here, and in the index for the next operator process, until the Plugin is edited.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::planned_gateway::{Digests, PlannedGateway, digests};
use super::pods::Pods;
use crate::api::snapshot::{NotLoadedForm, SnapshotIndex};
use crate::config::input::NotLoaded;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{Plan, PluginPlan};
use crate::domain::problem::Problem;
use crate::domain::report::PluginState;

/// Maximum number of plugins that could not be loaded and are stored for one gateway, and maximum number of
/// characters of a message. Both are limits of the CRD schema.
const MAX_NOT_LOADED: usize = 256;
const MAX_MESSAGE: usize = 512;

/// The pods' reports about loading the plugins of one gateway, summed up.
#[derive(Default)]
pub(super) struct LoadReports {
    /// Forms to go back to, at most one for each plugin in the plan.
    before: HashMap<ObjectKey, Before>,
    /// Plugins whose planned form a pod has loaded.
    loaded: HashSet<ObjectKey>,
    /// Plugins whose planned form a pod could not load.
    failing: HashSet<ObjectKey>,
    /// Forms that a pod could not load, although there was an earlier form to go back to. For each plugin: the digest
    /// of the form, and the pod's message.
    lost: BTreeMap<ObjectKey, (String, String)>,
}

/// A form of a plugin from an earlier plan.
struct Before {
    form: String,
    plugin: Arc<(PluginPlan, String)>,
    /// Whether a pod has loaded this form.
    loaded: bool,
}

impl Before {
    /// Whether the compiler can use this form in place of `plugin`, whose form is `form`. That is not possible if an
    /// edit removed a right that this form has: the plan then keeps `plugin`, and pods report the failure until they
    /// can load it.
    fn can_replace(&self, plugin: &PluginPlan, form: &str) -> bool {
        self.form != form && self.plugin.0.keeps_its_rights(&plugin.egress, &plugin.env)
    }
}

impl LoadReports {
    /// Restores the state from a stored index and the plans of its revisions, newest first.
    pub(super) fn stored(index: Option<&SnapshotIndex>, plans: &[Arc<Plan>]) -> Self {
        let mut loading = Self::default();
        for stored in index.and_then(|index| index.not_loaded.as_ref()).into_iter().flatten() {
            let key = ObjectKey::new(&stored.namespace, &stored.name);
            loading.lost.insert(key, (stored.form.clone(), stored.message.clone()));
        }
        for pair in plans.windows(2).rev() {
            loading.keep_before(&pair[1], &digests(&pair[0]));
        }
        loading
    }

    /// Returns the forms that could not be loaded, as input for the compiler.
    pub(super) fn not_loaded(&self) -> BTreeMap<ObjectKey, NotLoaded> {
        let lost = self.lost.iter().map(|(key, (form, message))| {
            let before = self.before.get(key).filter(|before| before.form != *form);
            let before = before.map(|before| Arc::clone(&before.plugin));
            (key.clone(), NotLoaded { form: form.clone(), message: message.clone(), before })
        });
        lost.collect()
    }

    /// Returns the forms that could not be loaded, as they are stored in the index.
    pub(super) fn to_store(&self) -> Vec<NotLoadedForm> {
        let stored = self.lost.iter().take(MAX_NOT_LOADED).map(|(key, (form, message))| NotLoadedForm {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            form: form.clone(),
            message: message.clone(),
        });
        stored.collect()
    }

    /// Processes what pods report about the forms in the newest plan. `revisions` are the digests of the objects in
    /// each kept revision. Returns whether another form failed to load for which there is an earlier form to go back
    /// to.
    pub(super) fn hear(
        &mut self,
        planned: &PlannedGateway,
        revisions: &BTreeMap<String, Arc<Digests>>,
        pods: &Pods,
    ) -> bool {
        let mut news = false;
        let plugins: HashMap<_, _> = planned.plan.plugins.iter().map(|plugin| (&plugin.key, plugin)).collect();
        self.failing.clear();
        for report in pods.reports() {
            let Some(reported) = revisions.get(&report.revision) else { continue };
            // Returns the plugin that a report names and its form, if the newest plan has the same form.
            let of = |name: &str| {
                let (namespace, name) = name.split_once('/')?;
                let id = ObjectId::new(Kind::Plugin, ObjectKey::new(namespace, name));
                let form = planned.digests.get(&id).filter(|form| reported.get(&id) == Some(*form))?;
                Some((*plugins.get(&id.key)?, form))
            };
            for plugin in report.plugins.iter().filter(|plugin| plugin.state == PluginState::Enabled) {
                let runs = of(&plugin.plugin).filter(|(planned, _)| planned.digest == plugin.digest);
                self.loaded.extend(runs.map(|(planned, _)| planned.key.clone()));
            }
            for failed in &report.not_loaded {
                let Some((plugin, form)) = of(&failed.plugin) else { continue };
                let (key, form) = (plugin.key.clone(), form.clone());
                self.failing.insert(key.clone());
                // If only pods have the code, the operator has no earlier form that includes the code.
                let is_here = plugin.path.is_none();
                let can_go_back = self.before.get(&key).is_some_and(|before| before.can_replace(plugin, &form));
                let has_room = self.lost.len() < MAX_NOT_LOADED || self.lost.contains_key(&key);
                let is_known = self.lost.get(&key).is_some_and(|(known, _)| *known == form);
                if is_here && can_go_back && has_room && !is_known {
                    let message = failed.message.chars().take(MAX_MESSAGE).collect();
                    self.lost.insert(key, (form, message));
                    news = true;
                }
            }
        }
        self.loaded.retain(|key| !self.failing.contains(key));
        news
    }

    /// Records that the plan `before` was replaced by one with these `digests`, and that compiling it found
    /// `problems`. Failures to load are forgotten for plugins that no longer have an error.
    pub(super) fn replaced(&mut self, before: Option<&Plan>, digests: &Digests, problems: &[Problem]) {
        if let Some(before) = before {
            self.keep_before(before, digests);
        }
        let wrong = problems.iter().filter(|problem| problem.is_error()).filter_map(|problem| problem.object.as_ref());
        let wrong: HashSet<_> = wrong.filter(|object| object.kind == Kind::Plugin).map(|object| &object.key).collect();
        self.lost.retain(|key, _| wrong.contains(key));
    }

    /// Remembers the forms in `plan` that differ from those in the plan with these `digests`.
    fn keep_before(&mut self, plan: &Plan, digests: &Digests) {
        let id = |key: &ObjectKey| ObjectId::new(Kind::Plugin, key.clone());
        for plugin in &plan.plugins {
            let (key, form) = (&plugin.key, plugin.form());
            if digests.get(&id(key)).is_none_or(|next| *next == form) {
                continue;
            }
            let (loaded, failing) = (self.loaded.remove(key), self.failing.remove(key));
            let is_lost = self.lost.get(key).is_some_and(|(lost, _)| *lost == form);
            // Of forms that no pod tried, the last one is remembered; a form that a pod loaded takes precedence over
            // them.
            let counts = loaded || self.before.get(key).is_none_or(|before| !before.loaded);
            let code = plan.code.get(&plugin.digest).filter(|_| counts && !failing && !is_lost);
            if let Some(code) = code {
                let plugin = Arc::new((plugin.clone(), code.clone()));
                self.before.insert(key.clone(), Before { form, plugin, loaded });
            }
        }
        self.before.retain(|key, _| digests.contains_key(&id(key)));
        self.loaded.retain(|key| digests.contains_key(&id(key)));
        self.failing.retain(|key| digests.contains_key(&id(key)));
    }
}

#[cfg(test)]
mod tests;
