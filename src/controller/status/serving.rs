//! Which gateways take an object, and whether their pods run it.

use super::conditions::Set;
use super::{GatewayState, Truth};
use crate::api::status::TakenBy;
use crate::controller::pods::Pods;
use crate::domain::ids::{ObjectId, ObjectKey};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::report::SecretState;

/// The most gateways that a status lists.
const MAX_GATEWAYS: usize = 16;

/// A gateway that takes the object.
pub(super) struct Serving<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) state: &'a GatewayState,
    pub(super) pods: Option<&'a Pods>,
    /// What the object is in its plan.
    pub(super) digest: &'a str,
    /// Whether every ready pod runs that; false where no pod is ready.
    pub(super) live: bool,
}

/// The gateways that take `id`, in order of their names.
pub(super) fn serving<'a>(truth: &'a Truth, id: &ObjectId) -> Vec<Serving<'a>> {
    let taking = truth.gateways.iter().filter_map(|(key, state)| {
        let digest = state.planned.digests.get(id)?;
        let pods = truth.pods.get(key);
        Some(Serving { key, state, pods, digest, live: pods.is_some_and(|pods| runs(state, pods, id, digest)) })
    });
    taking.collect()
}

/// Whether every ready pod runs an object in this form, and there is one.
fn runs(state: &GatewayState, pods: &Pods, id: &ObjectId, digest: &str) -> bool {
    let runs_it = |revision: &String| {
        state.revisions.get(revision).and_then(|digests| digests.get(id)).is_some_and(|found| found == digest)
    };
    !pods.ready.is_empty()
        && pods.ready.values().all(|report| report.as_ref().is_ok_and(|r| runs_it(&r.report.revision)))
}

/// Problems with the object: what the gateways found that take it, which know what ran before; else what it has whoever
/// would take it.
pub(super) fn problems(truth: &Truth, serving: &[Serving<'_>], id: &ObjectId) -> Vec<Problem> {
    if serving.is_empty() {
        return truth.compiled.own.get(id).cloned().unwrap_or_default();
    }
    let found = serving.iter().filter_map(|s| s.state.planned.problems.get(id)).flatten();
    found.cloned().collect()
}

/// The `live` column. Where an older form is `kept`, none runs the one that was applied.
pub(super) fn live(serving: &[Serving<'_>], kept: bool) -> String {
    format!("{}/{}", serving.iter().filter(|s| s.live && !kept).count(), serving.len())
}

/// The `gateways` list.
pub(super) fn gateways(serving: &[Serving<'_>]) -> Vec<TakenBy> {
    let taken = serving.iter().take(MAX_GATEWAYS).map(|s| TakenBy {
        namespace: s.key.namespace.clone(),
        name: s.key.name.clone(),
        revision: Some(s.digest.to_owned()),
        programmed: Some(s.live),
        served_as: None,
    });
    taken.collect()
}

/// `Programmed`. `kept` says that what runs is an older form. `absent` is the reason and message where no gateway takes
/// it; none where that is good.
pub(super) fn programmed(set: &mut Set, truth: &Truth, serving: &[Serving<'_>], kept: bool, absent: (Reason, &str)) {
    if let Some(why) = &truth.no_pods {
        return set.unknown("Programmed", Reason::Pending.as_str(), &super::blind(why));
    }
    if serving.is_empty() {
        return set.no("Programmed", absent.0.as_str(), absent.1);
    }
    let behind = serving.iter().find(|s| !s.live);
    match behind {
        Some(behind) => {
            let (reason, message) = why_behind(behind);
            set.no("Programmed", reason.as_str(), &message);
        }
        None if kept => {
            let message = "the last accepted form runs on; see Accepted and ResolvedRefs";
            set.no("Programmed", Reason::PreviousRevision.as_str(), message);
        }
        None => set.yes("Programmed", "Programmed", ""),
    }
}

fn why_behind(behind: &Serving<'_>) -> (Reason, String) {
    if let Some((reason, message)) = &behind.state.fault {
        return (*reason, message.clone());
    }
    if behind.state.pinned {
        return (Reason::Pinned, format!("{} is pinned to another revision", behind.key));
    }
    match behind.pods.map(|pods| pods.ready.len()) {
        None | Some(0) => (Reason::Pending, format!("{} has no ready pod", behind.key)),
        Some(_) => (Reason::Pending, format!("not every ready pod of {} runs it yet", behind.key)),
    }
}

/// What pods say of the Secrets that an object names: the worst of it. `named` are its keys.
pub(super) fn secrets(serving: &[Serving<'_>], named: &[(ObjectKey, String)]) -> Option<(ObjectKey, SecretState)> {
    let reports = serving.iter().filter_map(|s| s.pods).flat_map(Pods::reports).flat_map(|report| &report.secrets);
    let of_it = reports.filter(|secret| {
        named
            .iter()
            .any(|(named, key)| named.namespace == secret.namespace && named.name == secret.name && *key == secret.key)
    });
    let worst = of_it.max_by_key(|secret| secret.state)?;
    Some((ObjectKey::new(&worst.namespace, &worst.name), worst.state))
}
