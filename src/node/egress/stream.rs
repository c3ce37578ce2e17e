//! The connections of one worker. On each of them, the gateway and the worker may each send one chunk and then wait for
//! credit, so a connection buffers at most one chunk in each direction.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use super::dial::{DialError, dial};
use super::worker_egress::{StreamHeader, WorkerEgress};
use crate::node::metrics::Direction;
use crate::node::protocol::frame::{FrameKind, Head, Start};
use crate::transport::outbound::OutboundSocket;

/// The maximum number of connections that a worker may have open.
const MAX_STREAMS: usize = 32;
/// The maximum number of bytes of a chunk.
const MAX_CHUNK: usize = 64 << 10;

/// The connections of one worker, by stream number.
struct Streams {
    line: Arc<WorkerEgress>,
    open: HashMap<u32, Stream>,
    tasks: JoinSet<u32>,
}

struct Stream {
    /// Passes on chunks from the worker. The channel has room for one chunk, because the worker has credit for only
    /// one.
    chunks: mpsc::Sender<Bytes>,
    /// Has a permit if the worker is ready to receive a chunk.
    credit: Arc<Semaphore>,
    task: AbortHandle,
}

#[derive(Deserialize)]
struct OpenHeader {
    stream: u32,
    host: String,
    port: u16,
}

/// The error of a worker that broke the protocol.
struct ProtocolViolation;

/// Serves a worker until its socket closes or it breaks the protocol. Then closes all connections.
pub(super) async fn serve(line: Arc<WorkerEgress>, mut socket: OwnedReadHalf) {
    let mut streams = Streams { line, open: HashMap::new(), tasks: JoinSet::new() };
    let mut inbox = Vec::with_capacity(MAX_CHUNK);
    loop {
        tokio::select! {
            read = next_frame(&mut socket, &mut inbox) => {
                let Ok(head) = read else { return };
                if streams.receive(&head, &inbox).await.is_err() {
                    return;
                }
                inbox.drain(..head.length());
            }
            Some(ended) = streams.tasks.join_next() => {
                if let Ok(id) = ended {
                    streams.open.remove(&id);
                }
            }
        }
    }
}

/// Reads until `inbox` starts with a whole frame.
async fn next_frame(socket: &mut OwnedReadHalf, inbox: &mut Vec<u8>) -> Result<Head, ProtocolViolation> {
    loop {
        match Start::of(inbox, |_| MAX_CHUNK).map_err(|_| ProtocolViolation)? {
            Start::Whole(head) => return Ok(head),
            Start::Part(missing) => inbox.reserve(missing),
        }
        if !socket.read_buf(inbox).await.is_ok_and(|read| read > 0) {
            return Err(ProtocolViolation);
        }
    }
}

impl Streams {
    async fn receive(&mut self, head: &Head, inbox: &[u8]) -> Result<(), ProtocolViolation> {
        let (header, body) = head.parts(inbox);
        if head.kind == FrameKind::Open {
            return self.open(serde_json::from_slice(header).map_err(|_| ProtocolViolation)?).await;
        }
        let StreamHeader { stream: id } = serde_json::from_slice(header).map_err(|_| ProtocolViolation)?;
        // The connection ended while this frame was on its way.
        let Some(stream) = self.open.get(&id) else { return Ok(()) };
        match head.kind {
            FrameKind::Chunk => match stream.chunks.try_send(Bytes::copy_from_slice(body)) {
                Err(mpsc::error::TrySendError::Full(_)) => return Err(ProtocolViolation),
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            },
            FrameKind::Credit if stream.credit.available_permits() == 0 => stream.credit.add_permits(1),
            FrameKind::Close => {
                stream.task.abort();
                self.open.remove(&id);
            }
            _ => return Err(ProtocolViolation),
        }
        Ok(())
    }

    async fn open(&mut self, header: OpenHeader) -> Result<(), ProtocolViolation> {
        let id = header.stream;
        if self.open.contains_key(&id) {
            return Err(ProtocolViolation);
        }
        if self.open.len() >= MAX_STREAMS {
            let refusal = DialError::TooMany(MAX_STREAMS);
            self.line.refused(&header.host, header.port, &refusal);
            self.line.close(id, Some(&refusal)).await;
            return Ok(());
        }
        let (chunks, from_worker) = mpsc::channel(1);
        let credit = Arc::new(Semaphore::new(1));
        let task = self.tasks.spawn(connect(Arc::clone(&self.line), header, from_worker, Arc::clone(&credit)));
        self.open.insert(id, Stream { chunks, credit, task });
        Ok(())
    }
}

/// Makes one connection and relays its bytes until it ends. Returns its stream number.
async fn connect(
    line: Arc<WorkerEgress>,
    header: OpenHeader,
    from_worker: mpsc::Receiver<Bytes>,
    credit: Arc<Semaphore>,
) -> u32 {
    let OpenHeader { stream: id, host, port } = header;
    let carried = match dial(&line.rules, &line.lookups, &host, port).await {
        Ok(connection) => {
            line.opened();
            line.credit(id).await;
            carry(&line, id, connection, from_worker, &credit).await
        }
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = &carried {
        line.refused(&host, port, refusal);
    }
    line.close(id, carried.err().as_ref()).await;
    id
}

async fn carry(
    line: &WorkerEgress,
    id: u32,
    connection: OutboundSocket,
    from_worker: mpsc::Receiver<Bytes>,
    credit: &Semaphore,
) -> Result<(), DialError> {
    let (from_host, to_host) = split(connection);
    let out = carry_out(line, id, from_worker, to_host);
    let back = carry_back(line, id, from_host, credit);
    tokio::try_join!(out, back).map(|_| ())
}

/// Relays bytes from the worker to the host. An empty chunk ends that direction.
async fn carry_out(
    line: &WorkerEgress,
    id: u32,
    mut from_worker: mpsc::Receiver<Bytes>,
    mut to_host: WriteHalf<OutboundSocket>,
) -> Result<(), DialError> {
    let lost = |error: std::io::Error| DialError::Lost(error.kind());
    while let Some(chunk) = from_worker.recv().await {
        if chunk.is_empty() {
            return to_host.shutdown().await.map_err(lost);
        }
        line.spend(chunk.len(), Direction::Out)?;
        to_host.write_all(&chunk).await.map_err(lost)?;
        line.credit(id).await;
    }
    Ok(())
}

/// Relays bytes from the host to the worker. Each chunk takes one credit, and an empty chunk ends that direction.
async fn carry_back(
    line: &WorkerEgress,
    id: u32,
    mut from_host: ReadHalf<OutboundSocket>,
    credit: &Semaphore,
) -> Result<(), DialError> {
    let mut buffer = vec![0; MAX_CHUNK];
    loop {
        if let Ok(permit) = credit.acquire().await {
            permit.forget();
        }
        let read = from_host.read(&mut buffer).await.map_err(|error| DialError::Lost(error.kind()))?;
        line.spend(read, Direction::In)?;
        line.chunk(id, buffer.get(..read).unwrap_or_default()).await;
        if read == 0 {
            return Ok(());
        }
    }
}
