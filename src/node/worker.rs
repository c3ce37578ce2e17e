//! One warm worker: a process, the protocol that it speaks, and what it has served. Knows no pool.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::card::Card;
use super::egress::Egress;
use super::loading::SPOKE_FIRST;
use super::metrics::{KillCause, RecycleCause};
use super::noise::Noise;
use super::process::{Process, Tasks};
use super::protocol::channel::Channel;
use super::protocol::lines::Lines;
use super::protocol::once::Pipes;
use super::protocol::{Call, Exchange};
use super::voice::Voice;
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::{Failure, Protocol};
use crate::domain::ports::WorkerState;
use crate::domain::reason::Reason;

/// How long a process whose worker is done may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);
/// How long to wait for the status of a process whose socket closed.
const STATUS_WAIT: Duration = Duration::from_millis(20);

/// The way to a worker.
#[derive(Debug)]
pub enum Talk {
    /// Frames, many calls.
    Module(Box<Channel>),
    /// Pipes, one call.
    Once(Pipes),
    /// Pipes, many calls.
    Lines(Lines),
}

/// What becomes of a worker after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It serves on.
    Keep,
    /// It has served all that it can.
    Spent,
    /// It could serve on, but is to be replaced.
    Recycle(RecycleCause),
    /// It is ended at once.
    Kill(KillCause),
}

/// A worker that is loaded.
#[derive(Debug)]
pub struct Worker {
    /// Its number in this process, never used again.
    pub id: u64,
    /// Its process.
    pub process: Process,
    /// The way to it.
    pub talk: Talk,
    /// What it prints besides.
    pub noise: Arc<Noise>,
    /// What must not be seen in what it says.
    pub voice: Voice,
    /// Its connections, where its plugin may have any.
    pub egress: Option<Egress>,
    /// What others may know of it.
    pub card: Arc<Card>,
    /// Calls that it may serve.
    pub max_executions: u64,
    /// Why the worker that takes its place was started already; none where it was not.
    pub succeeded: Option<RecycleCause>,
    /// When its process was made.
    pub born: Instant,
    /// From when on the one that is to take its place is started.
    pub ages: Instant,
    /// Until when it may serve.
    pub expires: Instant,
    /// Since when nobody has used it.
    pub rested: Instant,
    /// Bytes that it may print besides, a call.
    pub max_noise: u64,
    /// Bytes that its process may have mapped for data after a call: less than it may at all, so that one whose plugin
    /// leaks is replaced before it fails a call.
    pub max_data: u64,
}

impl Worker {
    /// Runs one call. Whoever drops this before its end must not use the worker again.
    pub async fn execute(&mut self, call: &Call<'_>) -> Exchange {
        self.card.used();
        self.noise.reset();
        if let Some(egress) = &self.egress {
            egress.begin_call();
        }
        let mut exchange = self.exchange(call).await;
        // What is told to people; the text is the client's.
        let said = match &mut exchange.output {
            Ok(output) => {
                output.metadata = output.metadata.take().and_then(|metadata| self.voice.masked_json(metadata));
                output.error.as_mut()
            }
            Err(failure) => Some(&mut failure.message),
        };
        if let Some(said) = said {
            *said = self.voice.masked(std::mem::take(said)).into_owned();
        }
        exchange
    }

    async fn exchange(&mut self, call: &Call<'_>) -> Exchange {
        match &mut self.talk {
            Talk::Once(pipes) => Exchange::last(pipes.exchange(&mut self.process, call.input, call.max_output).await),
            Talk::Lines(lines) => lines.exchange(&mut self.process, call.input, call.max_output).await,
            Talk::Module(channel) => {
                let mut exchange = channel.exchange(call).await;
                if let Err(failure) = &mut exchange.output
                    && failure.reason == Reason::Crashed
                    && let Ok(Some(status)) = tokio::time::timeout(STATUS_WAIT, self.process.exited()).await
                {
                    *failure = Failure::new(Reason::Crashed, format!("ended before it answered ({status})"));
                }
                exchange
            }
        }
    }

    /// Whether it can be told that its call is given up.
    pub fn can_be_told(&self) -> bool {
        matches!(self.talk, Talk::Module(_))
    }

    /// After a call that was dropped: tells it so and waits until it has ended the call. What becomes of it then.
    pub async fn give_up(&mut self) -> Fate {
        let max_output = usize::try_from(self.card.plugin.plan.limits.max_output).unwrap_or(usize::MAX);
        let ended = match &mut self.talk {
            Talk::Module(channel) => channel.give_up(max_output).await,
            Talk::Once(_) | Talk::Lines(_) => false,
        };
        match ended {
            true => self.worn().map_or(Fate::Keep, Fate::Recycle),
            false => Fate::Kill(KillCause::Cancelled),
        }
    }

    /// What becomes of it after this exchange.
    pub fn fate_after(&self, exchange: &Exchange) -> Fate {
        if exchange.reusable {
            if exchange.output.is_err() {
                // It may have failed for lack of memory, and what it holds fail the next call too.
                self.card.measure();
            }
            return self.worn().map_or(Fate::Keep, Fate::Recycle);
        }
        let over = self.process.status().is_some();
        let answered = exchange.output.is_ok() && matches!(self.talk, Talk::Once(_));
        if over || answered { Fate::Spent } else { Fate::Kill(KillCause::Broken) }
    }

    /// Why it is to be replaced soon: it is in its last twentieth of calls or of time.
    pub fn nearly_worn(&self) -> Option<RecycleCause> {
        if self.card.executions() >= self.max_executions - self.max_executions / 20 {
            Some(RecycleCause::Executions)
        } else {
            (Instant::now() >= self.ages).then_some(RecycleCause::Lifetime)
        }
    }

    /// Why it cannot have come to be as it should, although it has served nobody yet. Another one would be no better.
    pub fn stillborn(&self, cause: RecycleCause) -> Option<String> {
        match cause {
            _ if self.card.executions() > 0 => None,
            RecycleCause::Exited => {
                let status = self.process.status().map(|status| format!(" ({status})")).unwrap_or_default();
                let error = self.noise.first_error().map(|error| format!("; {error}")).unwrap_or_default();
                Some(format!("ended while it was idle{status}{error}"))
            }
            RecycleCause::Stray => Some(SPOKE_FIRST.into()),
            RecycleCause::Memory => {
                let limit = self.card.plugin.plan.limits.memory;
                Some(format!("took more than three quarters of limits.memory ({limit} bytes) before its first call"))
            }
            _ => None,
        }
    }

    /// Why it should not serve another call.
    pub fn worn(&self) -> Option<RecycleCause> {
        if self.process.status().is_some_and(|status| !(status.success() && matches!(self.talk, Talk::Once(_)))) {
            Some(RecycleCause::Exited)
        } else if self.card.executions() >= self.max_executions {
            Some(RecycleCause::Executions)
        } else if Instant::now() >= self.expires {
            Some(RecycleCause::Lifetime)
        } else if self.noise.bytes() > self.max_noise {
            Some(RecycleCause::Stderr)
        } else if self.card.data() > self.max_data {
            Some(RecycleCause::Memory)
        } else if matches!(&self.talk, Talk::Lines(lines) if lines.has_spoken()) {
            Some(RecycleCause::Stray)
        } else {
            None
        }
    }

    /// Ends it: a worker in good order may end by itself, any other is killed.
    pub fn end(self, fate: Fate, tasks: &Tasks) {
        self.card.set_state(WorkerState::Unhealthy);
        drop(self.talk);
        match fate {
            Fate::Kill(_) => drop(self.process),
            Fate::Keep | Fate::Spent | Fate::Recycle(_) => self.process.end_within(GRACE, tasks),
        }
    }
}

/// How many calls a worker of a plugin serves that may serve so many.
pub fn executions_of(plugin: &PluginPlan, most: u64) -> u64 {
    if plugin.protocol == Protocol::Once && !plugin.reuse { 1 } else { most }
}
