//! Restrictions, which take effect immediately even if a gateway runs an older plan: deletions, withdrawn consent, the
//! stop switch.

use std::collections::{BTreeSet, HashMap};

use super::gateway::refusal_of_missing;
use super::resolve::withhold;
use super::takes::shared;
use super::upstreams::taken_address;
use super::{is_invalid, plugins};
use crate::config::input::{Inputs, PluginInput};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{EntryPlan, Plan, Refusal, Restrictions, Revoked, UpstreamPlan};
use crate::domain::reason::Reason;

/// Returns what was revoked since `plan` was compiled, according to the current objects. The stop switch is not
/// included, because it always comes from the newest version of the gateway.
///
/// A deleted chain that is not required stays in force, so that a plan never protects less than when it was compiled.
pub fn restrictions(inputs: &Inputs, plan: &Plan) -> Restrictions {
    let upstreams: HashMap<_, _> = inputs.upstreams.iter().map(|input| (&input.plan.key, input)).collect();
    let gateway = &plan.gateway.key.namespace;
    let is_revoked = |upstream: &&UpstreamPlan| match upstreams.get(&upstream.key) {
        _ if upstream.refusing.is_none() && is_elsewhere(inputs, &upstream.key) => true,
        Some(input) => !shared(input.share_with.as_ref(), &upstream.key.namespace, gateway, inputs),
        None => !is_invalid(inputs, Kind::MCPUpstream, &upstream.key),
    };
    let mut revoked: Vec<_> =
        plan.upstreams.iter().filter(is_revoked).map(|upstream| Revoked::Upstream(upstream.key.clone())).collect();
    revoked.extend(plugins_of(inputs, plan));
    let refusing = plan.gateway.required.iter().find_map(|key| refusal_of_missing(inputs, key));
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

/// Returns the revocations of plugins that entries of `plan` must no longer run, without duplicates.
fn plugins_of(inputs: &Inputs, plan: &Plan) -> Vec<Revoked> {
    let plugins: HashMap<_, _> = inputs.plugins.iter().map(|input| (&input.key, input)).collect();
    let mut seen = BTreeSet::new();
    let mut revoked = Vec::new();
    for chain in &plan.chains {
        for entry in chain.entries.iter().filter(|entry| entry.unavailable.is_none()) {
            let plugin = &entry.plugin;
            let (reason, of) = match plugins.get(plugin) {
                // An invalid plugin still consents to every use that it permitted before.
                None if is_invalid(inputs, Kind::Plugin, plugin) => continue,
                None => (Reason::PluginNotFound, None),
                Some(input) if permits(inputs, input, &chain.key, entry) => continue,
                Some(_) => (Reason::RefNotPermitted, Some(chain.key.clone())),
            };
            if seen.insert((plugin.clone(), of.clone())) {
                let refusal = Refusal::of_revoked(reason, plugin);
                revoked.push(Revoked::Plugin { plugin: plugin.clone(), chain: of, refusal });
            }
        }
    }
    revoked
}

fn permits(inputs: &Inputs, plugin: &PluginInput, chain: &ObjectKey, entry: &EntryPlan) -> bool {
    let is_own = chain.namespace == plugin.key.namespace;
    let configures = entry.config.is_some() && !plugin.config_overrides;
    is_own || (plugins::permitted(inputs, plugin, &chain.namespace) && !configures)
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

fn revoke(plan: &mut Plan, plugin: &ObjectKey, chain: Option<&ObjectKey>, refusal: &Refusal) {
    let chains = plan.chains.iter_mut().filter(|of| chain.is_none_or(|chain| of.key == *chain));
    for entry in chains.flat_map(|chain| &mut chain.entries).filter(|entry| entry.plugin == *plugin) {
        withhold(entry, refusal.clone());
    }
    if chain.is_none() {
        plan.withhold_steps(plugin, refusal);
    }
    let names_it = |entry: &EntryPlan| entry.plugin == *plugin && entry.unavailable.is_none();
    if !plan.chains.iter().flat_map(|chain| &chain.entries).any(names_it) {
        plan.plugins.retain(|known| known.key != *plugin);
    }
}
