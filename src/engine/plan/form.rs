//! Forms of plugins. A form is a plugin as one plan has it. Workers either load a form or fail to load it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::kept_form::{KeptEntry, KeptForm};
use crate::domain::plan::{ChainPlan, EntryPlan, Plan};
use crate::domain::plugin::{Failure, FailurePolicy, Role};
use crate::domain::ports::LinkedPlugin;
use crate::domain::problem::Problem;

/// Older forms of plugins that run instead of the forms of the plan, by plugin.
pub(crate) type StandIns = BTreeMap<ObjectKey, Arc<Form>>;

/// A form of a plugin, with the settings of the entries that run it.
#[derive(Clone)]
pub(crate) struct Form {
    pub(crate) plugin: Arc<LinkedPlugin>,
    /// The entries' settings, by chain.
    entries: Arc<BTreeMap<ObjectKey, KeptEntry>>,
}

impl Form {
    pub(crate) fn of(plan: &Plan, plugin: &Arc<LinkedPlugin>) -> Self {
        let mut entries = BTreeMap::new();
        for chain in &plan.chains {
            for entry in chain.entries.iter().filter(|entry| entry.plugin == plugin.plan.key) {
                let (chain, config) = (chain.key.clone(), entry.config.clone());
                entries.insert(chain.clone(), KeptEntry { chain, config, view: entry.view });
            }
        }
        Self { plugin: Arc::clone(plugin), entries: Arc::new(entries) }
    }

    /// Creates a form that an earlier process stored. Its plugin has no environment, so it must be
    /// [rebuilt](Form::made_of) before it can run.
    pub(crate) fn restored(kept: KeptForm) -> Self {
        let KeptForm { plugin: plan, code, entries } = kept;
        let entries = entries.into_iter().map(|entry| (entry.chain.clone(), entry)).collect();
        let plugin = LinkedPlugin { plan, code: code.into(), env: Vec::new(), identity: String::new(), pool_size: 0 };
        Self { plugin: Arc::new(plugin), entries: Arc::new(entries) }
    }

    /// Whether the form comes from an earlier process and has not been rebuilt.
    pub(crate) fn is_restored(&self) -> bool {
        self.plugin.identity.is_empty()
    }

    /// Returns the part of the form that is stored for later processes.
    pub(crate) fn to_kept(&self) -> KeptForm {
        let LinkedPlugin { plan, code, .. } = &*self.plugin;
        let entries = self.entries.values().cloned().collect();
        KeptForm { plugin: plan.clone(), code: code.to_string(), entries }
    }

    /// Returns a form with the same entries and the rebuilt `plugin`.
    pub(crate) fn made_of(&self, plugin: &Arc<LinkedPlugin>) -> Self {
        Self { plugin: Arc::clone(plugin), entries: Arc::clone(&self.entries) }
    }

    /// Returns `entry` with the settings that belong to this form, or `None` if the form does not serve the phase of
    /// the chain, or if the entry has a configuration but this form never ran in the chain.
    pub(crate) fn entry(&self, chain: &ChainPlan, entry: &EntryPlan) -> Option<EntryPlan> {
        let plan = &self.plugin.plan;
        let older = self.entries.get(&chain.key);
        if !plan.phases.contains(&chain.phase) || (older.is_none() && entry.config.is_some()) {
            return None;
        }
        let (config, view) = older.map_or((None, entry.view), |older| (older.config.clone(), older.view));
        let failure_policy = match (plan.role, entry.written_policy) {
            (role, _) if role == entry.role => entry.failure_policy,
            (Role::Observe, _) => FailurePolicy::Ignore,
            (role, written) => written.unwrap_or(role.default_policy()),
        };
        Some(EntryPlan { config, view, role: plan.role, failure_policy, ..entry.clone() })
    }
}

/// A plugin of the plan whose form could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedForm {
    pub(crate) plugin: ObjectKey,
    /// Digest of the code that could not be loaded.
    pub(crate) digest: String,
    pub(crate) failure: Failure,
    /// Whether the code itself is the cause, and not this machine.
    pub(crate) own: bool,
    /// Digest of the code that runs instead; `None` if no older form can run.
    pub(crate) runs: Option<String>,
}

impl FailedForm {
    pub(crate) fn problem(&self) -> Problem {
        let message = match &self.runs {
            Some(runs) => {
                let message = &self.failure.message;
                format!("{message}. Not loaded; the code loaded before (revision {runs:.8}) still runs on its calls")
            }
            None => format!("{}. No form of it was ever loaded, so that its entries fail", self.failure.message),
        };
        let object = ObjectId::new(Kind::Plugin, self.plugin.clone());
        Problem::error(self.failure.reason, object, "spec.source", message)
    }
}
