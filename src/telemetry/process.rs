//! The logs and traces of a process, and what its plan decides about them.

use anyhow::Context;

use super::log::{self, LogLevelHandle};
use super::traces::Traces;
use crate::domain::plan::GatewayPlan;

/// The logs and traces of a process.
#[derive(Clone)]
pub struct Telemetry {
    log_level: LogLevelHandle,
    /// Sends traces.
    pub traces: Traces,
}

impl Telemetry {
    /// Starts logging, and tracing if the environment configures it. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// If `HAWSEPIPE_LOG` is not valid; the error names the variable.
    pub fn start() -> anyhow::Result<Self> {
        let traces = Traces::new().context("cannot make metrics of traces")?;
        let log_level = log::start(&traces)?;
        traces.follow_environment();
        Ok(Self { log_level, traces })
    }

    /// Puts the settings of a plan in force. Must be called in a tokio runtime.
    pub fn follow(&self, gateway: &GatewayPlan) {
        if let Some(level) = &gateway.log_level {
            self.log_level.set(level);
        }
        self.traces.follow(gateway.tracing.as_ref());
    }
}
