//! Decides which objects a gateway takes and which objects are shared. A gateway serves an upstream of another
//! namespace only if it takes the upstream and the upstream is shared with it.

use std::collections::BTreeMap;

use crate::config::input::{Inputs, InvalidObject, Labels, Namespaces, Takes};
use crate::domain::ids::{ObjectId, ObjectKey};
use crate::domain::plan::{LabelExpression, LabelOperator, LabelSelector};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Label that contains the name of a namespace. Kubernetes sets it on every namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Whether `namespaces`, as written in an object of namespace `own`, include `namespace`.
pub(super) fn includes(namespaces: &Namespaces, own: &str, namespace: &str, inputs: &Inputs) -> bool {
    match namespaces {
        Namespaces::Same => own == namespace,
        Namespaces::Names(names) => names.iter().any(|name| name == namespace),
        Namespaces::Selector(selector) => matches_namespace(selector, namespace, inputs),
        Namespaces::All => true,
    }
}

/// Whether a gateway of namespace `own` takes an object of `namespace` with these labels.
pub(super) fn takes(takes: &Takes, own: &str, namespace: &str, labels: &Labels, inputs: &Inputs) -> bool {
    includes(&takes.namespaces, own, namespace, inputs) && takes.selector.matches(labels)
}

/// Whether `gateway` takes an object, as `taken` says, and the object is for it. An object of another namespace must name
/// the gateway. If only one side agrees, adds a warning to `problems`; `field` is the field of the gateway.
pub(super) fn by_both(
    (gateway, taken, field): (&ObjectKey, bool, &str),
    object: ObjectId,
    gateways: &[ObjectKey],
    problems: &mut Vec<Problem>,
) -> bool {
    let names_it = names(gateways, &object.key.namespace, gateway);
    if taken != names_it {
        let message = match taken {
            true => format!("{gateway} takes it, but it does not name that gateway in spec.gateways"),
            false => format!("it is for {gateway}, which does not take it ({field} of the gateway)"),
        };
        problems.push(Problem::warning(Reason::NotTaken, object, "spec.gateways", message));
    }
    taken && names_it
}

/// Whether an object of `namespace` with this list of gateways is for `gateway`.
pub(super) fn names(gateways: &[ObjectKey], namespace: &str, gateway: &ObjectKey) -> bool {
    if gateways.is_empty() { namespace == gateway.namespace } else { gateways.contains(gateway) }
}

/// Whether a gateway of namespace `own` takes an invalid object. Labels that cannot be read count as those that it wants.
pub(super) fn takes_invalid(takes: &Takes, own: &str, object: &InvalidObject, inputs: &Inputs) -> bool {
    includes(&takes.namespaces, own, &object.id.key.namespace, inputs)
        && object.labels.as_ref().is_none_or(|labels| takes.selector.matches(labels))
}

/// Whether an object of namespace `own` can be used from `namespace`.
pub(super) fn shared(share_with: Option<&Namespaces>, own: &str, namespace: &str, inputs: &Inputs) -> bool {
    own == namespace || share_with.is_some_and(|with| includes(with, own, namespace, inputs))
}

/// Whether a selector matches a namespace. Until the labels of a namespace are known, only its name is; a requirement
/// that another label is absent or does not have certain values then counts as not met.
fn matches_namespace(selector: &LabelSelector, namespace: &str, inputs: &Inputs) -> bool {
    let seen = inputs.namespaces.get(namespace);
    let asks_for_absence = |line: &LabelExpression| {
        matches!(line.operator, LabelOperator::NotIn | LabelOperator::DoesNotExist) && line.key != NAME_LABEL
    };
    if seen.is_none() && selector.match_expressions.iter().any(asks_for_absence) {
        return false;
    }
    let mut labels: BTreeMap<_, _> = seen.cloned().unwrap_or_default();
    labels.insert(NAME_LABEL.into(), namespace.into());
    selector.matches(&labels)
}
