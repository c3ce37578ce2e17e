//! Objects that no gateway takes, of manifests on disk. In a cluster the conditions of the objects say so, and gateways that
//! are not seen here can take them.

use super::id;
use super::takes::takes;
use crate::config::input::{ChainInput, GatewayInput, Inputs, Takes, UpstreamInput};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{Namespaces, Plan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns a warning for each upstream, chain and binding that is not in the plan, that none of these gateways takes, and about
/// which `found` says nothing. `gateways` are all that the manifests declare; the one that `inputs` chose is among them.
pub fn untaken(inputs: &Inputs, gateways: &[GatewayInput], plan: &Plan, found: &[Problem]) -> Vec<Problem> {
    // A gateway that is not valid takes what its last form took, and the implicit one takes everything.
    let Some(chosen) = &inputs.gateway else { return Vec::new() };
    let is_known = |object: &ObjectId| found.iter().any(|problem| problem.object.as_ref() == Some(object));
    let by_none = |is_taken: &dyn Fn(&GatewayInput) -> bool| !gateways.iter().any(is_taken);
    let upstreams = inputs.upstreams.iter().filter(|upstream| {
        let key = &upstream.plan.key;
        by_none(&|gateway| takes_upstream(gateway, upstream, inputs))
            && !plan.upstreams.iter().any(|served| served.key == *key)
            && !is_known(&id(Kind::MCPUpstream, key))
    });
    let upstreams = upstreams.map(|upstream| {
        let key = &upstream.plan.key;
        let (place, why) = why(chosen, &chosen.upstreams, key, "upstreams", "spec.shareWith of the upstream");
        let message = format!("no gateway serves it: {why}");
        Problem::warning(Reason::NoGateway, id(Kind::MCPUpstream, key), place, message)
    });
    let chains = inputs.chains.iter().filter(|chain| {
        by_none(&|gateway| takes_chain(gateway, chain, inputs))
            && plan.chain(&chain.key).is_none()
            && !is_known(&id(Kind::PluginChain, &chain.key))
    });
    let chains = chains.map(|chain| {
        let (place, why) = why(chosen, &chosen.chains, &chain.key, "chains", "spec.gateways of the chain");
        let message = format!("no gateway takes it, so that what it is to guard goes unguarded: {why}");
        Problem::warning(Reason::NotTaken, id(Kind::PluginChain, &chain.key), place, message)
    });
    let sections = inputs.sections.iter().filter(|section| {
        let key = &section.plan.key;
        by_none(&|gateway| {
            takes(&gateway.sections, &gateway.plan.key.namespace, &key.namespace, &section.labels, inputs)
        }) && !is_known(&id(Kind::SectionBinding, key))
    });
    let sections = sections.map(|section| {
        let key = &section.plan.key;
        let (place, why) = why(chosen, &chosen.sections, key, "sections", "spec.gateways of the binding");
        let message = format!("no gateway takes it, so that it restricts nothing: {why}");
        Problem::warning(Reason::NotTaken, id(Kind::SectionBinding, key), place, message)
    });
    upstreams.chain(chains).chain(sections).collect()
}

fn takes_upstream(gateway: &GatewayInput, upstream: &UpstreamInput, inputs: &Inputs) -> bool {
    let (own, key) = (&gateway.plan.key.namespace, &upstream.plan.key);
    takes(&gateway.upstreams, own, &key.namespace, &upstream.plan.labels, inputs)
}

fn takes_chain(gateway: &GatewayInput, chain: &ChainInput, inputs: &Inputs) -> bool {
    let own = &gateway.plan.key.namespace;
    gateway.plan.required.contains(&chain.key)
        || takes(&gateway.chains, own, &chain.key.namespace, &chain.labels, inputs)
}

/// Returns the field of the object because of which the gateway does not take it, and why that is, with what to do.
/// `consent` is the field in which the object's owner agrees that a gateway of another namespace takes it.
fn why(
    gateway: &GatewayInput,
    wanted: &Takes,
    object: &ObjectKey,
    field: &str,
    consent: &str,
) -> (&'static str, String) {
    let (key, namespace) = (&gateway.plan.key, &object.namespace);
    let own = &key.namespace;
    let from = match &wanted.namespaces {
        Namespaces::Same if namespace != own => format!("namespace {own}, its own"),
        Namespaces::Names(names) if !names.contains(namespace) => format!("namespaces {}", names.join(", ")),
        Namespaces::Selector(_) => "namespaces that its selector matches".to_owned(),
        Namespaces::Same | Namespaces::Names(_) | Namespaces::All => {
            let why = format!("{key} takes {field} with other labels. Give it those of spec.{field}.selector there");
            return ("metadata.labels", why);
        }
    };
    let why = format!(
        "it is in namespace {namespace}, and {key} takes {field} from {from}. Write it in a namespace that the gateway takes \
         {field} from, or name {namespace} in its spec.{field}.namespaces, and agree in {consent}"
    );
    ("metadata.namespace", why)
}
