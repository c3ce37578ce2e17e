//! Streams of notifications of a process (MCP 2026-07-28, `subscriptions/listen` over stdio). What a process reports comes
//! on its stdout with everything else; only the acknowledgement and the end belong to one stream.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Duplex;
use super::open_requests::ListenEvent;
use crate::domain::method::Method;
use crate::domain::upstream::{Answer, UpstreamError};
use crate::domain::version::Era;
use crate::upstream::request_failure::refused;
use crate::upstream::wire::{self, McpRequest};

/// Opens streams of notifications of one process.
pub(in crate::upstream) struct ProcessListener(Duplex);

/// One stream. Dropping it tells the process that nobody listens any more.
pub(in crate::upstream) struct ProcessListenStream {
    duplex: Duplex,
    id: u64,
    events: mpsc::Receiver<ListenEvent>,
    /// What the server said when the stream was opened.
    first: Option<Vec<String>>,
}

impl ProcessListener {
    pub(in crate::upstream) fn new(duplex: &Duplex) -> Self {
        Self(duplex.clone())
    }

    /// A token that is cancelled when the process has ended or is told to end.
    pub(in crate::upstream) fn ended(&self) -> CancellationToken {
        self.0.ended.clone()
    }

    /// Opens a stream, and waits until the process acknowledges it.
    pub(in crate::upstream) async fn open(&self, filter: &str) -> Result<ProcessListenStream, UpstreamError> {
        let duplex = self.0.clone();
        let (id, events) = duplex.calls.listen()?;
        let mut stream = ProcessListenStream { duplex, id, events, first: None };
        stream.duplex.out.send(McpRequest::Listen(filter).render(Era::Modern, id)).await?;
        match stream.events.recv().await {
            Some(ListenEvent::Acknowledged(uris)) => {
                stream.first = Some(uris);
                Ok(stream)
            }
            Some(ListenEvent::Ended(Answer::Error(error))) => Err(refused(Method::Listen, &error)),
            Some(ListenEvent::Ended(Answer::Result(_))) | None => {
                Err(UpstreamError::Lost("its stream ended at once".to_owned()))
            }
        }
    }
}

impl ProcessListenStream {
    pub(in crate::upstream) async fn next(&mut self) -> Option<Vec<String>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        match self.events.recv().await? {
            ListenEvent::Acknowledged(uris) => Some(uris),
            ListenEvent::Ended(_) => None,
        }
    }
}

impl Drop for ProcessListenStream {
    fn drop(&mut self) {
        if self.duplex.calls.forget_stream(self.id) {
            self.duplex.out.offer(wire::cancelled(self.id));
        }
    }
}
