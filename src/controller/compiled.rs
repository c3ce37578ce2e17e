//! Every gateway's plan, and what was found on the way.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::take;
use std::sync::Arc;

use serde_json::Value;

use super::build;
use super::dereference::Dereferenced;
use super::load_reports::LoadReports;
use super::lowered::{LoweredObject, Objects};
use super::owner::Owner;
use super::planned_gateway::{PlannedGateway, digests};
use crate::api::lower::Lowered;
use crate::api::restrictions;
use crate::config::compile::{self, ByName, compile_unnamed, grown_beyond, keep_within_bounds, plugin_code};
use crate::config::input::{Inputs, code_key};
use crate::domain::digest::{self, sha256_hex};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{ChainPlan, Plan, Refusal, Restrictions};
use crate::domain::plugin::Protocol;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// What is known of every object.
#[derive(Default)]
pub(super) struct CompiledObjects {
    pub(super) objects: Objects,
    /// Problems that objects have whatever gateway takes them, by object.
    pub(super) own: HashMap<ObjectId, Vec<Problem>>,
    /// Plugins that are not accepted as they are written. That one is being parsed is nothing wrong.
    pub(super) wrong_plugins: HashSet<ObjectKey>,
    /// How plugins that are accepted are spoken with, as far as the operator knows.
    pub(super) protocols: HashMap<ObjectKey, Protocol>,
    /// The code of plugins, as far as the operator can read it.
    pub(super) code: HashMap<ObjectKey, AppliedCode>,
}

/// Code as it was applied, accepted or not.
pub(super) struct AppliedCode {
    /// SHA-256 of its text, hex.
    pub(super) digest: String,
    /// Bytes of its text.
    pub(super) size: usize,
    /// Names that it exports; none where it does not parse.
    pub(super) exports: Option<Vec<String>>,
}

/// What is known of the plugins' code.
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

/// The plan that runs for as long as the newest does not: the pinned one, else the one that was stored last. An error
/// says why it cannot be read.
pub(super) type RunningPlan = Result<Arc<Plan>, String>;

/// The plans of the revisions that are kept, without their code, by name.
pub(super) type KeptPlans = BTreeMap<String, RunningPlan>;

/// Upstreams that a chain covers are counted so far.
pub(super) const MANY: usize = 33;

/// The compiler's inputs but the gateway.
pub(super) fn inputs(objects: &[LoweredObject], found: &Dereferenced) -> Inputs {
    let mut inputs = Inputs {
        config_maps: found.config_maps.clone(),
        servers: found.servers.clone(),
        namespaces: found.namespaces.clone(),
        files_elsewhere: true,
        ..Inputs::default()
    };
    for object in objects {
        match &*object.lowered {
            Ok(Lowered::Upstream(input)) => inputs.upstreams.push(input.clone()),
            Ok(Lowered::Plugin(input)) => inputs.plugins.push(input.clone()),
            Ok(Lowered::Chain(input)) => inputs.chains.push(input.clone()),
            Ok(Lowered::Gateway(_) | Lowered::NotServed) => {}
            // A gateway that is not valid is no other's business.
            Err(invalid) if invalid.id.kind == Kind::MCPGateway => {}
            Err(invalid) => inputs.invalid.push(invalid.clone()),
        }
    }
    inputs
}

/// Problems of objects whatever gateway takes them, as one would find them that takes everything; and how plugins that
/// are accepted are spoken with. `inputs` has no gateway, and is as it was afterwards.
pub(super) fn check_standalone(inputs: &mut Inputs) -> (HashMap<ObjectId, Vec<Problem>>, HashMap<ObjectKey, Protocol>) {
    // Apart, since what chains cover is a gateway's business, and long to find out.
    let (chains, plugins) = (take(&mut inputs.chains), take(&mut inputs.plugins));
    let (_, of_upstreams) = compile_unnamed(inputs, None);
    (inputs.chains, inputs.plugins) = (chains, plugins);
    let upstreams = take(&mut inputs.upstreams);
    let (plan, of_others) = compile_unnamed(inputs, None);
    inputs.upstreams = upstreams;
    let problems = of_upstreams.into_iter().chain(of_others);
    // Names are in the way only in a gateway that takes both.
    let own = by_object(problems.filter(|p| !matches!(p.reason, Reason::NameConflict | Reason::NoUpstreams)));
    // Where only a pod has the code, it is known only where it is written.
    let known = plan.plugins.into_iter().filter(|plugin| plugin.path.is_none() || plugin.wanted_protocol.is_some());
    (own, known.map(|plugin| (plugin.key, plugin.protocol)).collect())
}

/// The plan of one gateway. `previous` is the newest that was compiled before; `running` runs until this one does, none
/// where nothing was stored yet; `kept` are all that pods may still run; `loading` is what is known of plugins that could
/// not be loaded.
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
    let owner = Owner::gateway(gateway.id.key.clone(), gateway.uid());
    let digests = Arc::new(digests(&plan));
    loading.replaced(previous, &digests, &problems);
    let by_name = ByName::new(&plan.upstreams);
    let covered = |chain: &ChainPlan| (chain.key.clone(), by_name.covered(chain, MANY));
    let covered = plan.chains.iter().map(covered).collect();
    let places = plan.upstreams.iter().enumerate().map(|(place, upstream)| (upstream.key.clone(), place)).collect();
    let pinned: Option<String> = pinned(gateway).map(Into::into);
    let (not_loaded, problems, plan) = (loading.to_store(), by_object(problems), Arc::new(plan));
    // Plugins name their code by its digest.
    let content = (&plan.requires, &plan.gateway, &plan.takes, &plan.upstreams, &plan.plugins, &plan.chains);
    let wanted = digest::revision(&(content, &pinned, &restrictions, &restrictions_of_kept, &not_loaded));
    PlannedGateway {
        owner,
        pinned,
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

/// What the gateway's chains name of the newest plan, within the bounds of namespaces: what grew beyond them stays in the
/// form that it has in the `previous` plan.
fn compile_within_bounds(inputs: &mut Inputs, previous: Option<&Plan>) -> (Plan, Vec<Problem>) {
    let compile = |inputs: &Inputs| {
        let (mut plan, problems) = compile_unnamed(inputs, previous);
        build::prune(&mut plan);
        (plan, problems)
    };
    let (mut plan, mut problems) = compile(inputs);
    inputs.no_room = previous.map(|previous| grown_beyond(&plan, previous)).unwrap_or_default();
    if !inputs.no_room.is_empty() {
        (plan, problems) = compile(inputs);
        inputs.no_room.clear();
    }
    keep_within_bounds(&mut plan, previous, &mut problems);
    (plan, problems)
}

/// `spec.pinnedRevision` of a gateway, whatever else of it is not valid.
pub(super) fn pinned(gateway: &LoweredObject) -> Option<&str> {
    gateway.spec.get("pinnedRevision").and_then(Value::as_str)
}

/// What counts at once. It is as gateways will read it.
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
    use crate::domain::plan::UpstreamPlan;

    const KIB: usize = 1 << 10;

    /// Upstreams of two namespaces, 40 of each, that take so many bytes each.
    fn inputs(size: usize) -> Inputs {
        // Without a gateway of their own, all are taken.
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
    fn what_grows_beyond_the_room_of_all_keeps_its_form_and_the_plan_ships() {
        let (before, problems) = compile_within_bounds(&mut inputs(400 * KIB), None);
        assert!(problems.is_empty() && large(&before, 400 * KIB).len() == 80, "{:?}", problems.first());
        let mut grown = inputs(450 * KIB);
        grown.upstreams.push(upstream("c/new"));
        // Who switches one off relies on it.
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
        // Until there is room, which is asked for each time.
        let (again, _) = compile_within_bounds(&mut grown, Some(&plan));
        assert_eq!(large(&again, 400 * KIB), kept);
        grown.upstreams.retain(|upstream| upstream.plan.key.namespace != "a");
        let (free, problems) = compile_within_bounds(&mut grown, Some(&again));
        assert!(problems.is_empty() && large(&free, 450 * KIB).len() == 40, "{:?}", problems.first());
    }
}
