//! Compiles chains: which ones the gateway takes, in which form they are in force, and in which order they run.

use super::life_cycle::{Planned, PlannedKind, compile, is_taken, wants};
use super::plugins;
use super::resolve;
use super::takes::Consent;
use super::world::Chains;
use super::{Faults, FieldFault, bounds, id, values};
use crate::config::expr::Expression;
use crate::config::input::{ChainInput, EntryInput, Inputs, InvalidObject, Labels};
use crate::config::variables::OF_ENTRIES;
use crate::domain::digest::revision;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::method::Method;
use crate::domain::plan::{ChainPlan, EntryPlan, GatewayTakes, Plan, Refusal, Takes, UpstreamScope};
use crate::domain::plugin::{FailurePolicy, Phase, Role};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

impl PlannedKind for Chains<'_> {
    type Input = ChainInput;
    type Plan = ChainPlan;
    const KIND: Kind = Kind::PluginChain;
    const FIELD: &'static str = "chains";
    const WANTED: fn(&GatewayTakes) -> &Takes = |takes| &takes.chains;
    const WRITTEN: fn(&Inputs) -> &[ChainInput] = |inputs| &inputs.chains;
    const PLANNED: fn(&Plan) -> Vec<Planned<'_, ChainPlan>> =
        |plan| plan.chains.iter().map(|it| (&it.key, None, it)).collect();
    const REFUSED: &'static str = "No accepted form of it is known, so it refuses each call that it selects";

    fn about(input: &ChainInput) -> (&ObjectKey, &Labels, Consent<'_>) {
        (&input.key, &input.labels, Consent::Gateways(&input.gateways))
    }

    fn accept(&self, chain: &ChainInput, problems: &mut Vec<Problem>) -> Result<ChainPlan, Vec<FieldFault>> {
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
        let mut form = self.form(chain);
        faults.take(bounds::check(self.world.inputs, &object, &form));
        let mut found = Vec::new();
        if !faults.0.is_empty() && self.accepted(&chain.key).is_none() {
            // The form in force will have no entries. Those as written can have faults too.
            resolve::resolve(self, &mut form, &mut found);
            found.retain(|problem| problem.is_error() && problem.reason != Reason::PluginNotAccepted);
        }
        let accepted = faults.finish(Ok(form), &object, problems);
        problems.extend(found);
        accepted.map_err(|fault| vec![fault])
    }

    fn accepted(before: &ChainPlan) -> Option<ChainPlan> {
        before.refusing.is_none().then(|| before.clone())
    }

    fn refusing(&self, chain: &ChainInput, _: Option<&ChainPlan>, fault: &FieldFault) -> ChainPlan {
        self.refusing_form(chain, Refusal { reason: fault.0, message: format!("{}. {}", fault.2, Self::REFUSED) })
    }

    /// A chain that cannot be read at all selects everything within its reach.
    fn refusing_invalid(&self, invalid: &InvalidObject, _: Option<&ChainPlan>) -> Option<ChainPlan> {
        let key = &invalid.id.key;
        let message = format!("PluginChain {key} is not valid, and no accepted form of it is known");
        let refusal = Refusal { reason: Reason::InvalidObject, message };
        let is_taken = match &invalid.chain {
            Some(chain) => is_taken::<Self>(&self.world, chain, &mut Vec::new()),
            None => wants::<Self>(&self.world, key, invalid.labels.as_ref()),
        };
        let everything = || ChainInput {
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
        is_taken.then(|| self.refusing_form(&invalid.chain.clone().unwrap_or_else(everything), refusal))
    }

    fn effect(form: &ChainPlan, runs_on: bool) -> &'static str {
        // Another version may have accepted conditions that this one does not; linking refuses them.
        let mut conditions = form.entries.iter().filter_map(|entry| entry.when.as_deref());
        match runs_on {
            true if conditions.all(|when| Expression::compile(when, OF_ENTRIES).is_ok()) => {
                "The last accepted form runs on"
            }
            true => {
                "The last accepted form has a condition that this version does not accept, so it refuses each call that it \
                 selects"
            }
            false => Self::REFUSED,
        }
    }
}

impl Chains<'_> {
    /// Returns the chains that the gateway takes, in the order in which they run.
    pub(super) fn compile(&self, problems: &mut Vec<Problem>) -> Vec<ChainPlan> {
        let candidates = compile(self, &self.world, problems);
        let mut chains: Vec<_> = candidates.into_iter().map(|candidate| candidate.form).collect();
        for chain in &mut chains {
            // A kept form can have an outdated `owner`, because the gateway's list of required chains can change.
            chain.owner = self.is_owner(&chain.key);
            chain.upstreams.namespace = (!chain.owner).then(|| chain.key.namespace.clone());
            resolve::resolve(self, chain, problems);
            chain.revision = String::new();
            let accepted = &self.world.plugins.accepted;
            let digests: Vec<_> = chain.entries.iter().map(|e| accepted.get(&e.plugin).map(|p| &p.digest)).collect();
            chain.revision = revision(&(&*chain, digests));
        }
        // Chains of tenants run first and those of the gateway's owner last, so that the owner decides last.
        chains.sort_by(|a, b| (a.owner, a.order, &a.key).cmp(&(b.owner, b.order, &b.key)));
        chains
    }

    fn is_owner(&self, key: &ObjectKey) -> bool {
        let gateway = self.world.gateway;
        key.namespace == gateway.key.namespace || gateway.required.contains(key)
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
        if let (Err(refusal), true) = (&found, is_new) {
            return Err((refusal.reason, field, refusal.message.clone()));
        }
        let Some(plugin) = self.world.plugins.inputs.get(&entry.plugin) else { return Ok(()) };
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
    fn refusing_form(&self, chain: &ChainInput, refusal: Refusal) -> ChainPlan {
        let mut form = ChainPlan { entries: Vec::new(), refusing: Some(refusal), ..self.form(chain) };
        for globs in [&mut form.include, &mut form.exclude] {
            if values::bad_globs("", globs).next().is_some() {
                globs.clear();
            }
        }
        form.upstreams.all |= values::bad_globs("", &form.upstreams.names).next().is_some();
        form
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
