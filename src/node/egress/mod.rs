//! The way out of one worker: connections that its plugin asks for, over a socket of their own. A worker never has a
//! network; the gateway dials the hosts that the plugin lists, and carries bytes.

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

/// One worker's way out.
#[derive(Debug)]
pub struct Egress(Arc<WorkerEgress>);

impl Egress {
    /// Serves what comes over `socket`, until its other end is closed or `over` ends.
    ///
    /// # Errors
    /// Where the socket cannot be watched.
    pub fn serve(
        socket: UnixStream,
        plugin: &LinkedPlugin,
        metrics: &WorkerMetrics,
        tasks: &Tasks,
        over: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let (reader, writer) = tokio::net::UnixStream::from_std(socket)?.into_split();
        // What does not parse was refused with the plan.
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

    /// A call begins: what it may send and receive is counted from here.
    pub fn begin_call(&self) {
        self.0.begin_call();
    }
}
