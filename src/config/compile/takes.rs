//! Decides which objects a gateway takes and which objects are shared. A gateway serves an upstream of another
//! namespace only if it takes the upstream and the upstream is shared with it.

use std::collections::BTreeMap;

use crate::config::input::{Inputs, Labels, Namespaces, Takes};
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{LabelExpression, LabelOperator, LabelSelector};

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

/// Whether a gateway of namespace `own` takes an object of `namespace` with these labels. Labels that are not known count as those
/// that it wants.
pub(super) fn takes(takes: &Takes, own: &str, namespace: &str, labels: Option<&Labels>, inputs: &Inputs) -> bool {
    includes(&takes.namespaces, own, namespace, inputs) && labels.is_none_or(|labels| takes.selector.matches(labels))
}

/// To which gateways the owner of an object gives it.
pub(super) enum Consent<'a> {
    /// `spec.gateways`: these; empty means those of its namespace.
    Gateways(&'a [ObjectKey]),
    /// `spec.shareWith`: those of its namespace and of these.
    ShareWith(Option<&'a Namespaces>),
}

impl Consent<'_> {
    /// Whether an object of `namespace` is for `gateway`.
    pub(super) fn includes(&self, namespace: &str, gateway: &ObjectKey, inputs: &Inputs) -> bool {
        match self {
            Self::Gateways([]) => namespace == gateway.namespace,
            Self::Gateways(gateways) => gateways.contains(gateway),
            Self::ShareWith(with) => shared(*with, namespace, &gateway.namespace, inputs),
        }
    }
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
