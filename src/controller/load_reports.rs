//! Plugins that pods could not load: the form that ran before is compiled back in, so that a new pod has it too.
//!
//! A pod that runs the form before does not try the newer one again and so says nothing of it. What it said once is kept
//! here, and in the index for the operator after this one, until the Plugin is edited.

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

/// The most plugins of one gateway of which it is known, and the most characters of a message: the schema's bounds.
const MAX_NOT_LOADED: usize = 256;
const MAX_MESSAGE: usize = 512;

/// What is known of loading the plugins of one gateway.
#[derive(Default)]
pub(super) struct LoadReports {
    /// What to go back to. At most one form of each plugin of the plan.
    before: HashMap<ObjectKey, Before>,
    /// Plugins whose form of the plan a pod has loaded.
    loaded: HashSet<ObjectKey>,
    /// Plugins whose form of the plan a pod could not load.
    failing: HashSet<ObjectKey>,
    /// Forms as they are written that could not be loaded, and what the pod said.
    lost: BTreeMap<ObjectKey, (String, String)>,
}

/// A form of a plugin that was in the plan before.
struct Before {
    form: String,
    plugin: Arc<(PluginPlan, String)>,
    /// Whether a pod had loaded it.
    loaded: bool,
}

impl LoadReports {
    /// What a stored index says, and the plans of its revisions, the newest first.
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

    /// For the compiler.
    pub(super) fn not_loaded(&self) -> BTreeMap<ObjectKey, NotLoaded> {
        let lost = self.lost.iter().map(|(key, (form, message))| {
            let before = self.before.get(key).filter(|before| before.form != *form);
            let before = before.map(|before| Arc::clone(&before.plugin));
            (key.clone(), NotLoaded { form: form.clone(), message: message.clone(), before })
        });
        lost.collect()
    }

    /// For the index.
    pub(super) fn to_store(&self) -> Vec<NotLoadedForm> {
        let stored = self.lost.iter().take(MAX_NOT_LOADED).map(|(key, (form, message))| NotLoadedForm {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            form: form.clone(),
            message: message.clone(),
        });
        stored.collect()
    }

    /// Takes in what pods report of the forms that are in the newest plan. `revisions` are digests of each kept
    /// revision's objects. Says whether a form could not be loaded that there is another for.
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
            // The form that the report is about, where it is the one of the newest plan.
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
                // Of what only the pod has the code there is no older form here.
                let is_here = plugin.path.is_none();
                let can_go_back = self.before.get(&key).is_some_and(|before| before.form != form);
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

    /// The plan `before` gave way to one with these `digests`, on the way to which `problems` were found. What runs as it
    /// is written is not remembered any more.
    pub(super) fn replaced(&mut self, before: Option<&Plan>, digests: &Digests, problems: &[Problem]) {
        if let Some(before) = before {
            self.keep_before(before, digests);
        }
        let wrong = problems.iter().filter(|problem| problem.is_error()).filter_map(|problem| problem.object.as_ref());
        let wrong: HashSet<_> = wrong.filter(|object| object.kind == Kind::Plugin).map(|object| &object.key).collect();
        self.lost.retain(|key, _| wrong.contains(key));
    }

    /// Keeps the forms of `plan` that another one with these `digests` has others of.
    fn keep_before(&mut self, plan: &Plan, digests: &Digests) {
        let id = |key: &ObjectKey| ObjectId::new(Kind::Plugin, key.clone());
        for plugin in &plan.plugins {
            let (key, form) = (&plugin.key, plugin.form());
            if digests.get(&id(key)).is_none_or(|next| *next == form) {
                continue;
            }
            let (loaded, failing) = (self.loaded.remove(key), self.failing.remove(key));
            let is_lost = self.lost.get(key).is_some_and(|(lost, _)| *lost == form);
            // Of forms that nobody tried the last one counts, but one that was loaded before more.
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
