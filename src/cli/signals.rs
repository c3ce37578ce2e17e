//! The signals that end a process gracefully.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndSignal {
    /// SIGINT (Ctrl-C): someone is waiting at a terminal for the process to end.
    Interrupt,
    /// SIGTERM: a supervisor ends the process, and a load balancer may still send it requests.
    Terminate,
}

/// SIGINT and SIGTERM. While this exists, they no longer kill the process.
pub(super) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    /// Starts to catch the signals. They are remembered until [`EndSignals::next`].
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen to signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> EndSignal {
        tokio::select! {
            _ = self.interrupt.recv() => EndSignal::Interrupt,
            _ = self.terminate.recv() => EndSignal::Terminate,
        }
    }
}
