//! The network connections of one worker. A worker has no network access of its own. It requests connections over a
//! separate socket; the gateway connects to the hosts that the plugin lists, and relays the bytes.

pub mod dial;
pub mod handed;
mod reachability;
mod stream;
mod worker_egress;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::log_mask::LogMask;
use super::metrics::WorkerMetrics;
use super::process::Tasks;
use crate::domain::egress::EgressRule;
use crate::domain::ports::LinkedPlugin;
use worker_egress::WorkerEgress;

/// Serves the network connections that one worker requests.
#[derive(Debug)]
pub struct Egress(Arc<WorkerEgress>);

impl Egress {
    /// Starts to serve the requests that arrive on `socket`, until its other end is closed or `over` completes.
    ///
    /// # Errors
    /// If the socket cannot be registered with the runtime.
    pub fn serve(
        socket: UnixStream,
        plugin: &LinkedPlugin,
        metrics: &WorkerMetrics,
        tasks: &Tasks,
        over: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let (reader, writer) = tokio::net::UnixStream::from_std(socket)?.into_split();
        // Entries that do not parse were refused when the plan was compiled.
        let rules = plugin.plan.egress.iter().filter_map(|entry| EgressRule::parse(entry).ok()).collect();
        let (line, written) = WorkerEgress::new(writer, rules, LogMask::of(plugin), metrics.clone());
        let line = Arc::new(line);
        let served = Arc::clone(&line);
        tasks.spawn(async move {
            tokio::select! {
                () = stream::serve(served, reader) => {}
                () = written => {}
                () = over => {}
            }
        });
        Ok(Self(line))
    }

    /// Prepares for a new call, even if others are running: resets the byte count, and allows one denial to be logged.
    pub fn begin_call(&self) {
        self.0.begin_call();
    }
}
