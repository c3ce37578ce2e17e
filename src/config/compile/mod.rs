//! The compiler: turns inputs and the previous plan into a plan and Problems.
//!
//! A bad edit does not change what runs: if an object is not accepted, its last accepted form is taken from the
//! previous plan. If there is no such form, a gateway or a chain refuses the calls that it selects, an upstream is not
//! served or refuses its calls, and an entry whose plugin was never accepted counts as a Guard that always fails. The
//! latter also applies to a plugin that was deleted or is no longer shared.

mod access;
mod audit;
mod bounds;
mod by_name;
mod chains;
mod code_warnings;
mod complete;
mod descriptors;
mod entry_config;
mod exports;
mod fault;
mod gateway;
mod images;
mod life_cycle;
mod lost_exports;
mod names;
mod pipelines;
mod plugin_code;
mod plugins;
mod references;
mod resolve;
mod restrictions;
mod sections;
mod shares;
mod takes;
mod untaken;
mod upstreams;
mod values;
mod world;
mod wrappers;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};

pub use self::by_name::ByName;
pub use self::complete::complete;
pub use self::entry_config::merge_config;
use self::fault::{Faults, FieldFault, id, is_invalid};
pub use self::gateway::implicit;
pub use self::images::images_beyond;
use self::names::Names;
use self::pipelines::Pipelines;
pub use self::plugin_code::{FoundCode, file_code, plugin_code};
use self::plugins::Plugins;
pub use self::plugins::check_entry_config;
pub use self::restrictions::{restrict, restrictions};
use self::sections::Sections;
pub use self::shares::{grown_beyond, keep_within_bounds};
pub use self::untaken::untaken;
use self::upstreams::Upstreams;
use self::world::{Chains, World};
use super::config_schema::ConfigChecks;
use super::input::Inputs;
use super::nearest::BoundedNearest;
use crate::domain::digest::revision;
use crate::domain::item::ItemKind;
use crate::domain::plan::{
    ACCESS, CHAINED_CONTENT, FORMAT_VERSION, LISTENER_TLS, PIPELINES, Plan, SECTION_BINDINGS, STAGE_PLUGINS,
    TOOL_ARGUMENTS, TOOL_PINNING, TOOL_PROVIDERS, TOOLS_OF_PIPELINES, TlsPlan, ToolOverride, TransportPlan,
    UPSTREAM_OAUTH, UPSTREAM_TLS, UpstreamPlan, WRAPPERS,
};
use crate::domain::problem::Problem;

/// With how many names unknown ones are compared to find out what was meant. Further Problems do not say it.
const MAX_COMPARED: usize = 20_000;

/// Compiles the inputs. `previous` is the running plan, which contains the last accepted forms.
///
/// Compilation always yields a plan. Problems of level error name the objects that the plan does not contain as
/// written. The same inputs and previous plan result in the same plan, byte for byte.
pub fn compile(inputs: &Inputs, previous: Option<&Plan>) -> (Plan, Vec<Problem>) {
    let (mut plan, problems) = compile_unnamed(inputs, previous);
    plan.revision = revision(&plan);
    (plan, problems)
}

/// Like [`compile`], but leaves the plan's revision empty, because it takes long to compute for a large plan. It is for
/// callers that derive the revision from the plan's shards.
#[expect(clippy::too_many_lines, reason = "one step for each kind of object")]
pub fn compile_unnamed(inputs: &Inputs, previous: Option<&Plan>) -> (Plan, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut gateway = gateway::compile(inputs, previous);
    let settings = gateway::accepted_settings(inputs, previous);
    let tests = inputs.gateway.as_ref().map_or(&[][..], |gateway| &gateway.access_tests);
    access::check(&mut gateway, tests, settings, &mut problems);
    access::put_keys(&mut gateway, inputs, settings, &mut problems);
    let takes = gateway::takes(inputs, previous);
    let mut checks = ConfigChecks::new(&inputs.config_verdicts);
    let mut of_plugins = Vec::new();
    let mut plugins = plugins::compile(inputs, previous, &gateway, &mut checks, &mut of_plugins);
    let world = World { inputs, previous, gateway: &gateway, takes: takes.as_ref(), plugins: &plugins };
    let mut candidates = life_cycle::compile(&Upstreams(world), &world, &mut problems);
    problems.append(&mut of_plugins);
    candidates.extend(life_cycle::compile(&Pipelines(world), &world, &mut problems));
    let mut upstreams = Names::new(previous).assign(candidates, &mut problems);
    upstreams::refuse_exchanges(inputs, &gateway.key, &mut upstreams, &mut problems);
    let compile_chains = |plugins: &Plugins<'_>| {
        let mut problems = Vec::new();
        let chains = Chains {
            world: World { inputs, previous, gateway: &gateway, takes: takes.as_ref(), plugins },
            upstreams: ByName::new(&upstreams),
            checks: RefCell::new(checks.clone()),
            nearest: BoundedNearest::new(MAX_COMPARED),
        };
        (chains.compile(&mut problems), problems)
    };
    let (mut chains, mut found) = compile_chains(&plugins);
    if plugins.keep_exports(&chains, &mut problems) {
        (chains, found) = compile_chains(&plugins);
    }
    problems.extend(found);
    gateway::require(&mut gateway, &chains, &plugins, &mut problems);
    audit::check(&gateway, &mut problems);
    let world = World { inputs, previous, gateway: &gateway, takes: takes.as_ref(), plugins: &plugins };
    let plan = Plan {
        format_version: FORMAT_VERSION,
        revision: String::new(),
        requires: Vec::new(),
        restrictions: String::new(),
        sections: Sections { world, upstreams: &upstreams }.compile(&mut problems),
        gateway,
        takes,
        upstreams,
        code: kept_code(&plugins),
        plugins: plugins.accepted.into_values().collect(),
        chains,
    };
    (Plan { requires: required(&plan), ..plan }, problems)
}

/// Returns the features that a gateway must have to serve the upstreams as they are meant.
fn required(plan: &Plan) -> Vec<String> {
    let Plan { gateway, upstreams, chains, plugins, sections, .. } = plan;
    let mut overrides = upstreams.iter().flat_map(|upstream| &upstream.overrides);
    let arguments = overrides.any(ToolOverride::decides_what_is_sent);
    let pinning = upstreams.iter().any(|upstream| upstream.pinning.as_ref().is_some_and(|pinning| pinning.enforce));
    let mut methods = chains.iter().flat_map(|chain| &chain.methods);
    let content = methods.any(|method| method.is_question() || ItemKind::listed_with(*method).is_some());
    let has_tls = |upstream: &UpstreamPlan| match &upstream.transport {
        TransportPlan::External { tls, .. } => *tls != TlsPlan::default(),
        TransportPlan::Process { .. } | TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => {
            false
        }
    };
    let has_oauth =
        |upstream: &UpstreamPlan| matches!(upstream.transport, TransportPlan::External { oauth: Some(_), .. });
    let tls = upstreams.iter().any(has_tls);
    let has_tools_of_pipelines = |upstream: &UpstreamPlan| {
        upstream.for_pipelines || upstream.overrides.iter().any(|change| change.for_pipelines == Some(true))
    };
    let features = [
        (arguments, TOOL_ARGUMENTS),
        (pinning, TOOL_PINNING),
        (content, CHAINED_CONTENT),
        (tls, UPSTREAM_TLS),
        (gateway.listeners.iter().any(|listener| listener.tls.is_some()), LISTENER_TLS),
        (upstreams.iter().any(has_oauth), UPSTREAM_OAUTH),
        (!sections.is_empty(), SECTION_BINDINGS),
        (upstreams.iter().any(|upstream| upstream.pipeline().is_some()), PIPELINES),
        (upstreams.iter().any(has_tools_of_pipelines), TOOLS_OF_PIPELINES),
        (upstreams.iter().any(|upstream| upstream.provider().is_some()), TOOL_PROVIDERS),
        (plugins.iter().any(|plugin| plugin.wrapper.is_some()), WRAPPERS),
        (plugins.iter().any(|plugin| plugin.kind.is_stage()), STAGE_PLUGINS),
        (!gateway.authentication.is_default() || gateway.authorization.is_some(), ACCESS),
    ];
    features.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, feature)| feature.to_owned()).collect()
}

/// Returns the code of the accepted plugins, by its digest.
fn kept_code(plugins: &Plugins<'_>) -> BTreeMap<String, String> {
    let kept: HashSet<&str> = plugins.accepted.values().map(|p| p.digest.as_str()).collect();
    plugins
        .code
        .iter()
        .filter(|(digest, _)| kept.contains(digest.as_str()))
        .map(|(d, t)| (d.clone(), t.clone()))
        .collect()
}

#[cfg(test)]
pub(crate) mod tests;
