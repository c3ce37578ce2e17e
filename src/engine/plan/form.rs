//! A form of a plugin that was loaded, and one that could not be.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::kept_form::{KeptEntry, KeptForm};
use crate::domain::plan::{ChainPlan, EntryPlan, Plan};
use crate::domain::plugin::{Failure, FailurePolicy, Role};
use crate::domain::ports::LinkedPlugin;
use crate::domain::problem::Problem;

/// Older forms by their plugin.
pub(crate) type StandIns = BTreeMap<ObjectKey, Arc<Form>>;

/// A form of a plugin, and what the entries that ran it handed it.
#[derive(Clone)]
pub(crate) struct Form {
    pub(crate) plugin: Arc<LinkedPlugin>,
    /// By their chain.
    entries: Arc<BTreeMap<ObjectKey, KeptEntry>>,
}

impl Form {
    /// `plugin` with the entries of `plan` that run it.
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

    /// One of an earlier process. Its plugin has no environment: it has to be [made anew](Form::made_of).
    pub(crate) fn restored(kept: KeptForm) -> Self {
        let KeptForm { plugin: plan, code, entries } = kept;
        let entries = entries.into_iter().map(|entry| (entry.chain.clone(), entry)).collect();
        let plugin = LinkedPlugin { plan, code: code.into(), env: Vec::new(), identity: String::new(), pool_size: 0 };
        Self { plugin: Arc::new(plugin), entries: Arc::new(entries) }
    }

    /// Whether it is of an earlier process, and was not made anew.
    pub(crate) fn is_restored(&self) -> bool {
        self.plugin.identity.is_empty()
    }

    /// What outlives this process of it.
    pub(crate) fn to_kept(&self) -> KeptForm {
        let LinkedPlugin { plan, code, .. } = &*self.plugin;
        let entries = self.entries.values().cloned().collect();
        KeptForm { plugin: plan.clone(), code: code.to_string(), entries }
    }

    /// The same entries with the plugin made anew.
    pub(crate) fn made_of(&self, plugin: &Arc<LinkedPlugin>) -> Self {
        Self { plugin: Arc::clone(plugin), entries: Arc::clone(&self.entries) }
    }

    /// `entry` of the plan as it runs this form: with the configuration that was written for it. None for an entry that
    /// this form cannot serve, or has a configuration for that it never had.
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
    /// Of the code that could not be.
    pub(crate) digest: String,
    pub(crate) failure: Failure,
    /// Whether that is the code's own fault, not that of this machine.
    pub(crate) own: bool,
    /// Digest of what runs in its place.
    pub(crate) runs: Option<String>,
}

impl FailedForm {
    pub(crate) fn problem(&self) -> Problem {
        let message = match &self.runs {
            Some(runs) => format!("{}. Not loaded; revision {runs:.8} still runs", self.failure.message),
            None => format!("{}. No form of it was ever loaded, so that its entries fail", self.failure.message),
        };
        let object = ObjectId::new(Kind::Plugin, self.plugin.clone());
        Problem::error(self.failure.reason, object, "spec.source", message)
    }
}
