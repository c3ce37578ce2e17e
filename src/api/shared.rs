//! References, selectors and values that several kinds have in common.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::values::{DNS_LABEL, Quantity};

/// An object of the same namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A key of a Secret or ConfigMap of the same namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// The object's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key in it.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// An object by name and namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Its namespace. Default: that of the object it is named in.
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
    /// `Same` is the object's own, `Names` those listed, `Selector` those with these labels, `All` every one.
    pub from: NamespacesFrom,
    /// With `from: Names`.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 63), regex(pattern = DNS_LABEL)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub names: Option<Vec<String>>,
    /// With `from: Selector`: labels of the namespaces.
    pub selector: Option<Selector>,
}

/// How a set of namespaces is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacesFrom {
    /// The object's own.
    Same,
    /// Those listed.
    Names,
    /// Those with these labels.
    Selector,
    /// Every one.
    All,
}

/// A label selector, all of whose lines must hold. Empty is all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Exact values. Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Sets. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Option<Vec<SelectorLine>>,
}

/// One line of a label selector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectorLine {
    /// The label.
    #[schemars(length(min = 1, max = 316))]
    pub key: String,
    /// `In` and `NotIn` compare with `values`, `Exists` and `DoesNotExist` take none.
    pub operator: SelectorOperator,
    /// With `In` and `NotIn`. Default: none.
    #[schemars(length(max = 64), inner(length(max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub values: Option<Vec<String>>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    /// It has one of the values.
    In,
    /// It has none of them, or is absent.
    NotIn,
    /// It is there.
    Exists,
    /// It is absent.
    DoesNotExist,
}

/// Who may use it from another namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareWith {
    /// Namespaces of those who may.
    pub namespaces: FromNamespaces,
}

/// A variable: exactly one of `value`, `valueFrom`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.value) != has(self.valueFrom)"
).message(
    "give exactly one of value, valueFrom"
))]
pub struct EnvVar {
    /// Its name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Its value.
    #[schemars(length(max = 4096))]
    pub value: Option<String>,
    /// Where its value comes from.
    pub value_from: Option<ValueFrom>,
}

/// Where a value comes from: exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct ValueFrom {
    /// A key of a Secret.
    pub secret_key_ref: Option<KeyRef>,
    /// A key of a ConfigMap.
    pub config_map_key_ref: Option<KeyRef>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// At each start.
    Always,
    /// Where the node lacks it.
    IfNotPresent,
    /// Not at all.
    Never,
}

/// Requests and limits of a container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// Quantities by resource. Default: none.
    #[schemars(extend("maxProperties" = 8))]
    pub requests: Option<BTreeMap<String, Quantity>>,
    /// Quantities by resource. Default: none.
    #[schemars(extend("maxProperties" = 8))]
    pub limits: Option<BTreeMap<String, Quantity>>,
}
