//! The signals that end a process gracefully.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that asks the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndSignal {
    /// SIGINT (Ctrl-C): someone is waiting at a terminal for the process to end.
    Interrupt,
    /// SIGTERM: a supervisor wants the process to end, and a load balancer may still send requests to the process.
    Terminate,
}

/// The signal of a process that writes beyond its limit on the size of files.
const SIGXFSZ: i32 = 25;

/// Receives SIGINT and SIGTERM. Once an instance has been created, these signals no longer kill the process.
pub(super) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    /// Starts to catch the signals. A signal that arrives before [`EndSignals::next`] is called is not lost.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        // A file that cannot grow is an error of the write, for which the history has a queue.
        drop(listen(SignalKind::from_raw(SIGXFSZ))?);
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    pub(super) async fn next(&mut self) -> EndSignal {
        tokio::select! {
            _ = self.interrupt.recv() => EndSignal::Interrupt,
            _ = self.terminate.recv() => EndSignal::Terminate,
        }
    }
}
