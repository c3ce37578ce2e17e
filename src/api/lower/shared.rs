//! Lowers parts that several kinds have in common.

use std::path::{Component, Path, PathBuf};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::shared::{EnvVar, FromNamespaces, NamespacesFrom, ObjectRef, Selector, SelectorOperator, ValueFrom};
use crate::api::values::Size;
use crate::config::input::{InputValue, Labels, NamedInput, Namespaces};
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{LabelExpression, LabelOperator, LabelSelector};

/// Namespace of an object whose manifest does not name one.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

pub(super) fn key(metadata: &ObjectMeta) -> ObjectKey {
    let namespace = metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    ObjectKey::new(namespace, metadata.name.as_deref().unwrap_or_default())
}

pub(super) fn labels(metadata: &ObjectMeta) -> Labels {
    metadata.labels.clone().unwrap_or_default()
}

pub(super) fn object_ref(reference: &ObjectRef, own_namespace: &str) -> ObjectKey {
    ObjectKey::new(reference.namespace.as_deref().unwrap_or(own_namespace), &reference.name)
}

pub(super) fn selector(selector: &Selector) -> LabelSelector {
    let lines = selector.match_expressions.iter().flatten().map(|line| LabelExpression {
        key: line.key.clone(),
        operator: match line.operator {
            SelectorOperator::In => LabelOperator::In,
            SelectorOperator::NotIn => LabelOperator::NotIn,
            SelectorOperator::Exists => LabelOperator::Exists,
            SelectorOperator::DoesNotExist => LabelOperator::DoesNotExist,
        },
        values: line.values.clone().unwrap_or_default(),
    });
    LabelSelector {
        match_labels: selector.match_labels.clone().unwrap_or_default(),
        match_expressions: lines.collect(),
    }
}

pub(super) fn namespaces(from: &FromNamespaces) -> Namespaces {
    match from.from {
        NamespacesFrom::Same => Namespaces::Same,
        NamespacesFrom::Names => Namespaces::Names(from.names.clone().unwrap_or_default()),
        NamespacesFrom::Selector => Namespaces::Selector(from.selector.as_ref().map(selector).unwrap_or_default()),
        NamespacesFrom::All => Namespaces::All,
    }
}

pub(super) fn size(size: Option<&Size>) -> Option<u64> {
    size.and_then(Size::value)
}

pub(super) fn env(vars: Option<&Vec<EnvVar>>, field: &str) -> Vec<NamedInput> {
    let vars = vars.into_iter().flatten().enumerate();
    vars.map(|(i, var)| named(&var.name, var.value.as_ref(), var.value_from.as_ref(), format!("{field}[{i}]")))
        .collect()
}

/// Lowers a header or variable whose value is either a literal or a reference.
pub(super) fn named(name: &str, value: Option<&String>, from: Option<&ValueFrom>, field: String) -> NamedInput {
    let referred = from.and_then(reference);
    let value = referred.unwrap_or_else(|| InputValue::Literal(value.cloned().unwrap_or_default()));
    NamedInput { name: name.to_owned(), value, field }
}

fn reference(from: &ValueFrom) -> Option<InputValue> {
    let secret = from.secret_key_ref.as_ref().map(|r| InputValue::Secret {
        name: r.name.clone(),
        key: r.key.clone(),
        optional: false,
    });
    let config_map = from.config_map_key_ref.as_ref().map(|r| InputValue::ConfigMap {
        name: r.name.clone(),
        key: r.key.clone(),
        optional: false,
    });
    secret.or(config_map).or_else(|| from.environment.clone().map(InputValue::Environment))
}

/// Resolves `path` against `folder`, and removes `.` components.
pub(super) fn below(folder: &Path, path: &str) -> PathBuf {
    folder.join(path).components().filter(|c| !matches!(c, Component::CurDir)).collect()
}

/// Resolves `program` against `folder` if it contains a `/`. Any other program stays a name, which is looked up in
/// PATH.
pub(super) fn program(folder: &Path, program: &str) -> PathBuf {
    if program.contains('/') { below(folder, program) } else { PathBuf::from(program) }
}
