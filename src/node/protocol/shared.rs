//! The socket of one worker, used for several calls at a time. An incoming frame goes to the call that it names. One
//! task writes the outgoing frames, so that a call that is dropped never leaves a frame partly written.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::frame::{self, FrameKind, Head, Malformed};
use super::headers::IdHeader;
use super::plugin_log::log_line;
use super::socket::SocketWriter;
use super::wire::{ExclusiveWire, FrameReader, Wire, WireError};
use crate::node::log_mask::LogMask;

/// How many frames may wait until a call takes them, and how many until they are written to the worker.
const QUEUED: usize = 8;
/// How long to wait for the header of a frame whose body is too large. The header names the call that must fail.
const HEADER_WAIT: Duration = Duration::from_millis(100);

/// The wire of one seat. The seats of a worker share its socket.
#[derive(Debug)]
pub struct SharedWire {
    trunk: Arc<SharedSocket>,
    /// The call whose frames are received.
    call: u64,
    frames: mpsc::Receiver<Frame>,
    /// The frame that was received and is not taken yet.
    current: Vec<u8>,
}

/// The shared socket. It is closed when the last wire is dropped.
#[derive(Debug)]
struct SharedSocket {
    outgoing: mpsc::Sender<Vec<u8>>,
    routes: Arc<Mutex<FrameRoutes>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

/// Makes further wires over a shared socket, while it is open.
#[derive(Clone, Debug)]
pub struct WireMaker(Weak<SharedSocket>);

impl WireMaker {
    /// Returns another wire; `None` if the socket is closed.
    pub fn wire(&self) -> Option<SharedWire> {
        self.0.upgrade().map(SharedWire::over)
    }
}

/// A whole frame, or the reason why the call gets no more frames.
type Frame = Result<(Head, Vec<u8>), WireError>;

/// The receivers of frames, by call.
#[derive(Debug, Default)]
struct FrameRoutes {
    open: HashMap<u64, mpsc::Sender<Frame>>,
    /// The reason why no more frames arrive.
    broken: Option<WireError>,
}

impl SharedWire {
    /// Splits `wire` into `seats` wires. The text of an answer may have up to `max_output` bytes.
    pub fn split(wire: ExclusiveWire, seats: usize, log_mask: &LogMask, max_output: usize) -> Vec<Self> {
        let (incoming, writer) = wire.into_parts();
        let (outgoing, to_write) = mpsc::channel(QUEUED);
        let routes = Arc::<Mutex<FrameRoutes>>::default();
        let reading = tokio::spawn(hand_out(incoming, Arc::clone(&routes), log_mask.clone(), max_output));
        let writing = tokio::spawn(write(writer, to_write));
        let tasks = [reading, writing].map(AbortOnDropHandle::new);
        let trunk = Arc::new(SharedSocket { outgoing, routes, _tasks: tasks });
        std::iter::repeat_with(|| Self::over(Arc::clone(&trunk))).take(seats).collect()
    }

    fn over(trunk: Arc<SharedSocket>) -> Self {
        Self { trunk, call: 0, frames: mpsc::channel(1).1, current: Vec::new() }
    }

    /// Returns what makes further wires over this socket.
    pub fn maker(&self) -> WireMaker {
        WireMaker(Arc::downgrade(&self.trunk))
    }
}

impl Drop for SharedWire {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Wire for SharedWire {
    const SHARED: bool = true;

    fn enter(&mut self, call: u64) {
        self.leave();
        let (give, frames) = mpsc::channel(QUEUED);
        (self.call, self.frames, self.current) = (call, frames, Vec::new());
        let mut routes = lock(&self.trunk.routes);
        if routes.broken.is_none() {
            routes.open.insert(call, give);
        }
    }

    fn leave(&mut self) {
        lock(&self.trunk.routes).open.remove(&self.call);
        // Unblocks a task that waits for room to hand over a frame.
        self.frames.close();
    }

    async fn send(&mut self, kind: FrameKind, header: &(impl Serialize + Sync), body: Option<&[u8]>) -> io::Result<()> {
        let mut whole = Vec::new();
        frame::begin(&mut whole, kind, header, body).ok_or(io::ErrorKind::InvalidInput)?;
        whole.extend_from_slice(body.unwrap_or_default());
        self.trunk.outgoing.send(whole).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn receive(&mut self, _: usize) -> Result<Head, WireError> {
        match self.frames.recv().await {
            Some(frame) => {
                let (head, bytes) = frame?;
                self.current = bytes;
                Ok(head)
            }
            None => Err(lock(&self.trunk.routes).broken.unwrap_or(WireError::Closed)),
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.current
    }

    fn take(&mut self, _: &Head) {
        self.current = Vec::new();
    }

    fn is_usable(&self) -> bool {
        true
    }
}

/// Hands each frame to the call that it names, until the socket closes.
async fn hand_out(mut incoming: FrameReader, routes: Arc<Mutex<FrameRoutes>>, log_mask: LogMask, max_output: usize) {
    let broken = loop {
        let head = match incoming.receive(max_output).await {
            Ok(head) => head,
            Err(broken) => break broken,
        };
        let (json, body) = head.parts(incoming.bytes());
        if let Some(call) = route(&routes, json) {
            let whole = incoming.bytes().get(..head.length()).unwrap_or_default().to_vec();
            // A frame for a call that has ended is dropped.
            let _ = call.send(Ok((head, whole))).await;
        } else if head.kind == FrameKind::Log {
            log_line(&log_mask, json, body, None);
        }
        incoming.take(&head);
    };
    let all = if let WireError::Malformed(Malformed::TooLarge(_)) = broken {
        // The call whose frame is too large gets this error. For the others, the socket counts as closed.
        let header = timeout(HEADER_WAIT, incoming.header()).await.ok().flatten();
        if let Some(call) = header.and_then(|json| route(&routes, json)) {
            let _ = call.send(Err(broken)).await;
        }
        WireError::Closed
    } else {
        broken
    };
    let mut routes = lock(&routes);
    routes.broken = Some(all);
    routes.open.clear();
}

fn route(routes: &Mutex<FrameRoutes>, header: &[u8]) -> Option<mpsc::Sender<Frame>> {
    let IdHeader { id } = serde_json::from_slice(header).ok()?;
    lock(routes).open.get(&id).cloned()
}

async fn write(mut writer: SocketWriter, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if writer.write_all(&mut [IoSlice::new(&frame)]).await.is_err() {
            return;
        }
    }
}

fn lock(routes: &Mutex<FrameRoutes>) -> MutexGuard<'_, FrameRoutes> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::super::socket::Socket;
    use super::*;

    #[tokio::test]
    async fn each_call_gets_the_frames_that_name_it() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let [ours, mut worker] = [ours, theirs].map(|stream| ExclusiveWire::new(Socket::new(stream).unwrap()));
        let mut seats = SharedWire::split(ours, 2, &LogMask::named("p"), 1000);
        for (seat, id) in seats.iter_mut().zip([1, 2]) {
            seat.enter(id);
        }
        for (id, text) in [(2, "of 2"), (1, "of 1")] {
            worker.send(FrameKind::Result, &IdHeader { id }, Some(text.as_bytes())).await.unwrap();
        }
        for (seat, text) in seats.iter_mut().zip(["of 1", "of 2"]) {
            let head = seat.receive(1000).await.unwrap();
            assert_eq!(head.parts(seat.bytes()).1, text.as_bytes());
            seat.take(&head);
        }
    }
}
