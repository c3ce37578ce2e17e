//! What the row of an end in the audit trail names, and the call itself does not.

use crate::domain::plan::RulePlan;

/// Who ended a call before it was sent. In a box, because few ends have one.
#[derive(Default)]
pub(crate) struct Cause {
    /// The rule of the gateway that denied the call.
    pub(in crate::engine) rule: Option<String>,
    /// The upstream that the call names, if it was not routed to one.
    pub(in crate::engine) upstream: Option<String>,
}

impl Cause {
    pub(in crate::engine) fn rule(rule: &RulePlan) -> Option<Box<Self>> {
        Some(Box::new(Self { rule: Some(rule.name.clone()), upstream: None }))
    }

    pub(in crate::engine) fn upstream(name: &str) -> Option<Box<Self>> {
        Some(Box::new(Self { rule: None, upstream: Some(name.to_owned()) }))
    }
}
