//! Sessions of clients of the legacy era. A session has its own process, or shares one with the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::call_state::SessionKey;
use super::context::Context;
use super::outbox::Outbox;
use super::process::ServerProcess;
use super::usage::Usage;
use crate::domain::budget::Account;
use crate::domain::digest::sha256_hex;

/// The number of random bytes in the id of a session.
const ID_BYTES: usize = 24;

#[derive(Debug)]
pub(super) struct BridgeSession {
    pub(super) key: SessionKey,
    pub(super) process: Arc<ServerProcess>,
    /// What the server sends outside of calls.
    pub(super) stream: Arc<Outbox>,
    /// The version of the protocol that the server chose.
    pub(super) version: String,
    pub(super) usage: Usage,
    /// The memory of its requests.
    pub(super) account: Arc<Account>,
    /// Cancelled when the session has ended.
    pub(super) ended: CancellationToken,
    /// Cancelled when another request for the stream takes this one's place.
    reader: Mutex<CancellationToken>,
}

/// Room for one session, and the id that it will have.
#[derive(Debug)]
pub(super) struct SessionReservation {
    pub(super) id: String,
    pub(super) key: SessionKey,
    permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(super) struct Sessions {
    context: Arc<Context>,
    open: Arc<Mutex<Open>>,
    slots: Arc<Semaphore>,
    /// Whether each session has a process of its own.
    own_processes: bool,
}

#[derive(Debug, Default)]
struct Open {
    by_id: HashMap<String, Arc<BridgeSession>>,
    last_key: SessionKey,
}

impl SessionReservation {
    /// Names the session in the log. The id itself is a secret.
    pub(super) fn label(&self) -> String {
        sha256_hex(self.id.as_bytes()).chars().take(8).collect()
    }
}

impl BridgeSession {
    /// Takes the place of the request that reads the stream. The token is cancelled when another one does so.
    pub(super) fn read_stream(&self) -> CancellationToken {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let new = CancellationToken::new();
        std::mem::replace(&mut *reader, new.clone()).cancel();
        new
    }
}

impl Sessions {
    pub(super) fn new(context: &Arc<Context>, most: usize, own_processes: bool) -> Self {
        let slots = Arc::new(Semaphore::new(most));
        Self { context: Arc::clone(context), open: Arc::default(), slots, own_processes }
    }

    /// Takes room for another session; `None` if there are as many as there may be.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub(super) fn slot(&self) -> std::io::Result<Option<SessionReservation>> {
        let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() else { return Ok(None) };
        let mut bytes = [0u8; ID_BYTES];
        // So few bytes are always returned at once (getrandom(2)).
        if getrandom(&mut bytes, GetRandomFlags::empty())? < bytes.len() {
            return Err(std::io::Error::other("too few random bytes"));
        }
        let mut open = lock(&self.open);
        open.last_key += 1;
        let id = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(SessionReservation { id, key: open.last_key, permit }))
    }

    /// Begins a session on a process whose server has answered `initialize` with this version. Returns false if the
    /// process has ended.
    pub(super) fn begin(&self, slot: SessionReservation, process: &Arc<ServerProcess>, version: String) -> bool {
        let session = Arc::new(BridgeSession {
            key: slot.key,
            process: Arc::clone(process),
            stream: Outbox::new(&self.context.budget),
            version,
            usage: Usage::new(),
            account: Arc::default(),
            ended: CancellationToken::new(),
            reader: Mutex::default(),
        });
        if !process.calls.join(session.key, &session.stream) {
            return false;
        }
        lock(&self.open).by_id.insert(slot.id.clone(), Arc::clone(&session));
        let (open, own_process) = (Arc::clone(&self.open), self.own_processes);
        self.context.tasks.spawn(async move {
            tokio::select! {
                () = session.process.ended() => {}
                () = session.ended.cancelled() => {}
            }
            lock(&open).by_id.remove(&slot.id);
            session.ended.cancel();
            session.stream.close();
            let tell = session.process.calls.leave(session.key);
            if own_process {
                session.process.stop();
                session.process.ended().await;
            } else {
                tell.into_iter().for_each(|text| session.process.offer(text));
            }
            drop(slot.permit);
        });
        true
    }

    /// Returns the session with this id, if it has not ended.
    pub(super) fn find(&self, id: &str) -> Option<Arc<BridgeSession>> {
        let session = lock(&self.open).by_id.get(id).cloned()?;
        (!session.process.is_over() && !session.ended.is_cancelled()).then_some(session)
    }

    /// Ends the session with this id. Returns false if there is none.
    pub(super) fn end(&self, id: &str) -> bool {
        let found = lock(&self.open).by_id.remove(id);
        found.is_some_and(|session| {
            let was_open = !session.ended.is_cancelled() && !session.process.is_over();
            session.ended.cancel();
            was_open
        })
    }

    /// Ends the sessions that nobody used for this time.
    pub(super) fn end_idle(&self, time: Duration) {
        for session in lock(&self.open).by_id.values().filter(|session| session.usage.is_idle(time)) {
            session.ended.cancel();
        }
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}
