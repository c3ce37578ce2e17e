//! The operator: reads custom resources, and writes the snapshots that gateways run and the statuses that describe
//! them.
//!
//! A round of [`planning_loop`] takes objects from the watches ([`watches`]), lowers them ([`lowered`]), resolves their
//! references ([`dereference`]), compiles plans ([`compiled`]), packs them ([`build`]) and writes them ([`apply`]). A
//! round of [`status_loop`] computes statuses ([`status`]) from the result and from what pods report ([`pod_poller`],
//! [`pods`]). Every write except that of the leader's Lease goes through [`writer`], which writes only while this
//! process leads.

mod apply;
mod backoff;
mod build;
mod cache_sync;
mod changes;
mod compared;
mod compiled;
mod condition_type;
mod dereference;
mod desired;
mod doubling;
mod dropped;
mod events;
mod ever_seen;
mod gateway_reconciler;
mod gateway_tokens;
mod index;
mod kinds;
mod lease;
mod liveness;
mod load_reports;
mod lowered;
mod managed;
mod managed_loop;
mod managed_reconciler;
mod managed_state;
mod manager_conflicts;
mod manifest;
mod metrics;
mod named_namespaces;
mod namespaces;
mod operator;
mod optional_kind;
mod own_account;
mod owned;
mod owner;
mod parsing;
mod planned_gateway;
mod planning_loop;
mod planning_state;
mod pod;
mod pod_health;
mod pod_parts;
mod pod_poller;
mod pods;
mod polled_pod;
mod reconcile;
mod references;
mod rights;
mod roles;
mod rollout;
mod scale;
mod seal_secret;
mod seen_marks;
mod server_objects;
mod servers;
mod status;
mod status_loop;
mod strip;
mod watch;
mod watches;
mod workload;
mod writer;

pub use self::lease::LeaseSettings;
pub use self::metrics::ControllerMetrics;
pub use self::operator::{OperatorHealth, Settings, run};
pub use self::roles::{rights_table, role_files};
pub use self::workload::{ImagePullPolicy, PodSettings};

use crate::api::snapshot::{GATEWAY_LABEL, PART_LABEL};

/// The field manager of every write (Kubernetes, server-side apply).
const FIELD_MANAGER: &str = "hawsepipe";
/// The label on every object that this operator creates.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "hawsepipe");
