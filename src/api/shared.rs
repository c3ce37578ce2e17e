//! References, selectors and values that several kinds have in common.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::values::{DATA_KEY, DNS_LABEL, DNS_SUBDOMAIN, NO_NUL, Quantity, VARIABLE_NAME};

/// Refers to an object of the same namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

/// Refers to a key of a Secret or ConfigMap of the same namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Name of the Secret or ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
    /// Key in the data of the Secret or ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = DATA_KEY))]
    pub key: String,
}

/// Refers to an object by name and namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Namespace of the object. Default: the namespace of the object that contains this reference.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,
}

/// A set of namespaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.names) == (self.from == 'Names')"
).message(
    "namespaces: `names` goes with `from: Names`, and only with it"
))]
#[x_kube(validation = Rule::new(
    "has(self.selector) == (self.from == 'Selector')"
).message(
    "namespaces: `selector` goes with `from: Selector`, and only with it"
))]
pub struct FromNamespaces {
    /// Which namespaces are in the set: `Same` is the namespace of the object itself, `Names` are the namespaces in
    /// `names`, `Selector` are the namespaces whose labels match `selector`, and `All` is every namespace.
    pub from: NamespacesFrom,
    /// Names of the namespaces; set only if `from` is `Names`.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 63), regex(pattern = DNS_LABEL)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub names: Option<Vec<String>>,
    /// Selects namespaces by their labels; set only if `from` is `Selector`.
    pub selector: Option<Selector>,
}

/// Which namespaces are in the set: `Same` is the namespace of the object itself, `Names` are the namespaces in
/// `names`, `Selector` are the namespaces whose labels match `selector`, and `All` is every namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacesFrom {
    /// The namespace of the object itself.
    Same,
    /// The namespaces in `names`.
    Names,
    /// The namespaces whose labels match `selector`.
    Selector,
    /// Every namespace.
    All,
}

/// A label selector. All of its requirements must hold; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Required labels, each with the value that it must have. Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Further requirements on labels. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Option<Vec<SelectorLine>>,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectorLine {
    /// Key of the label.
    #[schemars(length(min = 1, max = 316))]
    pub key: String,
    /// How the label is tested: `In` and `NotIn` compare the label's value with `values`; `Exists` and `DoesNotExist`
    /// test only whether the label is present, and ignore `values`.
    pub operator: SelectorOperator,
    /// Values for `In` and `NotIn`. Default: none.
    #[schemars(length(max = 64), inner(length(max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub values: Option<Vec<String>>,
}

/// How a label is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// Permits other namespaces to use the object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareWith {
    /// Namespaces that can use the object.
    pub namespaces: FromNamespaces,
}

/// An environment variable. Exactly one of `value`, `valueFrom` must be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.value) != has(self.valueFrom)"
).message(
    "give exactly one of value, valueFrom"
))]
pub struct EnvVar {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 128), regex(pattern = VARIABLE_NAME))]
    pub name: String,
    /// Value of the variable.
    #[schemars(length(max = 4096), regex(pattern = NO_NUL))]
    pub value: Option<String>,
    /// Source of the value; set only if `value` is not set.
    pub value_from: Option<ValueFrom>,
}

/// Source of a value: exactly one of `secretKeyRef`, `configMapKeyRef`, `environment`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct ValueFrom {
    /// Key of a Secret in the same namespace.
    pub secret_key_ref: Option<KeyRef>,
    /// Key of a ConfigMap in the same namespace.
    pub config_map_key_ref: Option<KeyRef>,
    /// Name of a variable in the gateway's own environment, or a text that refers to some: `Bearer ${NAME}`,
    /// `${NAME:-default}`. Only outside of a cluster; a pod's variables are not read.
    #[schemars(length(min = 1, max = 4096))]
    pub environment: Option<String>,
}

/// When the image is pulled: `Always`, `IfNotPresent` or `Never`. Default: the cluster's default for the image's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// Whenever a container starts.
    Always,
    /// Only if the node does not have the image.
    IfNotPresent,
    /// Never; the node must have the image.
    Never,
}

/// Resource requests and limits of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Quantities to request, by the name of the resource. Default: none.
    #[schemars(extend("maxProperties" = 8))]
    pub requests: Option<BTreeMap<String, Quantity>>,
    /// Maximum quantities, by the name of the resource. Default: none.
    #[schemars(extend("maxProperties" = 8))]
    pub limits: Option<BTreeMap<String, Quantity>>,
}
