//! Computes the status of every object from what was compiled, stored and reported. Pure functions.

mod chain;
mod conditions;
mod gateway;
mod grant;
mod input;
mod pipeline;
mod plugin;
mod section;
mod serving;
#[cfg(test)]
pub(super) mod tests;
mod upstream;

use serde_json::Value;

pub(super) use self::conditions::{Conditions, is_of_itself, warning};
pub(super) use self::input::{GatewayState, Pin, StatusInput, blind};
pub(super) use self::serving::warnings;
use super::lowered::LoweredObject;
use super::strip::strip;
use crate::controller::condition_type::ConditionType;
use crate::domain::ids::Kind;
use crate::domain::reason::Reason;

/// Returns the status of an object, without absent fields.
pub(super) fn of(input: &StatusInput, object: &LoweredObject, now: &str) -> Value {
    if let Some(why) = &input.held {
        return held(object, why, now);
    }
    let mut status = match object.id.kind {
        Kind::MCPGateway => gateway::status(input, object, now),
        Kind::MCPUpstream => upstream::status(input, object, now),
        Kind::Plugin => plugin::status(input, object, now),
        Kind::PluginChain => chain::status(input, object, now),
        Kind::ToolPipeline => pipeline::status(input, object, now),
        Kind::SectionBinding => section::status(input, object, now),
        _ => not_served(object, now),
    };
    strip(&mut status);
    status
}

/// Returns the status while nothing can be planned: the stored one, except that `Programmed` and `Ready` are unknown.
fn held(object: &LoweredObject, why: &str, now: &str) -> Value {
    let mut set = Conditions::new(object, now);
    set.unknown(ConditionType::Programmed, Reason::Pending.as_str(), &blind(why));
    let told = set.finish();
    let mut conditions = object.conditions();
    conditions.retain(|before| !told.iter().any(|told| told.r#type == before.r#type));
    conditions.extend(told);
    let mut status = object.status.as_object().cloned().unwrap_or_default();
    status.insert("conditions".into(), serde_json::to_value(conditions).unwrap_or_default());
    let mut status = Value::Object(status);
    strip(&mut status);
    status
}

/// Returns the status of a kind that is accepted but has no effect.
fn not_served(object: &LoweredObject, now: &str) -> Value {
    let mut set = Conditions::new(object, now);
    set.accepted(&[]);
    let message = "this version accepts the object and does nothing with it";
    set.bad_while_true(ConditionType::PartiallyInvalid, Reason::NotImplemented.as_str(), message);
    set.no(ConditionType::Programmed, Reason::NotImplemented.as_str(), message);
    serde_json::json!({"observedGeneration": object.generation(), "conditions": set.finish()})
}
