//! The operator: custom resources in; what gateways run, and what is true of it, in status, out.
//!
//! Seen ([`watches`]) -> lowered ([`lowered`]) -> what it refers to read ([`dereference`]) -> compiled ([`compiled`])
//! -> built ([`build`]) -> applied ([`apply`]): a round of [`planning_loop`]. Reported by pods ([`pod_poller`], [`pods`])
//! -> told in status ([`status`]): a round of [`status_loop`]. Whatever is written goes through [`writer`] (the
//! leader's Lease apart), which writes while this process leads and never otherwise.

mod apply;
mod backoff;
mod build;
mod cache_sync;
mod compiled;
mod condition_type;
mod dereference;
mod desired;
mod doubling;
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
mod metrics;
mod namespaces;
mod operator;
mod owned;
mod owner;
mod parsing;
mod planned_gateway;
mod planning_loop;
mod planning_state;
mod pod;
mod pod_poller;
mod pods;
mod polled_pod;
mod reconcile;
mod references;
mod rights;
mod seen_marks;
mod servers;
mod status;
mod status_loop;
mod watch;
mod watches;
mod writer;

pub use self::lease::LeaseSettings;
pub use self::liveness::Liveness;
pub use self::metrics::ControllerMetrics;
pub use self::operator::{OperatorHealth, Settings, run};

use crate::api::snapshot::{GATEWAY_LABEL, PART_LABEL};

/// The one field manager of everything that is written (Kubernetes, server-side apply).
const FIELD_MANAGER: &str = "hawsepipe";
/// On everything that is ours.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "hawsepipe");
