//! Label selectors, as Kubernetes has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A Kubernetes label selector, all of whose lines must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelSelector {
    /// Exact values.
    pub match_labels: BTreeMap<String, String>,
    /// Sets.
    pub match_expressions: Vec<LabelExpression>,
}

impl LabelSelector {
    /// Whether `labels` satisfy every line.
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

/// One line of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelExpression {
    /// The label.
    pub key: String,
    /// How it is compared.
    pub operator: LabelOperator,
    /// With what.
    pub values: Vec<String>,
}

/// The operators of label selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LabelOperator {
    /// Has one of the values.
    In,
    /// Has none of them, or is absent.
    NotIn,
    /// Is there.
    Exists,
    /// Is absent.
    DoesNotExist,
}
