//! Decides when an upstream is probed again, and when it is taken out of routing (document 003, ServerHealthStatus).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::plan::HealthPlan;

/// The connection state of an upstream, as defined in document 003.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum ConnectionState {
    /// Not connected: not tried yet, disabled, or the connection has ended.
    #[default]
    Disconnected,
    /// A connection attempt is in progress.
    Connecting,
    /// The last probe succeeded.
    Connected,
    /// The last probe, or the request for the tool list after it, failed.
    Error,
}

impl ConnectionState {
    /// Every state, for metrics.
    pub const ALL: [Self; 4] = [Self::Disconnected, Self::Connecting, Self::Connected, Self::Error];

    /// Returns the state as a metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "Disconnected",
            Self::Connecting => "Connecting",
            Self::Connected => "Connected",
            Self::Error => "Error",
        }
    }
}

/// The health of one upstream, as this process sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The connection state.
    pub state: ConnectionState,
    /// Number of failures since the last success: probes, and requests for the tool list.
    pub failures: u32,
    /// When the upstream was taken out of routing, in the clock's monotonic time; `None` while it is in routing.
    pub auto_disabled: Option<Duration>,
    /// When the upstream was last found to be reachable, in the clock's monotonic time; `None` before the first
    /// success.
    pub last_success: Option<Duration>,
    /// The message of the last failure; `None` after a success.
    pub last_error: Option<String>,
}

/// The longest wait between probes of an upstream that was taken out of routing.
const MAX_RECOVERY_WAIT: Duration = Duration::from_secs(300);

impl Health {
    /// Records that the upstream was found to be reachable at `now`. Returns the wait until the next probe.
    pub fn succeeded(&mut self, plan: &HealthPlan, now: Duration) -> Duration {
        *self = Self { state: ConnectionState::Connected, last_success: Some(now), ..Self::default() };
        Duration::from_secs(u64::from(plan.period_seconds))
    }

    /// Records that a probe or a request for the tool list failed at `now`. Returns the wait until the next probe, or
    /// `None` if the upstream must not be probed again. `jitter`, from 0 to 1, lengthens the wait by up to a tenth.
    pub fn failed(&mut self, plan: &HealthPlan, now: Duration, error: String, jitter: f64) -> Option<Duration> {
        self.state = ConnectionState::Error;
        self.failures = self.failures.saturating_add(1);
        self.last_error = Some(error);
        let retries = plan.retry_backoff_ms.len();
        let failed_retries = self.failures as usize - 1;
        let wait = match plan.retry_backoff_ms.get(failed_retries) {
            Some(ms) => Duration::from_millis(u64::from(*ms)),
            None => {
                self.auto_disabled.get_or_insert(now);
                if !plan.auto_recover {
                    return None;
                }
                let last = plan.retry_backoff_ms.last().copied().unwrap_or(1000).max(1);
                let doublings = u32::try_from(failed_retries - retries + 1).unwrap_or(u32::MAX).min(16);
                Duration::from_millis(u64::from(last) << doublings).min(MAX_RECOVERY_WAIT)
            }
        };
        Some(wait.mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 10.0))
    }

    /// Whether calls can be routed to the upstream. True also for an upstream that was never reached, because a call
    /// opens the connection.
    pub fn in_routing(&self) -> bool {
        self.auto_disabled.is_none()
    }
}

/// Connections of one upstream that ended by themselves soon after they were made, one after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortConnections {
    /// When the last connection was made, in the clock's monotonic time; `None` once it has ended.
    made_at: Option<Duration>,
    /// How many in a row did not last.
    count: u32,
}

impl ShortConnections {
    /// How long a connection lasts that counts as a good one.
    pub const LASTS: Duration = Duration::from_secs(60);
    /// The longest wait before the next connection.
    const MAX_WAIT: Duration = Duration::from_secs(60);
    /// How many are a fault of the server that its owner is told of.
    pub const FAULT: u32 = 3;

    /// Records that a connection was made at `now`.
    pub fn made(&mut self, now: Duration) {
        self.made_at = Some(now);
    }

    /// Records that the connection still answers at `now`. Returns whether that ends a fault.
    pub fn lasts(&mut self, now: Duration) -> bool {
        let lasts = self.made_at.is_some_and(|made_at| now.saturating_sub(made_at) >= Self::LASTS);
        lasts && std::mem::take(&mut self.count) >= Self::FAULT
    }

    /// Records that the connection ended at `now`. Returns how many in a row did not last. One that is not known was made
    /// by a call, after the last one ended, and ended before a probe found it.
    pub fn ended(&mut self, now: Duration) -> u32 {
        let is_short = self.made_at.take().is_none_or(|made_at| now.saturating_sub(made_at) < Self::LASTS);
        self.count = if is_short { self.count.saturating_add(1) } else { 0 };
        self.count
    }

    /// Returns how long to wait before the next connection is made without a call that needs it: nothing after the first
    /// one that did not last, then twice as long each time.
    pub fn wait(&self) -> Duration {
        match self.count {
            0 | 1 => Duration::ZERO,
            count => Duration::from_secs(1 << (count - 1).min(6)).min(Self::MAX_WAIT),
        }
    }

    /// Returns what is wrong; `None` if connections last, or too few did not.
    pub fn fault(&self) -> Option<String> {
        (self.count >= Self::FAULT).then(|| {
            let lasts = Self::LASTS.as_secs();
            format!(
                "its connection keeps ending by itself within {lasts} s of being made: the server, or a proxy before it, \
                 closes it. It is made again at growing intervals, up to {} s, and at once for a call",
                Self::MAX_WAIT.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(auto_recover: bool) -> HealthPlan {
        HealthPlan { period_seconds: 30, timeout_ms: 5000, retry_backoff_ms: vec![1000, 5000, 15000], auto_recover }
    }

    fn waits(auto_recover: bool, failures: usize) -> (Vec<Option<u64>>, Health) {
        let mut health = Health::default();
        let plan = plan(auto_recover);
        let waits = (0..failures)
            .map(|n| {
                let now = Duration::from_secs(n as u64);
                health.failed(&plan, now, "x".into(), 0.0).map(|d| u64::try_from(d.as_millis()).unwrap())
            })
            .collect();
        (waits, health)
    }

    #[test]
    fn the_failure_of_the_last_retry_takes_it_out() {
        let (seen, health) = waits(false, 3);
        assert_eq!(seen, [Some(1000), Some(5000), Some(15000)]);
        assert!(health.in_routing());
        let (seen, health) = waits(false, 4);
        assert_eq!(seen[3], None);
        assert_eq!(health.auto_disabled, Some(Duration::from_secs(3)));
    }

    #[test]
    fn recovery_is_tried_at_growing_intervals_up_to_five_minutes() {
        let (seen, health) = waits(true, 10);
        assert_eq!(seen[3..7], [Some(30_000), Some(60_000), Some(120_000), Some(240_000)]);
        assert_eq!(seen[9], Some(300_000));
        assert!(!health.in_routing());
    }

    #[test]
    fn a_success_resets_the_count() {
        let (_, mut health) = waits(true, 10);
        assert_eq!(health.succeeded(&plan(true), Duration::from_secs(99)), Duration::from_secs(30));
        assert!(health.in_routing());
        assert_eq!((health.failures, health.state), (0, ConnectionState::Connected));
    }

    #[test]
    fn the_label_of_a_state_is_its_word_in_reports() {
        for state in ConnectionState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn connections_that_do_not_last_are_made_again_at_growing_intervals() {
        let (mut connections, mut now) = (ShortConnections::default(), Duration::ZERO);
        let waits: Vec<_> = (0..9)
            .map(|_| {
                connections.made(now);
                now += Duration::from_secs(1);
                connections.ended(now);
                connections.wait().as_secs()
            })
            .collect();
        assert_eq!(waits, [0, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(connections.ended(now), 10, "one that a call made");
        connections.made(now);
        assert!(!connections.lasts(now + Duration::from_secs(59)) && connections.fault().is_some());
        assert!(connections.lasts(now + ShortConnections::LASTS) && connections.fault().is_none());
        assert_eq!((connections.ended(now + ShortConnections::LASTS), connections.wait()), (0, Duration::ZERO));
    }
}
