//! Waits until a worker has loaded its plugin, and says why one has not.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::{sleep, timeout};

use super::discovery::NodeError;
use super::installed_code::CodeError;
use super::log_mask::LogMask;
use super::process::IdleSample;
use super::seat::{SPOKE_FIRST, Seat, Transport};
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;

/// How long a plugin may take to load.
pub(super) const START_DEADLINE: Duration = Duration::from_secs(10);
/// How long a plugin may hold a start slot while it loads. One that never finishes must not block the others.
const SLOT_HOLD: Duration = Duration::from_secs(1);
/// A script that is known to work and was not over by then has come to the read of its input, or soon will.
const SETTLE: Duration = Duration::from_millis(50);
/// How often it is looked whether another script has come so far.
const LOOK: Duration = Duration::from_millis(20);
/// One that never rests counts as started by then.
const LONGEST_SETTLE: Duration = Duration::from_secs(3);

/// Why a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No Node.js to run it on.
    #[error("{0}")]
    Node(#[from] NodeError),
    /// Its code cannot be put on disk.
    #[error("{0}")]
    Code(#[from] CodeError),
    /// The process cannot be made.
    #[error("its process cannot be made: {0}")]
    Spawn(#[from] io::Error),
    /// The plugin said why, or it shows.
    #[error("{0}")]
    Load(String),
    /// The process ended.
    #[error("it ended while it was loaded ({status}{})", cause.as_deref().map(|c| format!("; {c}")).unwrap_or_default())]
    Exited {
        /// How.
        status: ExitStatus,
        /// The error that it printed.
        cause: Option<String>,
    },
    /// It took too long.
    #[error("it was not loaded within {0:?}")]
    Late(Duration),
    /// The gateway is ending.
    #[error("the gateway is ending")]
    Closed,
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        error.failure()
    }
}

impl StartError {
    /// The failure of a call that needed the worker.
    pub(super) fn failure(&self) -> Failure {
        Failure::new(Reason::NotLoaded, format!("cannot be started: {self}"))
    }

    /// The label of what failed.
    pub fn as_label(&self) -> &'static str {
        match self {
            Self::Node(_) => "node",
            Self::Code(_) => "code",
            Self::Spawn(_) => "spawn",
            Self::Load(_) => "load",
            Self::Exited { .. } => "exited",
            Self::Late(_) => "late",
            Self::Closed => "closed",
        }
    }

    /// Whether the plugin itself is at fault: on this machine another one would have been loaded.
    pub(super) fn is_the_plugins(&self) -> bool {
        matches!(self, Self::Load(_) | Self::Exited { .. } | Self::Late(_))
    }

    /// What a plugin says of its failure may quote its environment.
    pub(super) fn masked(self, log_mask: &LogMask) -> Self {
        let masked = |said: String| log_mask.masked(said).into_owned();
        match self {
            Self::Load(said) => Self::Load(masked(said)),
            Self::Exited { status, cause } => Self::Exited { status, cause: cause.map(masked) },
            other => other,
        }
    }
}

impl Seat {
    /// Waits until the plugin is loaded; none at the deadline. Drops `slot`, the right to start a worker, as soon as it
    /// can. `proven` says whether a call of this plugin has gone well before.
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
            Transport::Module(channel) => match channel.ready().await {
                Ok(()) => return Ok(()),
                Err(said) => said,
            },
            // Made of one that is loaded.
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
        match self.worker.process.exited().await {
            Some(status) => Err(StartError::Exited { status, cause: self.worker.drained.first_error() }),
            None => Err(StartError::Load("it ended while it was loaded".into())),
        }
    }
}

/// Waits until a script has likely come to the read of its input: it does not say so. A script that has never worked
/// may die before that, and a Guard that cannot start must not let a call through to its upstream. So such a script is
/// watched until it is idle, if the system shows that.
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
