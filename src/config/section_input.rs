//! Bindings of sections, as inputs of the compiler.

use std::collections::BTreeMap;

use crate::domain::ids::ObjectKey;
use crate::domain::plan::SectionPlan;

/// A SectionBinding in the form that the compiler reads.
#[derive(Clone, Debug)]
pub struct SectionInput {
    /// Labels of the SectionBinding.
    pub labels: BTreeMap<String, String>,
    /// Gateways that the binding is for; empty means every gateway of its namespace.
    pub gateways: Vec<ObjectKey>,
    /// The binding, without a refusal.
    pub plan: SectionPlan,
}
