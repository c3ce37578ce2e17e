//! Label selectors, as in Kubernetes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A Kubernetes label selector. All of its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelSelector {
    /// Labels and the exact values that they must have.
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that compare a label with a set of values.
    pub match_expressions: Vec<LabelExpression>,
}

impl LabelSelector {
    /// Whether `labels` meet every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(k, v)| labels.get(k) == Some(v))
            && self.match_expressions.iter().all(|e| {
                let value = labels.get(&e.key);
                match e.operator {
                    LabelOperator::In => value.is_some_and(|v| e.values.contains(v)),
                    LabelOperator::NotIn => value.is_none_or(|v| !e.values.contains(v)),
                    LabelOperator::Exists => value.is_some(),
                    LabelOperator::DoesNotExist => value.is_none(),
                }
            })
    }
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelExpression {
    /// The key of the label.
    pub key: String,
    /// How the label is compared.
    pub operator: LabelOperator,
    /// The values that the label is compared with.
    pub values: Vec<String>,
}

/// The operators of label selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelOperator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}
