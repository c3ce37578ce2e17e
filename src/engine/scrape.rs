//! The text of all metrics; what says how things are is asked for when it is read.

use super::link::LinkedChain;
use super::{Engine, Ports};
use crate::domain::plugin::{FailurePolicy, Role};
use crate::domain::ports::RunPlugin;
use crate::telemetry::metrics::Moment;

impl<P: Ports> Engine<P> {
    /// All metrics in the text format of Prometheus.
    pub fn render_metrics(&self) -> String {
        let snapshot = self.snapshot();
        let chains = &snapshot.linked.chains;
        let refusing = chains.iter().filter_map(|chain| Some((&*chain.name, self.refusing(chain)?.as_str())));
        let weakened = chains.iter().filter(|chain| is_weakened(chain)).map(|chain| (&*chain.name, "GuardWeakened"));
        self.metrics.render(&Moment {
            load: self.plugins.load(),
            workers: self.plugins.workers(),
            refusing: refusing.collect(),
            failing_open: weakened.collect(),
        })
    }
}

/// Whether a call may pass although a Guard of the chain failed.
fn is_weakened(chain: &LinkedChain) -> bool {
    let mut guards = chain.entries.iter().filter(|entry| entry.enforces() && entry.rules.role == Role::Guard);
    guards.any(|entry| entry.rules.policy != FailurePolicy::Fail)
}
