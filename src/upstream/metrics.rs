//! What is counted of what server processes write and nobody reads, and of what servers are not told. Labels are
//! upstreams, which the plan bounds, and a closed list.

use prometheus::{IntCounter, IntCounterVec, Opts};

use crate::telemetry::catalog::Catalog;

/// What was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    /// A line on stdout that is not a message.
    Stray,
    /// A message that is too large.
    Large,
    /// A line on stderr beyond those that are logged.
    Log,
    /// Progress that is too large, or for a call that has not taken what came before.
    Progress,
}

impl Dropped {
    const ALL: [Self; 4] = [Self::Stray, Self::Large, Self::Log, Self::Progress];

    fn as_str(self) -> &'static str {
        match self {
            Self::Stray => "stray",
            Self::Large => "large",
            Self::Log => "log",
            Self::Progress => "progress",
        }
    }
}

/// Counters of server processes. Clones count together.
#[derive(Clone, Debug)]
pub struct UpstreamMetrics {
    dropped: IntCounterVec,
    unsent: IntCounterVec,
}

impl UpstreamMetrics {
    /// Counters that are not registered anywhere yet.
    ///
    /// # Errors
    /// Never in practice: names and labels are constants.
    pub fn new() -> prometheus::Result<Self> {
        let help = "Lines of server processes that were dropped: stray ones on stdout, messages that are too large or find \
                    no room, log lines beyond a hundred a second, and progress that its call does not take.";
        let dropped = Opts::new("hawsepipe_upstream_lines_dropped_total", help);
        let help = "Messages that a server was not sent because too many waited: cancellations, answers to what it asks, \
                    ends of sessions.";
        let unsent = Opts::new("hawsepipe_upstream_messages_unsent_total", help);
        Ok(Self {
            dropped: IntCounterVec::new(dropped, &["upstream", "kind"])?,
            unsent: IntCounterVec::new(unsent, &["upstream"])?,
        })
    }

    /// Makes them part of `catalog`.
    ///
    /// # Errors
    /// Where a metric of the same name is there already.
    pub fn register(&self, catalog: &Catalog) -> prometheus::Result<()> {
        catalog.keep_series(self.dropped.clone())?;
        catalog.keep_series(self.unsent.clone())
    }

    /// A line was dropped.
    pub(super) fn dropped(&self, upstream: &str, what: Dropped) {
        self.dropped.with_label_values(&[upstream, what.as_str()]).inc();
    }

    /// The counter of messages that were not sent to it.
    pub(super) fn unsent(&self, upstream: &str) -> IntCounter {
        self.unsent.with_label_values(&[upstream])
    }

    /// The upstream is gone.
    pub(super) fn forget(&self, upstream: &str) {
        for what in Dropped::ALL {
            let _ = self.dropped.remove_label_values(&[upstream, what.as_str()]);
        }
        let _ = self.unsent.remove_label_values(&[upstream]);
    }
}
