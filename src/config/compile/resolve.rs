//! Resolves the plugins that the entries of a chain name: which entries can run, and in which order.

use super::plugins::permitted;
use super::world::World;
use super::{id, is_invalid};
use crate::config::nearest::has_wildcard;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{ChainPlan, EntryPlan, PluginPlan, Refusal};
use crate::domain::plugin::{FailurePolicy, Mode, Phase, PluginKind, Role};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// The plugin that an entry names.
pub(super) enum ResolvedPlugin<'a> {
    /// The plugin can run.
    Accepted(&'a PluginPlan),
    /// The plugin cannot run, for this reason.
    Missing(Refusal),
}

/// Finds the plugin for an entry of `chain`. `configures` is true if the entry changes the plugin's configuration.
pub(super) fn find<'a>(
    world: &'a World<'_>,
    chain: &ObjectKey,
    plugin: &ObjectKey,
    configures: bool,
    phase: Phase,
) -> ResolvedPlugin<'a> {
    let missing = |reason, message| ResolvedPlugin::Missing(Refusal { reason, message });
    let input = world.plugins.inputs.get(plugin);
    if chain.namespace != plugin.namespace
        && let Err(message) = consent(world, chain, plugin, configures)
    {
        return missing(Reason::RefNotPermitted, message);
    }
    match world.plugins.accepted.get(plugin) {
        Some(accepted) if accepted.phases.contains(&phase) => ResolvedPlugin::Accepted(accepted),
        Some(typed) if typed.kind != PluginKind::Middleware => {
            let is = typed.kind.as_str();
            missing(
                Reason::WrongType,
                format!("Plugin {plugin} is of type {is}: a chain runs plugins of type middleware"),
            )
        }
        Some(_) => ResolvedPlugin::Missing(wrong_phase(plugin, phase)),
        // Calls cannot wait for the next plan and must not skip a Guard, so they are refused until the code is parsed.
        None if world.plugins.parsing.contains(plugin) => {
            missing(Reason::Pending, format!("the code of Plugin {plugin} is being parsed"))
        }
        None if input.is_some() || is_invalid(world.inputs, Kind::Plugin, plugin) => {
            // Who uses a plugin of another namespace may not be able to read the plugin, and what only concerns this
            // gateway is not told there.
            let why = world.plugins.refused.get(plugin).filter(|_| chain.namespace != plugin.namespace);
            let why = why.map_or("its own finding says why", String::as_str);
            missing(Reason::PluginNotAccepted, format!("Plugin {plugin} is not accepted ({why})"))
        }
        None => missing(Reason::PluginNotFound, format!("there is no Plugin {plugin}")),
    }
}

/// Checks that a plugin of another namespace permits `chain` to use it and, if `configures` is true, to change its
/// configuration.
fn consent(world: &World<'_>, chain: &ObjectKey, plugin: &ObjectKey, configures: bool) -> Result<(), String> {
    let Some(input) = world.plugins.inputs.get(plugin) else {
        // An invalid plugin still consents to what the accepted form of the chain already uses. A plugin that does
        // not exist needs no consent, because it cannot run anyway.
        let unreadable = is_invalid(world.inputs, Kind::Plugin, plugin);
        let had = |e: &EntryPlan| e.plugin == *plugin && e.unavailable.is_none() && (e.config.is_some() || !configures);
        let had_it = world.accepted(chain).is_some_and(|form| form.entries.iter().any(had));
        return if unreadable && !had_it {
            Err(format!("{plugin} is not valid: whom it is shared with is not known"))
        } else {
            Ok(())
        };
    };
    if !permitted(world.inputs, input, &chain.namespace) {
        return Err(format!("{plugin} is not shared with {} (its spec.shareWith)", chain.namespace));
    }
    if configures && !input.config_overrides {
        return Err(format!(
            "{plugin} does not let other namespaces change its config (its spec.shareWith.configOverrides)"
        ));
    }
    Ok(())
}

/// Resolves every entry and sorts the entries into the order in which they run.
pub(super) fn resolve(world: &World<'_>, chain: &mut ChainPlan, problems: &mut Vec<Problem>) {
    let mut orders = Vec::with_capacity(chain.entries.len());
    for entry in &mut chain.entries {
        let found = find(world, &chain.key, &entry.plugin, entry.config.is_some(), chain.phase);
        let own_order = match found {
            ResolvedPlugin::Accepted(plugin) => {
                (entry.role, entry.unavailable) = (plugin.role, None);
                plugin.order
            }
            ResolvedPlugin::Missing(refusal) => {
                withhold(entry, refusal);
                world.plugins.inputs.get(&entry.plugin).map_or(0, |input| input.order)
            }
        };
        entry.failure_policy = policy(entry);
        orders.push((entry.order.unwrap_or(own_order), entry.place));
        report_entry((&chain.key, chain.phase), entry, &meant(world, &chain.key, entry), problems);
    }
    let mut sorted: Vec<_> = orders.into_iter().zip(std::mem::take(&mut chain.entries)).collect();
    sorted.sort_by_key(|(order, _)| *order);
    chain.entries = sorted.into_iter().map(|(_, entry)| entry).collect();
    report_chain(world, chain, problems);
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
fn meant(world: &World<'_>, chain: &ObjectKey, entry: &EntryPlan) -> String {
    let is_unknown = entry.unavailable.as_ref().is_some_and(|refusal| refusal.reason == Reason::PluginNotFound);
    if !is_unknown || entry.plugin.namespace != chain.namespace {
        return String::new();
    }
    let own = world.plugins.inputs.keys().filter(|key| key.namespace == chain.namespace);
    did_you_mean(world, &entry.plugin.name, own.map(|key| key.name.as_str()))
}

fn did_you_mean<'n>(world: &World<'_>, name: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    world.nearest.find(name, names).map(|near| format!("; did you mean {near}?")).unwrap_or_default()
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

fn report_chain(world: &World<'_>, chain: &ChainPlan, problems: &mut Vec<Problem>) {
    let object = id(Kind::PluginChain, &chain.key);
    if chain.refusing.is_none() && !chain.entries.iter().any(|e| world.plugins.enable(e)) {
        let message = "none of its entries is enabled: it does nothing";
        problems.push(Problem::warning(Reason::NothingEnabled, object.clone(), "spec.entries", message));
    }
    report_names(world, chain, problems);
    if world.upstreams.covered(chain, 1) == 0 {
        let message = format!("it selects no upstream that {} serves: it does nothing", world.gateway.key);
        problems.push(Problem::warning(Reason::NoUpstreams, object, "spec.upstreams", message));
        return;
    }
    report_filters(world, chain, problems);
}

/// Warns of names in `spec.upstreams` that no upstream has and that are similar to one that the chain does not name. Other
/// names can be meant for upstreams to come, or for another gateway.
fn report_names(world: &World<'_>, chain: &ChainPlan, problems: &mut Vec<Problem>) {
    let names = &chain.upstreams.names;
    let unknown = |name: &str| !has_wildcard(name) && !world.upstreams.reaches(chain, name);
    for (place, name) in names.iter().enumerate().filter(|(_, name)| unknown(name)) {
        let unnamed = world.upstreams.in_reach(chain).filter(|known| !names.iter().any(|name| name == known));
        if let Some(near) = world.nearest.find(name, unnamed) {
            let message = format!("there is no upstream {name:?} that the chain can cover; did you mean {near}?");
            let (object, field) = (id(Kind::PluginChain, &chain.key), format!("spec.upstreams.names[{place}]"));
            problems.push(Problem::warning(Reason::NoUpstreams, object, field, message));
        }
    }
}

/// Warns of each Guard in a chain that runs on nothing, because its plugin's filter fits no upstream that the chain covers.
fn report_filters(world: &World<'_>, chain: &ChainPlan, problems: &mut Vec<Problem>) {
    let guards = chain.entries.iter().filter(|entry| {
        entry.role == Role::Guard
            && entry.mode == Mode::Enforce
            && entry.unavailable.is_none()
            && world.plugins.enable(entry)
    });
    for entry in guards {
        let Some(plugin) = world.plugins.accepted.get(&entry.plugin) else { continue };
        if plugin.filter_upstreams.is_empty() || world.upstreams.covers_named(chain, &plugin.filter_upstreams) {
            continue;
        }
        let slips = plugin.filter_upstreams.iter().find(|name| !has_wildcard(name));
        let message = format!(
            "the filter of Plugin {} (spec.filter.upstreams) fits no upstream that the chain covers, so that this Guard runs \
             on nothing{}",
            plugin.key,
            slips.map(|name| did_you_mean(world, name, world.upstreams.in_reach(chain))).unwrap_or_default()
        );
        let (object, field) = (id(Kind::PluginChain, &chain.key), format!("spec.entries[{}]", entry.place));
        problems.push(Problem::warning(Reason::NoUpstreams, object, field, message));
    }
}
