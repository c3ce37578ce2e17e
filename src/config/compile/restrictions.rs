//! Restrictions, which take effect immediately even if a gateway runs an older plan: deletions, withdrawn consent, the
//! stop switch.

use std::collections::{BTreeSet, HashMap};

use super::gateway::refusal_of_missing;
use super::life_cycle::PlannedKind;
use super::pipelines::Pipelines;
use super::resolve::withhold;
use super::upstreams::{Upstreams, taken_address};
use super::{is_invalid, plugins};
use crate::config::input::Inputs;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{EntryPlan, Plan, PluginPlan, Refusal, Restrictions, Revoked, TransportPlan, UpstreamPlan};
use crate::domain::reason::Reason;

/// Returns what was revoked since `plan` was compiled, according to the current objects. The stop switch is not
/// included, because it always comes from the newest version of the gateway.
///
/// A deleted chain that is not required stays in force, so that a plan never protects less than when it was compiled.
pub fn restrictions(inputs: &Inputs, plan: &Plan) -> Restrictions {
    let upstreams = inputs.upstreams.iter().map(|input| (Kind::MCPUpstream, Upstreams::about(input)));
    let pipelines = inputs.pipelines.iter().map(|input| (Kind::ToolPipeline, Pipelines::about(input)));
    let objects = upstreams.chain(pipelines).map(|(kind, (key, _, consent))| ((kind, key), consent));
    let (objects, gateway): (HashMap<_, _>, _) = (objects.collect(), &plan.gateway.key);
    let is_revoked = |upstream: &&UpstreamPlan| {
        let (key, kind) = (&upstream.key, upstream.kind());
        match objects.get(&(kind, key)) {
            // Nothing is sent to it anyway.
            _ if upstream.transport == TransportPlan::None => false,
            _ if kind == Kind::MCPUpstream && upstream.refusing.is_none() && is_elsewhere(inputs, key) => true,
            Some(consent) => !consent.includes(&key.namespace, gateway, inputs),
            None => !is_invalid(inputs, kind, key),
        }
    };
    let mut revoked: Vec<_> =
        plan.upstreams.iter().filter(is_revoked).map(|upstream| Revoked::Upstream(upstream.key.clone())).collect();
    revoked.extend(plugins_of(inputs, plan));
    // A plan that refuses every call says already why.
    let required = plan.gateway.required.iter().filter(|_| plan.gateway.refusing.is_none());
    let refusing = required.into_iter().find_map(|key| refusal_of_missing(inputs, key));
    Restrictions { refusing, revoked, ..Restrictions::default() }
}

/// Whether somebody else has the address of a managed upstream, or had it when that was last known.
fn is_elsewhere(inputs: &Inputs, upstream: &ObjectKey) -> bool {
    match inputs.managed.get(upstream) {
        Some(Err((Reason::Pending, _))) => inputs.revoked.contains(upstream),
        Some(_) => taken_address(inputs, upstream).is_some(),
        // Of an invalid object it is not known whether it is managed.
        None => inputs.revoked.contains(upstream) && is_invalid(inputs, Kind::MCPUpstream, upstream),
    }
}

/// Returns the revocations of plugins that entries of chains, and steps of pipelines, in `plan` must no longer run, without
/// duplicates.
fn plugins_of(inputs: &Inputs, plan: &Plan) -> Vec<Revoked> {
    let plugins: HashMap<_, _> = inputs.plugins.iter().map(|input| (&input.key, input)).collect();
    let gateway = inputs.gateway.as_ref().map(|gateway| &gateway.plan);
    let is_allowed = |form: &PluginPlan| gateway.is_none_or(|gateway| gateway.runtime.allows_name(form));
    let mut seen = BTreeSet::new();
    let mut revoked = Vec::new();
    for (user, plugin, configures) in uses(plan) {
        let (reason, of) = match plugins.get(plugin) {
            _ if !plan.plugin(plugin).is_none_or(is_allowed) => (Reason::WrapperNotAllowed, None),
            // An invalid plugin still consents to every use that it permitted before.
            None if is_invalid(inputs, Kind::Plugin, plugin) => continue,
            None => (Reason::PluginNotFound, None),
            Some(input) if plugins::permit(inputs, input, user, configures).is_ok() => continue,
            Some(_) => (Reason::RefNotPermitted, Some(user.clone())),
        };
        if seen.insert((plugin.clone(), of.clone())) {
            let refusal = Refusal::of_revoked(reason, plugin);
            revoked.push(Revoked::Plugin { plugin: plugin.clone(), chain: of, refusal });
        }
    }
    revoked
}

/// Returns each use of a plugin that can run: the chain, pipeline or upstream, the plugin, and whether its configuration is changed.
fn uses(plan: &Plan) -> impl Iterator<Item = (&ObjectKey, &ObjectKey, bool)> {
    let entries = plan.chains.iter().flat_map(|chain| {
        let available = chain.entries.iter().filter(|entry| entry.unavailable.is_none());
        available.map(|entry| (&chain.key, &entry.plugin, entry.config.is_some()))
    });
    let steps = plan.upstreams.iter().flat_map(|upstream| {
        let steps = upstream.plugins().chain(upstream.helpers());
        let available = steps.filter(|step| step.unavailable.is_none());
        available.map(|step| (&upstream.key, &step.key, upstream.configures(step)))
    });
    entries.chain(steps)
}

/// Applies `restrictions` to the running plan.
pub fn restrict(plan: &mut Plan, restrictions: &Restrictions) {
    plan.restrictions = restrictions.digest();
    (plan.gateway.stopped, plan.gateway.stop_cancels) = (restrictions.stopped, restrictions.stop_cancels);
    if let Some(refusal) = &restrictions.refusing {
        plan.gateway.refusing = Some(refusal.clone());
    }
    for revoked in &restrictions.revoked {
        match revoked {
            Revoked::Upstream(key) => plan.upstreams.retain(|upstream| upstream.key != *key),
            Revoked::Plugin { plugin, chain, refusal } => revoke(plan, plugin, chain.as_ref(), refusal),
        }
    }
}

/// Takes a plugin from `user`, a chain, a pipeline or an upstream, or from all.
fn revoke(plan: &mut Plan, plugin: &ObjectKey, user: Option<&ObjectKey>, refusal: &Refusal) {
    let chains = plan.chains.iter_mut().filter(|chain| user.is_none_or(|user| chain.key == *user));
    for entry in chains.flat_map(|chain| &mut chain.entries).filter(|entry| entry.plugin == *plugin) {
        withhold(entry, refusal.clone());
    }
    plan.withhold_steps(plugin, user, refusal);
    let names_it = |entry: &EntryPlan| entry.plugin == *plugin && entry.unavailable.is_none();
    if !plan.chains.iter().flat_map(|chain| &chain.entries).any(names_it) && !plan.has_step_of(plugin) {
        plan.plugins.retain(|known| known.key != *plugin);
    }
}
