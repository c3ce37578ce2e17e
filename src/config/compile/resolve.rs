//! Resolves the plugins that the entries of a chain name: which entries can run, and in which order.

use super::id;
use super::world::Chains;
use crate::config::nearest::has_wildcard;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{ChainPlan, EntryPlan, PluginPlan, Refusal};
use crate::domain::plugin::{FailurePolicy, Mode, Phase, PluginKind, Role};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns the plugin for an entry of `chain`, or why it cannot run. `configures` is true if the entry changes the plugin's
/// configuration.
pub(super) fn find<'a>(
    chains: &'a Chains<'_>,
    chain: &ObjectKey,
    plugin: &ObjectKey,
    configures: bool,
    phase: Phase,
) -> Result<&'a PluginPlan, Refusal> {
    let plugins = chains.world.plugins;
    let had = |e: &EntryPlan| e.plugin == *plugin && e.unavailable.is_none() && (e.config.is_some() || !configures);
    let had_it = || chains.accepted(chain).is_some_and(|form| form.entries.iter().any(had));
    chains.world.consent(chain, plugin, configures, had_it)?;
    match plugins.accepted.get(plugin) {
        Some(accepted) if accepted.phases.contains(&phase) => Ok(accepted),
        Some(typed) if typed.kind != PluginKind::Middleware => {
            let is = typed.kind.as_str();
            let message = format!("Plugin {plugin} is of type {is}: a chain runs plugins of type middleware");
            Err(Refusal { reason: Reason::WrongType, message })
        }
        Some(_) => Err(wrong_phase(plugin, phase)),
        None => {
            // Who uses a plugin of another namespace may not be able to read the plugin, and what only concerns this
            // gateway is not told there.
            let why = plugins.refused.get(plugin).filter(|_| chain.namespace != plugin.namespace);
            Err(chains.world.without_form(plugin, why.map(String::as_str)))
        }
    }
}

/// Resolves every entry and sorts the entries into the order in which they run.
pub(super) fn resolve(chains: &Chains<'_>, chain: &mut ChainPlan, problems: &mut Vec<Problem>) {
    let mut orders = Vec::with_capacity(chain.entries.len());
    for entry in &mut chain.entries {
        let found = find(chains, &chain.key, &entry.plugin, entry.config.is_some(), chain.phase);
        let own_order = match found {
            Ok(plugin) => {
                (entry.role, entry.unavailable) = (plugin.role, None);
                plugin.order
            }
            Err(refusal) => {
                withhold(entry, refusal);
                // An invalid plugin keeps the order that it had, also where it cannot run.
                let plugins = chains.world.plugins;
                let kept = || plugins.accepted.get(&entry.plugin).map(|kept| kept.order);
                plugins.inputs.get(&entry.plugin).map(|input| input.order).or_else(kept).unwrap_or_default()
            }
        };
        entry.failure_policy = policy(entry);
        orders.push((entry.order.unwrap_or(own_order), entry.place));
        report_entry((&chain.key, chain.phase), entry, &meant(chains, &chain.key, entry), problems);
    }
    let mut sorted: Vec<_> = orders.into_iter().zip(std::mem::take(&mut chain.entries)).collect();
    sorted.sort_by_key(|(order, _)| *order);
    chain.entries = sorted.into_iter().map(|(_, entry)| entry).collect();
    report_chain(chains, chain, problems);
}

/// Makes an entry unavailable, so that it counts as a Guard that always fails.
pub(super) fn withhold(entry: &mut EntryPlan, refusal: Refusal) {
    (entry.role, entry.unavailable) = (Role::Guard, Some(refusal));
    entry.failure_policy = policy(entry);
}

/// Returns the reason why an entry cannot run `plugin` in `phase`.
pub(super) fn wrong_phase(plugin: &ObjectKey, phase: Phase) -> Refusal {
    Refusal { reason: Reason::WrongPhase, message: format!("Plugin {plugin} does not serve phase {phase:?}") }
}

/// Returns the failure policy that is in force. `Fail` has no meaning for an Observe plugin, because it runs beside the
/// call. A kept chain can still have `Fail` if its plugin has become an Observe plugin; then the default of the role
/// applies.
fn policy(entry: &EntryPlan) -> FailurePolicy {
    match entry.written_policy {
        Some(FailurePolicy::Fail) if entry.role == Role::Observe => entry.role.default_policy(),
        Some(written) => written,
        None => entry.role.default_policy(),
    }
}

/// Returns the end of a message about an entry that names an unknown plugin. Names of other namespaces are not shown to
/// the owner of the chain.
fn meant(chains: &Chains<'_>, chain: &ObjectKey, entry: &EntryPlan) -> String {
    let is_unknown = entry.unavailable.as_ref().is_some_and(|refusal| refusal.reason == Reason::PluginNotFound);
    if !is_unknown || entry.plugin.namespace != chain.namespace {
        return String::new();
    }
    let own = chains.world.plugins.inputs.keys().filter(|key| key.namespace == chain.namespace);
    did_you_mean(chains, &entry.plugin.name, own.map(|key| key.name.as_str()))
}

fn did_you_mean<'n>(chains: &Chains<'_>, name: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    chains.nearest.find(name, names).map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// Reports an enabled entry if it cannot run, or if it protects less than the role Guard suggests. `hint` is the end of
/// the message if it cannot run.
pub(super) fn report_entry(
    (chain, phase): (&ObjectKey, Phase),
    entry: &EntryPlan,
    hint: &str,
    problems: &mut Vec<Problem>,
) {
    let object = id(Kind::PluginChain, chain);
    let field = format!("spec.entries[{}]", entry.place);
    let softened = entry.role == Role::Guard && entry.failure_policy != FailurePolicy::Fail;
    if let Some(refusal) = entry.unavailable.as_ref().filter(|_| entry.enabled) {
        let effect = if entry.mode == Mode::Shadow || softened {
            "the entry fails each time and is passed by".to_owned()
        } else {
            format!("each call that the chain selects is refused before it is sent{}", entry.exception(phase))
        };
        let message = format!("{}: {effect}{hint}", refusal.message);
        problems.push(Problem::error(refusal.reason, object.clone(), &field, message));
    }
    if let Some((weakness, message)) = entry.weakness() {
        problems.push(Problem::warning(Reason::GuardWeakened, object, format!("{field}.{weakness}"), message));
    }
}

fn report_chain(chains: &Chains<'_>, chain: &ChainPlan, problems: &mut Vec<Problem>) {
    let object = id(Kind::PluginChain, &chain.key);
    if chain.refusing.is_none() && !chain.entries.iter().any(|e| chains.world.plugins.enable(e)) {
        let message = "none of its entries is enabled: it does nothing";
        problems.push(Problem::warning(Reason::NothingEnabled, object.clone(), "spec.entries", message));
    }
    report_names(chains, chain, problems);
    if chains.upstreams.covered(chain, 1) == 0 {
        let message = format!("it selects no upstream that {} serves: it does nothing", chains.world.gateway.key);
        problems.push(Problem::warning(Reason::NoUpstreams, object, "spec.upstreams", message));
        return;
    }
    report_filters(chains, chain, problems);
}

/// Warns of names in `spec.upstreams` that no upstream has. In a cluster, only of those that are similar to one that the chain
/// does not name: others can be meant for upstreams to come, or for another gateway.
fn report_names(chains: &Chains<'_>, chain: &ChainPlan, problems: &mut Vec<Problem>) {
    let names = &chain.upstreams.names;
    let unknown = |name: &str| !has_wildcard(name) && !chains.upstreams.reaches(chain, name);
    for (place, name) in names.iter().enumerate().filter(|(_, name)| unknown(name)) {
        let unnamed = chains.upstreams.in_reach(chain).filter(|known| !names.iter().any(|name| name == known));
        let near = chains.nearest.find(name, unnamed);
        if near.is_none() && (chains.world.inputs.files_elsewhere || chains.upstreams.covered(chain, 1) == 0) {
            continue;
        }
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        let message = format!("there is no upstream {name:?} that the chain can cover{hint}");
        let (object, field) = (id(Kind::PluginChain, &chain.key), format!("spec.upstreams.names[{place}]"));
        problems.push(Problem::warning(Reason::NoUpstreams, object, field, message));
    }
}

/// Warns of each Guard in a chain that runs on nothing, because its plugin's filter fits no upstream that the chain covers.
fn report_filters(chains: &Chains<'_>, chain: &ChainPlan, problems: &mut Vec<Problem>) {
    let guards = chain.entries.iter().filter(|entry| {
        entry.role == Role::Guard
            && entry.mode == Mode::Enforce
            && entry.unavailable.is_none()
            && chains.world.plugins.enable(entry)
    });
    for entry in guards {
        let Some(plugin) = chains.world.plugins.accepted.get(&entry.plugin) else { continue };
        if plugin.filter_upstreams.is_empty() || chains.upstreams.covers_named(chain, &plugin.filter_upstreams) {
            continue;
        }
        let slips = plugin.filter_upstreams.iter().find(|name| !has_wildcard(name));
        let message = format!(
            "the filter of Plugin {} (spec.filter.upstreams) fits no upstream that the chain covers, so that this Guard runs \
             on nothing{}",
            plugin.key,
            slips.map(|name| did_you_mean(chains, name, chains.upstreams.in_reach(chain))).unwrap_or_default()
        );
        let (object, field) = (id(Kind::PluginChain, &chain.key), format!("spec.entries[{}]", entry.place));
        problems.push(Problem::warning(Reason::NoUpstreams, object, field, message));
    }
}
