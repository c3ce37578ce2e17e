//! The gate that each request passes: the switches that stop the gateway, the shutdown, and the limits on calls in flight.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;

use super::refusals::Refusals;
use super::run_places::RunPlaces;
use super::session::Session;
use super::sessions::SessionTable;
use crate::domain::limits::Tracker;
use crate::domain::log_level::LogLevel;
use crate::domain::ports::Clock;
use crate::domain::rpc::RpcError;
use crate::domain::version::Era;
use crate::engine::catalogue::Catalogues;
use crate::engine::in_flight::InFlight;
use crate::engine::plan::in_force::InForce;
use crate::engine::request::{CallRequest, Caller};
use crate::telemetry::metrics::Metrics;

/// The state that decides which requests are accepted, and the sessions of their clients.
pub struct Gate {
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) catalogues: Arc<Catalogues>,
    pub(in crate::engine) metrics: Arc<Metrics>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    /// The calls in flight, and those that ended last.
    pub in_flight: InFlight,
    /// Sessions of clients of the legacy era.
    pub(in crate::engine) sessions: SessionTable,
    /// The credentials that were refused.
    pub(in crate::engine) refusals: Refusals,
    /// Counts the calls of this process.
    pub(in crate::engine) calls: Arc<Tracker>,
    /// Counts the executions in the background.
    pub(in crate::engine) background: Arc<Tracker>,
    /// Counts the tasks that go on without the request that began them.
    pub(in crate::engine) detached: Arc<Tracker>,
    /// Counts the calls of invocations, which are those of one session.
    pub(in crate::engine) local: Arc<Tracker>,
    /// The places for runs in progress.
    pub(in crate::engine) run_places: Arc<RunPlaces>,
    /// Cancelled to end calls in flight (`stopMode: Cancel`). Replaced when calls can run again.
    pub(in crate::engine) cut: ArcSwap<CancellationToken>,
    /// Whether the admin API has stopped the gateway.
    pub(in crate::engine) stopped: AtomicBool,
    /// The counters of the sessions that it has stopped.
    pub(in crate::engine) stopped_sessions: Mutex<Vec<Arc<Tracker>>>,
    /// Set when the process is shutting down.
    pub(in crate::engine) draining: AtomicBool,
    /// Cancelled when the shutdown stops waiting: from then on, calls are refused, and running ones are answered with an error.
    pub(in crate::engine) ended: CancellationToken,
}

impl Gate {
    pub(in crate::engine) fn new(in_force: &Arc<InForce>, metrics: &Arc<Metrics>, clock: &Arc<dyn Clock>) -> Self {
        Self {
            in_force: Arc::clone(in_force),
            catalogues: Arc::clone(&in_force.catalogues),
            metrics: Arc::clone(metrics),
            clock: Arc::clone(clock),
            in_flight: InFlight::default(),
            sessions: SessionTable::default(),
            refusals: Refusals::default(),
            calls: Arc::default(),
            background: Arc::default(),
            detached: Arc::default(),
            local: Arc::default(),
            run_places: Arc::default(),
            cut: ArcSwap::default(),
            stopped: AtomicBool::default(),
            stopped_sessions: Mutex::default(),
            draining: AtomicBool::default(),
            ended: CancellationToken::new(),
        }
    }

    /// The sessions of clients of the legacy era.
    pub fn sessions(&self) -> &SessionTable {
        &self.sessions
    }

    /// `logging/setLevel`: sets the lowest level of log messages for a session. The gateway passes it to servers before a call.
    ///
    /// # Errors
    /// If the request is not admitted.
    pub fn set_log_level(&self, caller: &Caller, session: &Session, level: LogLevel) -> Result<(), RpcError> {
        let _admitted = self.admit_of(&self.in_force.snapshot(), caller, 0, false).map_err(|error| {
            self.metrics.refused(error.reason);
            error.to_error()
        })?;
        session.set_log_level(level);
        Ok(())
    }

    /// Returns the lowest level of log messages that the client of a call asked for.
    pub(crate) fn asked_log_level(&self, request: &CallRequest<'_>) -> Option<LogLevel> {
        let Caller { era, session, .. } = request.caller;
        match era {
            _ if request.within.is_some() => None,
            Era::Modern => request.log_level,
            Era::Legacy => self.sessions.known(session).and_then(|session| session.asked_log_level()),
        }
    }
}
