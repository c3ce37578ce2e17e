//! Metrics of authentication and authorization. Listeners and rules are those of plans; the other labels have a fixed set of
//! values.

use prometheus::IntCounterVec;

use crate::telemetry::catalog::Catalog;

/// Counts results of authentication, and decisions of rules.
pub struct AccessMetrics {
    authentications: IntCounterVec,
    authorizations: IntCounterVec,
}

impl AccessMetrics {
    pub(super) fn new(m: &Catalog) -> prometheus::Result<Self> {
        Ok(Self {
            authentications: m.counter(
                "hawsepipe_authentications_total",
                "Requests whose credentials were checked, by the result",
                &["listener", "method", "outcome", "reason"],
            )?,
            authorizations: m.counter(
                "hawsepipe_authorizations_total",
                "Calls that rules decided about, before and after the request chains; rule is empty if none applied",
                &["stage", "effect", "rule"],
            )?,
        })
    }

    /// Counts a request whose identity was proved by `method`.
    pub fn accepted(&self, listener: &str, method: &str) {
        self.authentications.with_label_values(&[listener, method, "accepted", ""]).inc();
    }

    /// Counts a request that was refused for its credentials.
    pub fn refused(&self, listener: &str, reason: &str) {
        self.authentications.with_label_values(&[listener, "", "refused", reason]).inc();
    }

    /// Counts a decision about a call. `rule` is empty if no rule applied.
    pub fn decided(&self, stage: &str, effect: &str, rule: &str) {
        self.authorizations.with_label_values(&[stage, effect, rule]).inc();
    }
}
