//! Waits until a worker has loaded its plugin, and reports why one has not.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::SemaphorePermit;
use tokio::time::{sleep, timeout};

use super::discovery::NodeError;
use super::installed_code::CodeError;
use super::last_words::{is_out_of_memory, with_limit_of_files};
use super::log_mask::LogMask;
use super::process::IdleSample;
use super::seat::{SPOKE_FIRST, Seat, Transport, over_memory};
use crate::domain::descriptor::Descriptor;
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;

/// How long a plugin may take to load.
pub(super) const START_DEADLINE: Duration = Duration::from_secs(10);
/// How long a plugin may hold a start slot while it loads, so that a plugin that never finishes does not block the
/// others.
const SLOT_HOLD: Duration = Duration::from_secs(1);
/// How long to wait for a script that has worked before. If the script is still running then, it reads its input or
/// soon will.
const SETTLE: Duration = Duration::from_millis(50);
/// How often the threads of a script that has never worked are checked.
const LOOK: Duration = Duration::from_millis(20);
/// How long to wait for the last output of a process that has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(100);
/// After this time, a script that never becomes idle counts as started.
const LONGEST_SETTLE: Duration = Duration::from_secs(3);

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no Node.js to run the plugin on.
    #[error("{0}")]
    Node(#[from] NodeError),
    /// The program that runs the code of a wrapper is not there, or does not work.
    #[error("{0}")]
    Interpreter(String),
    /// The code cannot be written to disk.
    #[error("{0}")]
    Code(#[from] CodeError),
    /// The process cannot be created.
    #[error("its process cannot be made: {0}")]
    Spawn(#[from] io::Error),
    /// The plugin reported an error or broke the protocol while it was loaded.
    #[error("{0}")]
    Load(String),
    /// The descriptor of the plugin is wrong or incomplete.
    #[error("{0}")]
    Descriptor(String),
    /// The process ended before the plugin was loaded.
    #[error("it ended while it was loaded ({status}{})", cause.as_deref().map(|c| format!("; {c}")).unwrap_or_default())]
    Exited {
        /// The exit status.
        status: ExitStatus,
        /// The first error that the process printed, if any.
        cause: Option<String>,
    },
    /// The plugin was not loaded within this time.
    #[error("it was not loaded within {0:?}")]
    Late(Duration),
    /// The gateway is shutting down.
    #[error("the gateway is ending")]
    Closed,
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        error.failure()
    }
}

impl StartError {
    /// Returns the failure for a call that needed the worker.
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Descriptor(why) => Failure::new(Reason::InvalidDescriptor, why.clone()),
            _ => Failure::new(Reason::NotLoaded, format!("cannot be started: {self}")),
        }
    }

    /// The value of the label `cause` of the metric for failed starts.
    pub fn as_label(&self) -> &'static str {
        match self {
            Self::Node(_) => "node",
            Self::Interpreter(_) => "interpreter",
            Self::Code(_) => "code",
            Self::Spawn(_) => "spawn",
            Self::Load(_) => "load",
            Self::Descriptor(_) => "descriptor",
            Self::Exited { .. } => "exited",
            Self::Late(_) => "late",
            Self::Closed => "closed",
        }
    }

    /// Whether the plugin is at fault, rather than this machine or the gateway.
    pub(super) fn is_the_plugins(&self) -> bool {
        matches!(self, Self::Load(_) | Self::Descriptor(_) | Self::Exited { .. } | Self::Late(_))
    }

    /// Returns this error without the secrets in its message. The message of a plugin's error can quote the plugin's
    /// environment.
    pub(super) fn masked(self, log_mask: &LogMask) -> Self {
        let masked = |said: String| with_limit_of_files(log_mask.masked(said).into_owned());
        match self {
            Self::Load(said) => Self::Load(masked(said)),
            Self::Descriptor(why) => Self::Descriptor(masked(why)),
            Self::Exited { status, cause } => Self::Exited { status, cause: cause.map(masked) },
            other => other,
        }
    }
}

impl Seat {
    /// Waits until the plugin is loaded or has failed to load. Returns `None` if neither happens within
    /// [`START_DEADLINE`]. Drops `slot`, the permit to start a worker, after at most a second. `proven` tells whether
    /// the plugin has ever served a call successfully.
    pub(super) async fn loaded_by_deadline(
        &mut self,
        slot: SemaphorePermit<'_>,
        proven: bool,
    ) -> Option<Result<(), StartError>> {
        let loading = self.loaded(proven);
        tokio::pin!(loading);
        if let Ok(loaded) = timeout(SLOT_HOLD, &mut loading).await {
            return Some(loaded);
        }
        drop(slot);
        timeout(START_DEADLINE - SLOT_HOLD, loading).await.ok()
    }

    async fn loaded(&mut self, proven: bool) -> Result<(), StartError> {
        let said = match &mut self.transport {
            Transport::Module(channel) => {
                channel.initialize(&self.worker.stats.plugin.plan).await;
                match channel.ready().await {
                    Ok(returned) => return self.describe(returned.as_deref()),
                    Err(said) => said,
                }
            }
            // A worker gets shared transports only after it has loaded the plugin.
            Transport::Shared(_) => return Ok(()),
            Transport::Lines(lines) if lines.says_ready() => {
                if lines.ready().await {
                    return Ok(());
                }
                None
            }
            Transport::Once(_) | Transport::Lines(_) => {
                let pid = self.worker.process.pid();
                let ended = tokio::select! {
                    biased;
                    ended = self.worker.process.exited() => ended,
                    () = settled(pid, proven) => None,
                };
                match (ended, &self.transport) {
                    (Some(_), Transport::Lines(_)) => None,
                    (Some(status), _) if !status.success() => None,
                    (_, Transport::Lines(lines)) if lines.has_spoken() => Some(format!("it {SPOKE_FIRST}")),
                    _ => return Ok(()),
                }
            }
        };
        if let Some(said) = said {
            return Err(StartError::Load(said));
        }
        Err(self.why_it_ended().await)
    }

    /// Takes what the plugin's `getDescriptor` returned, and checks that the plugin is described as its type must be.
    fn describe(&self, returned: Option<&RawValue>) -> Result<(), StartError> {
        let plan = &self.worker.stats.plugin.plan;
        if plan.kind.is_middleware() {
            let own = returned.and_then(|returned| Descriptor::of_code(returned).ok());
            if let Some(own) = own.filter(|own| own.names(&plan.key.name, plan.kind).is_ok()) {
                let _ = self.worker.stats.described.set(own);
            }
            return Ok(());
        }
        let own = returned.map(Descriptor::of_code).transpose().map_err(StartError::Descriptor)?.unwrap_or_default();
        let other = |why| StartError::Descriptor(format!("getDescriptor: {why}"));
        own.names(&plan.key.name, plan.kind).map_err(other)?;
        let whole = plan.descriptor.clone().over(own.clone());
        if let Some(fault) = whole.faults(plan.kind, plan.wrapper.is_some(), true).into_iter().next() {
            return Err(StartError::Descriptor(format!("{}: {}", fault.field, fault.message)));
        }
        let _ = self.worker.stats.described.set(own);
        Ok(())
    }

    /// Returns why the worker ended before it was loaded, as far as its output says so.
    async fn why_it_ended(&mut self) -> StartError {
        let Some(status) = self.worker.process.exited().await else {
            return StartError::Load("it ended while it was loaded".into());
        };
        let drained = &self.worker.drained;
        let _ = timeout(LAST_OUTPUT, drained.ended()).await;
        let ran_out = drained.last_lines().iter().any(|line| is_out_of_memory(line));
        let cause = if ran_out { Some(over_memory(&self.worker)) } else { drained.first_error() };
        StartError::Exited { status, cause }
    }
}

/// Waits until a script has probably begun to read its input, because scripts do not report this. For a script that has
/// worked before (`proven`), a short fixed wait is enough. A new script may still die while it starts. If its start
/// counted as successful, calls could reach an upstream although the Guard that protects it does not work. So a new
/// script is watched until its threads are idle, if `/proc` is available.
async fn settled(pid: u32, proven: bool) {
    if proven || !IdleSample::is_shown() {
        return sleep(SETTLE).await;
    }
    let _ = timeout(LONGEST_SETTLE, async {
        let mut before = None;
        loop {
            sleep(LOOK).await;
            match IdleSample::of(pid) {
                Some(now) if before == Some(now) => return,
                now => before = now,
            }
        }
    })
    .await;
}
