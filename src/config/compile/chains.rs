//! Compiles chains: which ones the gateway takes, in which form they are in force, and in which order they run.

use super::plugins::{self};
use super::resolve::{self, ResolvedPlugin};
use super::world::World;
use super::{Faults, FieldFault, bounds, id, takes, values};
use crate::config::expr::Expression;
use crate::config::input::{ChainInput, EntryInput, InvalidObject};
use crate::config::variables::OF_ENTRIES;
use crate::domain::digest::revision;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::method::Method;
use crate::domain::plan::{ChainPlan, EntryPlan, Refusal, Takes, UpstreamScope};
use crate::domain::plugin::{FailurePolicy, Phase, Role};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns the chains that the gateway takes, in the order in which they run.
pub(super) fn compile(world: &World<'_>, problems: &mut Vec<Problem>) -> Vec<ChainPlan> {
    let mut chains = Vec::new();
    for chain in &world.inputs.chains {
        if world.takes(chain, problems) {
            chains.push(world.compile_one(chain, problems));
        }
    }
    for invalid in world.inputs.invalid.iter().filter(|o| o.id.kind == Kind::PluginChain) {
        let form = world.accepted(&invalid.id.key).filter(|_| world.keeps_invalid(invalid)).cloned();
        chains.extend(form.or_else(|| world.refusing_form(invalid)));
    }
    for chain in &mut chains {
        // A kept form can have an outdated `owner`, because the gateway's list of required chains can change.
        chain.owner = world.is_owner(&chain.key);
        chain.upstreams.namespace = (!chain.owner).then(|| chain.key.namespace.clone());
        resolve::resolve(world, chain, problems);
        chain.revision = String::new();
        let digests: Vec<_> =
            chain.entries.iter().map(|e| world.plugins.accepted.get(&e.plugin).map(|p| &p.digest)).collect();
        chain.revision = revision(&(&*chain, digests));
    }
    // Chains of tenants run first and those of the gateway's owner last, so that the owner decides last.
    chains.sort_by(|a, b| (a.owner, a.order, &a.key).cmp(&(b.owner, b.order, &b.key)));
    chains
}

impl World<'_> {
    /// Whether the gateway keeps the accepted form of a chain that is invalid. Labels say nothing: a mistake can be in them.
    fn keeps_invalid(&self, chain: &InvalidObject) -> bool {
        let (own, key) = (&self.gateway.key.namespace, &chain.id.key);
        let keeps = |wanted: &Takes| takes::includes(&wanted.namespaces, own, &key.namespace, self.inputs);
        self.gateway.required.contains(key) || self.takes.is_none_or(keeps)
    }

    /// Whether the gateway takes a chain that is invalid and was never accepted, as far as that can be read.
    fn takes_invalid(&self, chain: &InvalidObject) -> bool {
        let own = &self.gateway.key.namespace;
        let takes = |wanted: &Takes| takes::takes_invalid(wanted, own, chain, self.inputs);
        self.gateway.required.contains(&chain.id.key) || self.takes.is_none_or(takes)
    }

    /// Whether the gateway takes the chain, and the chain is for this gateway. A chain of another namespace must name
    /// the gateway. If only one side agrees, adds a warning to `problems`.
    fn takes(&self, chain: &ChainInput, problems: &mut Vec<Problem>) -> bool {
        let Some(wanted) = self.takes else { return true };
        let (gateway, own) = (&self.gateway.key, &self.gateway.key.namespace);
        let required = self.gateway.required.contains(&chain.key);
        let taken = required || takes::takes(wanted, own, &chain.key.namespace, &chain.labels, self.inputs);
        let object = id(Kind::PluginChain, &chain.key);
        takes::by_both((gateway, taken, "spec.chains"), object, &chain.gateways, problems)
    }

    fn is_owner(&self, key: &ObjectKey) -> bool {
        key.namespace == self.gateway.key.namespace || self.gateway.required.contains(key)
    }

    fn compile_one(&self, chain: &ChainInput, problems: &mut Vec<Problem>) -> ChainPlan {
        let (reason, field, mut message) = match self.accept(chain, problems) {
            Ok(plan) => return plan,
            Err(fault) => fault,
        };
        let form = match self.accepted(&chain.key) {
            Some(accepted) => {
                // Another version may have accepted conditions that this one does not; linking refuses them.
                let mut conditions = accepted.entries.iter().filter_map(|entry| entry.when.as_deref());
                message.push_str(match conditions.all(|when| Expression::compile(when, OF_ENTRIES).is_ok()) {
                    true => ". The last accepted form runs on",
                    false => {
                        ". The last accepted form has a condition that this version does not accept, so it refuses each \
                         call that it selects"
                    }
                });
                accepted.clone()
            }
            None => {
                message.push_str(". No accepted form of it is known, so it refuses each call that it selects");
                // The form in force has no entries. Those as written can have faults too.
                let mut found = Vec::new();
                resolve::resolve(self, &mut self.form(chain), &mut found);
                found.retain(|problem| problem.is_error() && problem.reason != Reason::PluginNotAccepted);
                problems.extend(found);
                self.refusing(chain, Refusal { reason, message: message.clone() })
            }
        };
        problems.push(Problem::error(reason, id(Kind::PluginChain, &chain.key), field, message));
        form
    }

    /// Returns the chain as written, or what is wrong with it.
    fn accept(&self, chain: &ChainInput, problems: &mut Vec<Problem>) -> Result<ChainPlan, FieldFault> {
        let names = chain.upstreams.as_ref().map_or(&[][..], |u| &u.names);
        let globs = [
            ("spec.upstreams.names", names),
            ("spec.tools.include", &chain.include),
            ("spec.tools.exclude", &chain.exclude),
        ];
        let (mut faults, object) = (Faults::default(), id(Kind::PluginChain, &chain.key));
        faults.0.extend(globs.into_iter().flat_map(|(field, globs)| values::bad_globs(field, globs)));
        for (index, entry) in chain.entries.iter().enumerate() {
            if let Some(why) = entry.when.as_ref().and_then(|when| Expression::compile(when, OF_ENTRIES).err()) {
                faults.0.push((Reason::InvalidExpression, format!("spec.entries[{index}].when"), why));
            }
            faults.take(self.accept_entry(chain, entry, index));
        }
        let form = self.form(chain);
        faults.take(bounds::check(self.inputs, &object, &form));
        faults.finish(Ok(form), &object, problems)
    }

    /// Checks the plugin of an entry, and what the entry sets of it.
    fn accept_entry(&self, chain: &ChainInput, entry: &EntryInput, index: usize) -> Result<(), FieldFault> {
        let field = format!("spec.entries[{index}]");
        // If an older form is in force, an edit that newly names a missing plugin is a mistake and not accepted. A
        // missing plugin that the older form also names was withdrawn, and that takes effect immediately.
        let is_new = self
            .accepted(&chain.key)
            .is_some_and(|form| form.phase != chain.phase || !form.entries.iter().any(|e| asks_the_same(e, entry)));
        let found = resolve::find(self, &chain.key, &entry.plugin, entry.config.is_some(), chain.phase);
        if let (ResolvedPlugin::Missing(refusal), true) = (&found, is_new) {
            return Err((refusal.reason, field, refusal.message.clone()));
        }
        let Some(plugin) = self.plugins.inputs.get(&entry.plugin) else { return Ok(()) };
        if plugin.role == Role::Observe && entry.failure_policy == Some(FailurePolicy::Fail) {
            let message = format!("{} is an Observe plugin, off the call's path: it cannot fail the call", plugin.key);
            return Err((Reason::InvalidConfig, format!("{field}.failurePolicy"), message));
        }
        let mut checks = self.checks.borrow_mut();
        plugins::check_entry_config(plugin, entry.config.as_deref(), &chain.key.namespace, &mut checks)
            .map_err(|message| (Reason::InvalidConfig, format!("{field}.config"), message))
    }

    fn form(&self, chain: &ChainInput) -> ChainPlan {
        let owner = self.is_owner(&chain.key);
        let upstreams = chain.upstreams.clone();
        ChainPlan {
            key: chain.key.clone(),
            revision: String::new(),
            phase: chain.phase,
            order: chain.order,
            owner,
            methods: chain.methods.clone(),
            default_methods: chain.default_methods,
            upstreams: UpstreamScope {
                namespace: (!owner).then(|| chain.key.namespace.clone()),
                all: upstreams.is_none(),
                names: upstreams.as_ref().map(|u| u.names.clone()).unwrap_or_default(),
                selector: upstreams.and_then(|u| u.selector),
            },
            include: chain.include.clone(),
            exclude: chain.exclude.clone(),
            notifications_pass: chain.notifications_pass,
            entries: chain.entries.iter().enumerate().map(|(place, entry)| plan_entry(entry, place)).collect(),
            refusing: None,
        }
    }

    /// Returns a form of a chain that was never accepted. It refuses every call that the chain selects. A list of globs
    /// with an error counts as absent, so the form selects more rather than less.
    fn refusing(&self, chain: &ChainInput, refusal: Refusal) -> ChainPlan {
        let mut form = ChainPlan { entries: Vec::new(), refusing: Some(refusal), ..self.form(chain) };
        for globs in [&mut form.include, &mut form.exclude] {
            if values::bad_globs("", globs).next().is_some() {
                globs.clear();
            }
        }
        form.upstreams.all |= values::bad_globs("", &form.upstreams.names).next().is_some();
        form
    }

    /// Like [`Self::refusing`], for a chain that violates its schema or a rule. A chain that cannot be read at all
    /// selects everything within its reach. Returns `None` if the gateway does not take the chain.
    fn refusing_form(&self, invalid: &InvalidObject) -> Option<ChainPlan> {
        let (key, chain) = (&invalid.id.key, invalid.chain.as_ref());
        let message = format!("PluginChain {key} is not valid, and no accepted form of it is known");
        let refusal = Refusal { reason: Reason::InvalidObject, message };
        let everything = ChainInput {
            key: key.clone(),
            labels: Default::default(),
            phase: Phase::Request,
            order: 100,
            gateways: Vec::new(),
            upstreams: None,
            include: Vec::new(),
            exclude: Vec::new(),
            methods: Method::CHAINED.to_vec(),
            default_methods: false,
            notifications_pass: false,
            entries: Vec::new(),
        };
        let taken = chain.map_or_else(|| self.takes_invalid(invalid), |chain| self.takes(chain, &mut Vec::new()));
        taken.then(|| self.refusing(chain.unwrap_or(&everything), refusal))
    }
}

/// Whether `entry` needs no other consent than the `accepted` entry: it names the same plugin, and changes the plugin's
/// configuration only if the accepted entry does so too.
fn asks_the_same(accepted: &EntryPlan, entry: &EntryInput) -> bool {
    accepted.plugin == entry.plugin && (accepted.config.is_some() || entry.config.is_none())
}

fn plan_entry(entry: &EntryInput, place: usize) -> EntryPlan {
    EntryPlan {
        plugin: entry.plugin.clone(),
        place: u32::try_from(place).unwrap_or(u32::MAX),
        enabled: entry.enabled,
        timeout_ms: entry.timeout_ms,
        max_tokens: entry.max_tokens,
        order: entry.order,
        config: entry.config.clone(),
        view: entry.view,
        when: entry.when.clone(),
        written_policy: entry.failure_policy,
        failure_policy: entry.failure_policy.unwrap_or(FailurePolicy::Fail),
        mode: entry.mode,
        role: Role::Guard,
        unavailable: None,
    }
}
