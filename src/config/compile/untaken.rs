//! Objects that no gateway takes, of manifests on disk. In a cluster the conditions of the objects say so, and gateways that
//! are not seen here can take them.

use super::gateway::written_takes;
use super::id;
use super::life_cycle::{PlannedKind, wants};
use super::plugins::Plugins;
use super::sections::Sections;
use super::takes::Consent;
use super::upstreams::Upstreams;
use super::world::{Chains, World};
use crate::config::input::{GatewayInput, Inputs, Labels, Takes};
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Namespaces;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns a warning for each upstream, chain and binding that none of these gateways takes, and about which `found` says nothing.
/// `gateways` are all that the manifests declare; the one that `inputs` chose is among them.
pub fn untaken(inputs: &Inputs, gateways: &[GatewayInput], found: &[Problem]) -> Vec<Problem> {
    // A gateway that is not valid takes what its last form took, and the implicit one takes everything.
    let Some(chosen) = &inputs.gateway else { return Vec::new() };
    let (takes, plugins): (Vec<_>, _) = (gateways.iter().map(written_takes).collect(), Plugins::default());
    let world = |(gateway, takes)| World { inputs, previous: None, gateway, takes: Some(takes), plugins: &plugins };
    let worlds = gateways.iter().map(|gateway| &gateway.plan).zip(&takes).map(world).collect::<Vec<_>>();
    let of_gateway = |world: &&World<'_>| world.gateway.key == chosen.plan.key;
    let Some(chosen) = worlds.iter().find(of_gateway) else { return Vec::new() };
    let upstreams = ["no gateway serves it", "spec.shareWith of the upstream"];
    let chains = ["no gateway takes it, so that what it is to guard goes unguarded", "spec.gateways of the chain"];
    let sections = ["no gateway takes it, so that it restricts nothing", "spec.gateways of the binding"];
    let warnings = [
        untaken_of::<Upstreams<'_>>(&worlds, chosen, Reason::NoGateway, upstreams),
        untaken_of::<Chains<'_>>(&worlds, chosen, Reason::NotTaken, chains),
        untaken_of::<Sections<'_>>(&worlds, chosen, Reason::NotTaken, sections),
    ];
    let is_new = |warning: &Problem| !found.iter().any(|problem| problem.object == warning.object);
    warnings.into_iter().flatten().filter(is_new).collect()
}

/// `consent` is the field in which the object's owner agrees that a gateway of another namespace takes it.
fn untaken_of<K: PlannedKind>(
    gateways: &[World<'_>],
    chosen: &World<'_>,
    reason: Reason,
    [effect, consent]: [&str; 2],
) -> Vec<Problem> {
    let untaken = K::WRITTEN(chosen.inputs)
        .iter()
        .map(K::about)
        .filter(|(key, labels, _)| !gateways.iter().any(|gateway| wants::<K>(gateway, key, Some(labels))));
    let warning = |(key, ..): (&ObjectKey, &Labels, Consent<'_>)| {
        let (field, why) = why(&chosen.gateway.key, K::WANTED(chosen.takes?), key, K::FIELD, consent);
        Some(Problem::warning(reason, id(K::KIND, key), field, format!("{effect}: {why}")))
    };
    untaken.filter_map(warning).collect()
}

/// Returns the field of the object because of which the gateway `key` does not take it, and why that is, with what to do.
fn why(key: &ObjectKey, wanted: &Takes, object: &ObjectKey, field: &str, consent: &str) -> (&'static str, String) {
    let (own, namespace) = (&key.namespace, &object.namespace);
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
