//! What is true of every object, from what was compiled, stored and reported. Pure.

mod chain;
mod conditions;
mod gateway;
mod grant;
mod plugin;
mod serving;
#[cfg(test)]
pub(super) mod tests;
mod upstream;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub(super) use self::conditions::{Set, warning};
pub(super) use self::serving::warnings;
use super::compiled::{Compiled, Digests, Planned};
use super::lowered::Read;
use super::pods::ByGateway;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::Plan;
use crate::domain::reason::Reason;

/// Everything that statuses follow from.
#[derive(Default)]
pub(super) struct Truth {
    pub(super) compiled: Arc<Compiled>,
    pub(super) gateways: BTreeMap<ObjectKey, GatewayState>,
    pub(super) pods: ByGateway,
    /// What cannot be watched now.
    pub(super) blind: Vec<String>,
    /// Gateways that wait because what is stored for them cannot be read, and why.
    pub(super) unread: BTreeMap<ObjectKey, String>,
    /// Why nothing could be planned, if so.
    pub(super) held: Option<String>,
    /// Why no pod was ever seen, if so.
    pub(super) no_pods: Option<String>,
    /// Kinds whose status may not be written, and what was said.
    pub(super) refused: BTreeMap<&'static str, String>,
}

/// What `Programmed` says where something is not seen.
pub(super) fn blind(why: &str) -> String {
    format!("the operator does not see everything: {why}")
}

/// What `spec.pinnedRevision` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pin {
    /// Nothing: it is absent, or names the newest revision.
    None,
    /// Pods run an older revision.
    Kept,
    /// It names this one, which is not kept: what ran runs on.
    Lost(String),
}

/// A gateway as it is stored.
#[derive(Clone)]
pub(super) struct GatewayState {
    pub(super) planned: Arc<Planned>,
    /// The plan of the revision that pods are to run, with what counts at once; the newest before the first is stored.
    pub(super) in_force: Arc<Plan>,
    /// The revision that pods are to run; none before the first.
    pub(super) current: Option<String>,
    /// Digest of what counts at once.
    pub(super) acts: String,
    /// What `spec.pinnedRevision` does.
    pub(super) pin: Pin,
    /// Digests of each kept revision's objects.
    pub(super) revisions: BTreeMap<String, Arc<Digests>>,
    /// Why its objects are not as they are to be.
    pub(super) fault: Option<(Reason, String)>,
}

/// The status of an object, without absent fields.
pub(super) fn of(truth: &Truth, object: &Read, now: &str) -> Value {
    if let Some(why) = &truth.held {
        return held(object, why, now);
    }
    let mut status = match object.id.kind {
        Kind::MCPGateway => gateway::status(truth, object, now),
        Kind::MCPUpstream => upstream::status(truth, object, now),
        Kind::Plugin => plugin::status(truth, object, now),
        Kind::PluginChain => chain::status(truth, object, now),
        _ => not_served(object, now),
    };
    strip(&mut status);
    status
}

/// What was said before stands, and nothing is known of what runs.
fn held(object: &Read, why: &str, now: &str) -> Value {
    let mut set = Set::new(object, now);
    set.unknown("Programmed", Reason::Pending.as_str(), &blind(why));
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

/// The status of a kind that is accepted and not served.
fn not_served(object: &Read, now: &str) -> Value {
    let mut set = Set::new(object, now);
    set.accepted(&[]);
    let message = "this version accepts the object and does nothing with it";
    set.bad_while_true("PartiallyInvalid", Reason::NotImplemented.as_str(), message);
    set.no("Programmed", Reason::NotImplemented.as_str(), message);
    serde_json::json!({"observedGeneration": object.generation(), "conditions": set.finish()})
}

/// Takes out what is absent, and empty lists: nobody owns one (Kubernetes, server-side apply), so it would never be seen
/// as written, and be written again and again.
fn strip(value: &mut Value) {
    let is_empty = |member: &Value| member.is_null() || member.as_array().is_some_and(Vec::is_empty);
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !is_empty(member));
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
