//! Compiles every gateway's plan, and collects what is wrong with the objects.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::{replace, take};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::build;
use super::dereference::Dereferenced;
use super::load_reports::LoadReports;
use super::lowered::{LoweredObject, Objects};
use super::planned_gateway::{PlannedGateway, digests};
use crate::api::gateway::MCPGatewaySpec;
use crate::api::lower::Lowered;
use crate::api::restrictions;
use crate::config::compile::{
    self, ByName, compile_unnamed, grown_beyond, images_beyond, keep_within_bounds, plugin_code,
};
use crate::config::input::{Inputs, code_key};
use crate::domain::digest::{revision, sha256_hex};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{ChainPlan, Plan, Refusal, Restrictions};
use crate::domain::plugin::Protocol;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Every object, and what compiling found out about it.
#[derive(Default)]
pub(super) struct CompiledObjects {
    pub(super) objects: Objects,
    /// Problems that objects have regardless of the gateway, by object.
    pub(super) own: HashMap<ObjectId, Vec<Problem>>,
    /// Plugins whose current form is not accepted. A plugin whose code is still being parsed does not count.
    pub(super) wrong_plugins: HashSet<ObjectKey>,
    /// Protocols of accepted plugins, as far as the operator knows them.
    pub(super) protocols: HashMap<ObjectKey, Protocol>,
    /// Code of plugins, as far as the operator can read it.
    pub(super) code: HashMap<ObjectKey, AppliedCode>,
}

/// The code of a Plugin object as it is in the cluster now, accepted or not.
pub(super) struct AppliedCode {
    /// SHA-256 of the text, in hex.
    pub(super) digest: String,
    /// Size of the text in bytes.
    pub(super) size: usize,
    /// Names that the code exports; `None` if it has not been parsed or does not parse.
    pub(super) exports: Option<Vec<String>>,
}

/// Returns the plugins' code, as far as the operator can read it.
pub(super) fn applied_code(inputs: &Inputs) -> HashMap<ObjectKey, AppliedCode> {
    let code = inputs.plugins.iter().filter_map(|plugin| {
        let code = plugin_code(inputs, plugin)?;
        let digest = sha256_hex(code.text.as_bytes());
        let facts = inputs.facts.get(&code_key(&digest, &code.file_name)).filter(|facts| facts.error.is_none());
        let exports = facts.map(|facts| facts.exports.to_vec());
        Some((plugin.key.clone(), AppliedCode { digest, size: code.text.len(), exports }))
    });
    code.collect()
}

impl CompiledObjects {
    pub(super) fn new(
        objects: Objects,
        own: HashMap<ObjectId, Vec<Problem>>,
        protocols: HashMap<ObjectKey, Protocol>,
        code: HashMap<ObjectKey, AppliedCode>,
    ) -> Self {
        let is_wrong = |problem: &Problem| problem.is_error() && problem.reason != Reason::Pending;
        let wrong = |object: &&LoweredObject| {
            object.lowered.is_err() || own.get(&object.id).into_iter().flatten().any(is_wrong)
        };
        let plugins = objects.iter().filter(|object| object.id.kind == Kind::Plugin).filter(wrong);
        let wrong_plugins = plugins.map(|object| object.id.key.clone()).collect();
        Self { objects, own, wrong_plugins, protocols, code }
    }
}

/// The plan that pods run until the newest one is in force: that of the pinned revision if it is kept, otherwise that
/// of the current revision. The error is the reason why the plan cannot be read.
pub(super) type RunningPlan = Result<Arc<Plan>, String>;

/// Plans of the kept revisions, without their code, by revision name.
pub(super) type KeptPlans = BTreeMap<String, RunningPlan>;

/// Counting the upstreams that a chain covers stops at this number.
pub(super) const MANY: usize = 33;

/// Returns the compiler's inputs without a gateway.
pub(super) fn inputs(objects: &[LoweredObject], found: &Dereferenced) -> Inputs {
    let mut inputs = Inputs {
        config_maps: found.config_maps.clone(),
        servers: found.servers.clone(),
        managed: found.managed.clone(),
        namespaces: found.namespaces.clone(),
        files_elsewhere: true,
        no_pods: found.no_pods,
        ..Inputs::default()
    };
    for object in objects {
        match &*object.lowered {
            Ok(Lowered::Upstream(input)) => inputs.upstreams.push(input.clone()),
            Ok(Lowered::Plugin(input)) => inputs.plugins.push(input.clone()),
            Ok(Lowered::Chain(input)) => inputs.chains.push(input.clone()),
            Ok(Lowered::Pipeline(input)) => inputs.pipelines.push(input.clone()),
            Ok(Lowered::Section(input)) => inputs.sections.push(input.clone()),
            Ok(Lowered::Gateway(_) | Lowered::NotServed) => {}
            // An invalid gateway does not affect the plans of other gateways.
            Err(invalid) if invalid.id.kind == Kind::MCPGateway => {}
            Err(invalid) => inputs.invalid.push(invalid.clone()),
        }
    }
    inputs
}

/// Compiles for a gateway that selects everything. Returns the problems that objects have regardless of the gateway,
/// and the protocols of the accepted plugins. `inputs` has no gateway, and is unchanged afterwards.
pub(super) fn check_standalone(inputs: &mut Inputs) -> (HashMap<ObjectId, Vec<Problem>>, HashMap<ObjectKey, Protocol>) {
    // Upstreams and chains are compiled separately: which upstreams a chain covers depends on the gateway, and is slow
    // to find out. Upstreams with tools of a plugin need the plugins.
    let of_plugins: Vec<_> = inputs.upstreams.iter().filter(|it| it.plan.provider().is_some()).cloned().collect();
    let has_plugin = |problem: &Problem| {
        let key = problem.object.as_ref().filter(|object| object.kind == Kind::MCPUpstream).map(|object| &object.key);
        key.is_some_and(|key| of_plugins.iter().any(|upstream| upstream.plan.key == *key))
    };
    let (chains, plugins) = (take(&mut inputs.chains), take(&mut inputs.plugins));
    let pipelines = take(&mut inputs.pipelines);
    let (_, of_upstreams) = compile_unnamed(inputs, None);
    (inputs.chains, inputs.plugins, inputs.pipelines) = (chains, plugins, pipelines);
    let of_upstreams: Vec<_> = of_upstreams.into_iter().filter(|problem| !has_plugin(problem)).collect();
    let (upstreams, sections) = (replace(&mut inputs.upstreams, of_plugins), take(&mut inputs.sections));
    let (plan, of_others) = compile_unnamed(inputs, None);
    (inputs.upstreams, inputs.sections) = (upstreams, sections);
    let problems = of_upstreams.into_iter().chain(of_others);
    // Names and bindings conflict only within one gateway, which also decides which upstreams there are, and the chains
    // were compiled without upstreams.
    let of_gateway = |reason: Reason| {
        use Reason::{Conflicted, ModelRoleNotFound, NameConflict, NoUpstreams, UpstreamNotFound};
        matches!(reason, ModelRoleNotFound | NameConflict | NoUpstreams | Conflicted | UpstreamNotFound)
    };
    let own = by_object(problems.filter(|problem| !of_gateway(problem.reason)));
    // If only a pod has the code, its protocol is known only if the Plugin states it.
    let known = plan.plugins.into_iter().filter(|plugin| plugin.path.is_none() || plugin.wanted_protocol.is_some());
    (own, known.map(|plugin| (plugin.key, plugin.protocol)).collect())
}

/// Compiles the plan of one gateway. `previous` is the gateway's newest earlier plan. `running` is the plan that pods
/// run until the new one is in force, or `None` if nothing is stored. `kept` are the plans of all revisions that pods
/// can still run. `loading` holds what pods reported about loading plugins.
pub(super) fn plan(
    gateway: &LoweredObject,
    inputs: &mut Inputs,
    previous: Option<&Plan>,
    running: Option<&RunningPlan>,
    kept: &KeptPlans,
    loading: &mut LoadReports,
) -> PlannedGateway {
    let taken = match &*gateway.lowered {
        Ok(Lowered::Gateway(input)) => Some(input.clone()),
        _ => None,
    };
    let invalid = gateway.lowered.as_ref().as_ref().err().cloned();
    inputs.gateway = taken;
    inputs.not_loaded = loading.not_loaded();
    let valid = inputs.invalid.len();
    inputs.invalid.extend(invalid);
    let (plan, problems) = compile_within_bounds(inputs, previous);
    let restrictions_of_kept =
        kept.iter().map(|(name, kept)| (name.clone(), restrictions(inputs, &plan, Some(kept)))).collect();
    let restrictions = restrictions(inputs, &plan, running);
    inputs.invalid.truncate(valid);
    inputs.not_loaded.clear();
    let owner = gateway.as_owner();
    let digests = Arc::new(digests(&plan));
    loading.replaced(previous, &digests, &problems);
    let by_name = ByName::new(&plan.upstreams);
    let covered = |chain: &ChainPlan| (chain.key.clone(), by_name.covered(chain, MANY));
    let covered = plan.chains.iter().map(covered).collect();
    let places = plan.upstreams.iter().enumerate().map(|(place, upstream)| (upstream.key.clone(), place)).collect();
    let pinned: Option<String> = pinned(gateway).map(Into::into);
    let (not_loaded, problems, plan) = (loading.to_store(), by_object(problems), Arc::new(plan));
    // Code need not be hashed: plugins name it by its digest.
    let content = (&plan.requires, &plan.gateway, &plan.takes, &plan.upstreams, &plan.plugins, &plan.chains);
    let wanted = revision(&(content, &plan.sections, &pinned, &restrictions, &restrictions_of_kept, &not_loaded));
    PlannedGateway {
        owner,
        pinned,
        spec: gateway.lowered.is_ok().then(|| MCPGatewaySpec::deserialize(&*gateway.spec).ok()).flatten(),
        restrictions,
        restrictions_of_kept,
        plan,
        wanted,
        not_loaded,
        digests,
        covered,
        places,
        problems,
    }
}

/// Compiles a plan that contains only the plugins that the gateway's chains name, and that stays within the size limits
/// of namespaces. Objects that outgrow those limits keep the form that they have in the `previous` plan.
fn compile_within_bounds(inputs: &mut Inputs, previous: Option<&Plan>) -> (Plan, Vec<Problem>) {
    let compile = |inputs: &Inputs| {
        let (mut plan, problems) = compile_unnamed(inputs, previous);
        build::prune(&mut plan);
        (plan, problems)
    };
    let (mut plan, mut problems) = compile(inputs);
    inputs.no_room = previous.map(|previous| grown_beyond(&plan, previous)).unwrap_or_default();
    inputs.no_room.extend(images_beyond(&plan, previous));
    if !inputs.no_room.is_empty() {
        (plan, problems) = compile(inputs);
        inputs.no_room.clear();
    }
    keep_within_bounds(&mut plan, previous, &mut problems);
    (plan, problems)
}

/// Returns `spec.pinnedRevision` of a gateway, even if the rest of its spec is invalid.
pub(super) fn pinned(gateway: &LoweredObject) -> Option<&str> {
    gateway.spec.get("pinnedRevision").and_then(Value::as_str)
}

/// Returns the restrictions that apply to the plan `running`, with the stop switch from `plan`, in the form in which
/// gateways will read them.
fn restrictions(inputs: &Inputs, plan: &Plan, running: Option<&RunningPlan>) -> Restrictions {
    let taken = match running {
        Some(Ok(running)) => compile::restrictions(inputs, running),
        Some(Err(why)) => {
            let message = format!("what was taken away since the revision that runs was compiled is not known: {why}");
            Restrictions {
                refusing: Some(Refusal { reason: Reason::SnapshotUnreadable, message }),
                ..Restrictions::default()
            }
        }
        None => Restrictions::default(),
    };
    let (stopped, stop_cancels) = (plan.gateway.stopped, plan.gateway.stop_cancels);
    restrictions::read(&restrictions::written(&Restrictions { stopped, stop_cancels, ..taken }))
}

fn by_object(problems: impl IntoIterator<Item = Problem>) -> HashMap<ObjectId, Vec<Problem>> {
    let mut found: HashMap<ObjectId, Vec<Problem>> = HashMap::new();
    for problem in problems {
        if let Some(object) = &problem.object {
            found.entry(object.clone()).or_default().push(problem);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compile::tests::{folder, upstream};
    use crate::domain::plan::{PhasePluginPlan, TransportPlan, UpstreamPlan};
    use crate::domain::plugin::PluginKind;

    const KIB: usize = 1 << 10;

    /// Returns inputs with 40 upstreams in each of two namespaces. Each upstream has a label of `size` bytes.
    fn inputs(size: usize) -> Inputs {
        // Without a gateway, every upstream is selected.
        let mut inputs = Inputs { gateway: None, ..folder() };
        for (namespace, number) in ["a", "b"].iter().flat_map(|namespace| (0..40).map(move |n| (namespace, n))) {
            let mut large = upstream(&format!("{namespace}/{namespace}{number:02}"));
            large.plan.labels.insert("size".to_owned(), "x".repeat(size));
            inputs.upstreams.push(large);
        }
        inputs
    }

    fn large(plan: &Plan, size: usize) -> Vec<&str> {
        let has = |upstream: &&UpstreamPlan| upstream.labels.get("size").is_some_and(|label| label.len() == size);
        plan.upstreams.iter().filter(has).map(|upstream| upstream.key.name.as_str()).collect()
    }

    #[test]
    fn the_plugin_of_an_upstream_is_looked_for_among_all() {
        let mut inputs = Inputs { gateway: None, ..folder() };
        for (name, plugin) in [("kit", "guard"), ("none", "none")] {
            let mut upstream = upstream(name);
            let (key, kind) = (ObjectKey::new("default", plugin), PluginKind::ToolProvider);
            upstream.plan.transport =
                TransportPlan::Plugin(PhasePluginPlan { key, config: None, kind, unavailable: None }.into());
            inputs.upstreams.push(upstream);
        }
        let (own, _) = check_standalone(&mut inputs);
        for (name, reason) in [("kit", Reason::WrongType), ("none", Reason::PluginNotFound)] {
            let object = ObjectId::new(Kind::MCPUpstream, ObjectKey::new("default", name));
            let reasons: Vec<_> = own[&object].iter().map(|problem| problem.reason).collect();
            assert_eq!(reasons, [reason], "{name}");
        }
        assert_eq!(inputs.upstreams.len(), 3);
    }

    #[test]
    fn what_grows_beyond_the_room_of_all_keeps_its_form_and_the_plan_ships() {
        let (before, problems) = compile_within_bounds(&mut inputs(400 * KIB), None);
        assert!(problems.is_empty() && large(&before, 400 * KIB).len() == 80, "{:?}", problems.first());
        let mut grown = inputs(450 * KIB);
        grown.upstreams.push(upstream("c/new"));
        // Switching an upstream off must work even without room for its new form.
        grown.upstreams.iter_mut().filter(|up| up.plan.key.name == "b39").for_each(|up| up.plan.enabled = false);
        let (plan, problems) = compile_within_bounds(&mut grown, Some(&before));
        let kept = large(&plan, 400 * KIB);
        let told: Vec<_> = problems.iter().filter_map(|problem| Some(&*problem.object.as_ref()?.key.name)).collect();
        assert!(kept == told && problems.iter().all(|problem| problem.reason == Reason::TooLarge), "{told:?}");
        assert!(kept.first().is_some_and(|first| first.starts_with('b')) && kept.contains(&"b39"), "{kept:?}");
        assert_eq!(kept.len() + large(&plan, 450 * KIB).len(), 80);
        assert!(plan.upstreams.iter().all(|upstream| upstream.refusing.is_none()));
        assert!(plan.upstream("new").is_some() && !plan.upstream("b39").unwrap().enabled);
        assert!(grown.no_room.is_empty());
        // These upstreams keep the old form until there is room. Each compilation checks this again.
        let (again, _) = compile_within_bounds(&mut grown, Some(&plan));
        assert_eq!(large(&again, 400 * KIB), kept);
        grown.upstreams.retain(|upstream| upstream.plan.key.namespace != "a");
        let (free, problems) = compile_within_bounds(&mut grown, Some(&again));
        assert!(problems.is_empty() && large(&free, 450 * KIB).len() == 40, "{:?}", problems.first());
    }
}
