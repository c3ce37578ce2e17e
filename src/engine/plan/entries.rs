//! Chains and their entries, ready to run: globs and CEL are compiled, configurations are merged.

use std::sync::Arc;
use std::time::Duration;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::value::RawValue;

use crate::config::expr::Expression;
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::plan::{ChainPlan, EntryPlan, UpstreamPlan};
use crate::domain::plugin::{Failure, FailurePolicy, Mode, Role};
use crate::domain::ports::LinkedPlugin;
use crate::domain::verdict::EntryRules;

/// A chain with compiled globs and entries that are ready to run.
pub(crate) struct LinkedChain {
    pub(crate) name: String,
    pub(crate) plan: ChainPlan,
    pub(crate) upstream_names: Globs,
    pub(crate) include: Globs,
    pub(crate) exclude: Globs,
    pub(crate) entries: Vec<Arc<LinkedEntry>>,
}

/// An entry with its plugin, compiled condition and merged configuration.
pub(crate) struct LinkedEntry {
    pub(crate) plan: EntryPlan,
    pub(crate) rules: EntryRules,
    /// The plugin, as `namespace/name`.
    pub(crate) name: String,
    /// The plugin, or why it cannot run here.
    pub(crate) plugin: Result<Arc<LinkedPlugin>, Failure>,
    /// Whether the entry and its plugin are both enabled.
    pub(crate) enabled: bool,
    pub(crate) when: Option<Expression>,
    pub(crate) config: Option<Box<RawValue>>,
    pub(crate) timeout: Duration,
    pub(crate) filter_upstreams: Globs,
    pub(crate) filter_tools: Globs,
}

/// A list of globs; an empty list matches everything.
#[derive(Default)]
pub(crate) struct Globs(Option<GlobSet>);

impl Globs {
    /// Compiles globs. A glob that does not compile matches nothing; the compiler has already rejected such globs.
    pub(crate) fn new(globs: &[String]) -> Self {
        if globs.is_empty() {
            return Self(None);
        }
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            if let Ok(glob) = GlobBuilder::new(glob).build() {
                set.add(glob);
            }
        }
        Self(Some(set.build().unwrap_or_default()))
    }

    /// Whether the list is empty or one of its globs matches.
    pub(crate) fn admits(&self, word: &str) -> bool {
        self.0.as_ref().is_none_or(|set| set.is_match(word))
    }

    /// Whether one of the globs matches. False if the list is empty.
    pub(crate) fn names(&self, word: &str) -> bool {
        self.0.as_ref().is_some_and(|set| set.is_match(word))
    }
}

impl LinkedChain {
    /// Returns the chain with these entries in the place of its own.
    pub(crate) fn with_entries(&self, entries: Vec<Arc<LinkedEntry>>) -> Self {
        Self {
            name: self.name.clone(),
            plan: self.plan.clone(),
            upstream_names: Globs::default(),
            include: Globs::default(),
            exclude: Globs::default(),
            entries,
        }
    }

    /// Whether the chain covers calls to this upstream.
    pub(crate) fn covers(&self, upstream: &UpstreamPlan) -> bool {
        let scope = &self.plan.upstreams;
        let in_reach = scope.namespace.as_ref().is_none_or(|namespace| *namespace == upstream.key.namespace);
        let labelled = || scope.selector.as_ref().is_some_and(|selector| selector.matches(&upstream.labels));
        in_reach && (scope.all || self.upstream_names.names(&upstream.key.name) || labelled())
    }

    /// Whether the chain selects this method of this item of this upstream: requests that use the item, questions that
    /// the server asks during these, or the item's definition. Its globs over the names of tools say nothing of other
    /// items.
    pub(crate) fn selects(&self, upstream: &UpstreamPlan, method: Method, kind: ItemKind, name: &str) -> bool {
        let admits = || kind != ItemKind::Tool || self.selects_tool(name);
        self.covers(upstream) && self.plan.methods.contains(&method) && admits()
    }

    /// Whether the chain's globs over the names of tools select this one.
    pub(crate) fn selects_tool(&self, name: &str) -> bool {
        self.include.admits(name) && !self.exclude.names(name)
    }
}

impl LinkedEntry {
    /// Whether the filter in the plugin's own manifest admits this item of this upstream. Its globs over the names of
    /// tools say nothing of other items.
    pub(crate) fn admits(&self, upstream: &str, kind: ItemKind, name: &str) -> bool {
        self.filter_upstreams.admits(upstream) && (kind != ItemKind::Tool || self.filter_tools.admits(name))
    }

    /// Whether the entry affects calls: it is enabled and not a shadow.
    pub(crate) fn enforces(&self) -> bool {
        self.enabled && self.plan.mode == Mode::Enforce
    }

    /// Whether the entry decides over what passes: it is a Guard, or must run.
    pub(crate) fn checks(&self) -> bool {
        self.enforces() && (self.rules.role == Role::Guard || self.rules.policy == FailurePolicy::Fail)
    }

    /// Whether the entry must run: a call on which it acts fails if the entry fails or cannot run.
    pub(crate) fn must_run(&self) -> bool {
        self.enforces() && self.rules.policy == FailurePolicy::Fail
    }
}
