//! Counts the output of servers that is dropped, and the messages that are not sent to servers. The values of the
//! labels are the upstreams of the plan, whose number is limited, and kinds from a fixed list.

use prometheus::{IntCounter, IntCounterVec, Opts};

use crate::telemetry::catalog::Catalog;

/// The kind of output that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dropped {
    /// A line on stdout that is not a message, or that answers no request.
    Stray,
    /// A line on stdout that is too large, or for which there is no room in the memory budget.
    Large,
    /// A line on stderr beyond the limit for the log.
    Log,
    /// Progress that is too large, or that arrives faster than its call handles it.
    Progress,
    /// A log message that is too large, that is one too many, or that is outside of a response on a connection of several
    /// clients.
    Message,
}

impl Dropped {
    const ALL: [Self; 5] = [Self::Stray, Self::Large, Self::Log, Self::Progress, Self::Message];

    fn as_str(self) -> &'static str {
        match self {
            Self::Stray => "stray",
            Self::Large => "large",
            Self::Log => "log",
            Self::Progress => "progress",
            Self::Message => "message",
        }
    }
}

/// Counters by upstream: output of servers that was dropped, and messages that were not sent to servers. Clones share
/// their values.
#[derive(Clone, Debug)]
pub struct UpstreamMetrics {
    dropped: IntCounterVec,
    unsent: IntCounterVec,
}

impl UpstreamMetrics {
    /// Creates counters that are not registered yet.
    ///
    /// # Errors
    /// Never in practice, because names and labels are constants.
    pub fn new() -> prometheus::Result<Self> {
        let help = "Lines of server processes that were dropped: stray ones on stdout, messages that are too large or find \
                    no room, log lines beyond a hundred a second, progress that its call does not take, and log messages \
                    that are too large, too many, or outside of a response on a connection that several clients use.";
        let dropped = Opts::new("hawsepipe_upstream_lines_dropped_total", help);
        let help = "Messages that a server was not sent because too many waited: cancellations, answers to what it asks, \
                    ends of sessions.";
        let unsent = Opts::new("hawsepipe_upstream_messages_unsent_total", help);
        Ok(Self {
            dropped: IntCounterVec::new(dropped, &["upstream", "kind"])?,
            unsent: IntCounterVec::new(unsent, &["upstream"])?,
        })
    }

    /// Registers the counters in `catalog`.
    ///
    /// # Errors
    /// If the catalog already has a metric of the same name.
    pub fn register(&self, catalog: &Catalog) -> prometheus::Result<()> {
        catalog.keep_series(self.dropped.clone())?;
        catalog.keep_series(self.unsent.clone())
    }

    pub(super) fn dropped(&self, upstream: &str, what: Dropped) {
        self.dropped_many(upstream, what, 1);
    }

    pub(super) fn dropped_many(&self, upstream: &str, what: Dropped, count: usize) {
        self.dropped.with_label_values(&[upstream, what.as_str()]).inc_by(count as u64);
    }

    /// The counter of messages that were not sent to this upstream.
    pub(super) fn unsent(&self, upstream: &str) -> IntCounter {
        self.unsent.with_label_values(&[upstream])
    }

    /// Removes the series of an upstream that no longer exists.
    pub(super) fn forget(&self, upstream: &str) {
        for what in Dropped::ALL {
            let _ = self.dropped.remove_label_values(&[upstream, what.as_str()]);
        }
        let _ = self.unsent.remove_label_values(&[upstream]);
    }
}
