//! Holds one connection to an upstream. The first request makes the connection, and the others wait for it. Each
//! request holds a [`ConnectionUse`], so that an idle connection can be recognized.

use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::log_level::LogLevel;
use crate::domain::upstream::UpstreamError;

use super::server_connection::ServerConnection;

/// How long later calls get the error of a failed attempt to connect. Without this pause, every call would start a
/// process.
const PAUSE: Duration = Duration::from_secs(1);

type Outcome = Option<Result<(), UpstreamError>>;

#[derive(Debug, Default)]
pub(super) struct ConnectionSlot {
    state: Mutex<SlotState>,
    closing: CancellationToken,
}

#[derive(Debug, Default)]
enum SlotState {
    #[default]
    Empty,
    /// The connection was closed because no call used it.
    Resting,
    Connecting(watch::Receiver<Outcome>),
    Up(Arc<LiveConnection>),
    Failed(UpstreamError, Instant),
    Closed,
}

/// A connection and the count of its users.
#[derive(Debug)]
pub(super) struct LiveConnection {
    link: ServerConnection,
    users: AtomicUsize,
    freed: Notify,
    born: Instant,
    last_used_ms: AtomicU64,
    /// The number of the connection in this process.
    number: u64,
    /// Whether [`ConnectionUse::is_new`] was asked.
    is_known: AtomicBool,
    /// The level of log messages that the server is told.
    log_level: tokio::sync::Mutex<Option<LogLevel>>,
}

/// The number of the next connection.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// What a connection is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A call, which keeps the connection from becoming idle.
    Call,
    /// A probe or a tool list that the gateway requests on its own. It does not restart the idle time.
    Maintenance,
}

/// One use of the connection. While this value exists, the connection is not closed as idle.
#[derive(Debug)]
pub(super) struct ConnectionUse {
    live: Arc<LiveConnection>,
    purpose: Purpose,
}

impl Deref for ConnectionUse {
    type Target = ServerConnection;
    fn deref(&self) -> &ServerConnection {
        &self.live.link
    }
}

impl ConnectionUse {
    fn new(live: &Arc<LiveConnection>, purpose: Purpose) -> Self {
        live.users.fetch_add(1, Ordering::AcqRel);
        Self { live: Arc::clone(live), purpose }
    }

    /// The number of the connection in this process.
    pub(super) fn number(&self) -> u64 {
        self.live.number
    }

    /// Whether nobody has asked this of the connection before.
    pub(super) fn is_new(&self) -> bool {
        !self.live.is_known.swap(true, Ordering::AcqRel)
    }

    /// The level of log messages that the server was asked for over this connection; `None` if it was not asked.
    pub(super) fn log_level(&self) -> &tokio::sync::Mutex<Option<LogLevel>> {
        &self.live.log_level
    }

    /// Whether nothing else uses the connection.
    pub(super) fn is_sole(&self) -> bool {
        self.live.users.load(Ordering::Acquire) == 1
    }
}

impl Drop for ConnectionUse {
    fn drop(&mut self) {
        if self.purpose == Purpose::Call {
            let age = u64::try_from(self.live.born.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.live.last_used_ms.store(age, Ordering::Release);
        }
        if self.live.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.live.freed.notify_waiters();
        }
    }
}

impl LiveConnection {
    fn new(link: ServerConnection) -> Self {
        let (users, freed, last_used_ms) = (AtomicUsize::new(0), Notify::new(), AtomicU64::new(0));
        let (number, is_known) = (NEXT_NUMBER.fetch_add(1, Ordering::Relaxed), AtomicBool::new(false));
        Self {
            link,
            users,
            freed,
            born: Instant::now(),
            last_used_ms,
            number,
            is_known,
            log_level: tokio::sync::Mutex::default(),
        }
    }

    /// How long ago a call last used the connection, or how old the connection is if no call has used it. `None` while
    /// anything uses it.
    fn idle(&self) -> Option<Duration> {
        let last_used = Duration::from_millis(self.last_used_ms.load(Ordering::Acquire));
        (self.users.load(Ordering::Acquire) == 0).then(|| self.born.elapsed().saturating_sub(last_used))
    }

    async fn unused(&self) {
        loop {
            let freed = self.freed.notified();
            if self.users.load(Ordering::Acquire) == 0 {
                return;
            }
            freed.await;
        }
    }
}

enum ConnectionClaim {
    Up(ConnectionUse),
    Failed(UpstreamError),
    Wait(watch::Receiver<Outcome>),
    Start(watch::Sender<Outcome>, watch::Receiver<Outcome>),
}

impl ConnectionSlot {
    /// Returns a use of the connection, if it is open.
    pub(super) fn current(&self, purpose: Purpose) -> Option<ConnectionUse> {
        match &*self.lock() {
            SlotState::Up(live) if live.link.is_open() => Some(ConnectionUse::new(live, purpose)),
            _ => None,
        }
    }

    /// Whether the connection was closed because no call used it.
    pub(super) fn rests(&self) -> bool {
        matches!(*self.lock(), SlotState::Resting)
    }

    /// Whether there is a connection, or one is being made.
    pub(super) fn is_in_use(&self) -> bool {
        match &*self.lock() {
            SlotState::Up(live) => live.link.is_open(),
            SlotState::Connecting(outcome) => outcome.has_changed().is_ok(),
            SlotState::Empty | SlotState::Resting | SlotState::Failed(..) | SlotState::Closed => false,
        }
    }

    /// How long no call has used the connection; `None` if there is none or anything uses it.
    pub(super) fn idle(&self) -> Option<Duration> {
        if let SlotState::Up(live) = &*self.lock() { live.idle() } else { None }
    }

    /// Stops new requests from using this connection. The connection is closed when the requests that use it now have
    /// ended.
    pub(super) fn discard(&self, lease: &ConnectionUse) {
        let mut state = self.lock();
        if matches!(&*state, SlotState::Up(live) if Arc::ptr_eq(live, &lease.live)) {
            *state = SlotState::Empty;
        }
    }

    /// Returns a use of the connection. If there is no connection, a separate task makes one with `connect`, so that
    /// other callers still get the connection if this caller gives up. If an attempt has failed within the last second,
    /// returns its error again, unless `insist` is set.
    pub(super) async fn lease<F>(
        self: &Arc<Self>,
        tasks: &TaskTracker,
        purpose: Purpose,
        insist: bool,
        connect: impl FnOnce() -> F,
    ) -> Result<ConnectionUse, UpstreamError>
    where
        F: Future<Output = Result<ServerConnection, UpstreamError>> + Send + 'static,
    {
        let mut outcome = match self.find(purpose, insist) {
            ConnectionClaim::Up(lease) => return Ok(lease),
            ConnectionClaim::Failed(error) => return Err(error),
            ConnectionClaim::Wait(outcome) => outcome,
            ConnectionClaim::Start(done, outcome) => {
                let (slot, connecting) = (Arc::clone(self), connect());
                tasks.spawn(async move {
                    let made = tokio::select! {
                        made = connecting => made,
                        () = slot.closing.cancelled() => Err(gone()),
                    };
                    done.send_replace(Some(slot.settle(made)));
                });
                outcome
            }
        };
        let outcome = match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone(),
            Err(_) => None,
        };
        outcome.unwrap_or_else(|| Err(UpstreamError::Connect("connecting was given up".into())))?;
        self.current(purpose)
            .ok_or_else(|| UpstreamError::Connect("the connection ended as soon as it was made".into()))
    }

    fn find(&self, purpose: Purpose, insist: bool) -> ConnectionClaim {
        let mut state = self.lock();
        match &*state {
            SlotState::Up(live) if live.link.is_open() => {
                return ConnectionClaim::Up(ConnectionUse::new(live, purpose));
            }
            SlotState::Connecting(outcome) if outcome.has_changed().is_ok() => {
                return ConnectionClaim::Wait(outcome.clone());
            }
            SlotState::Failed(error, at) if !insist && at.elapsed() < PAUSE => {
                return ConnectionClaim::Failed(error.clone());
            }
            SlotState::Closed => return ConnectionClaim::Failed(gone()),
            _ => {}
        }
        let (done, outcome) = watch::channel(None);
        *state = SlotState::Connecting(outcome.clone());
        ConnectionClaim::Start(done, outcome)
    }

    fn settle(&self, made: Result<ServerConnection, UpstreamError>) -> Result<(), UpstreamError> {
        let mut state = self.lock();
        if matches!(*state, SlotState::Closed) {
            return Err(gone());
        }
        match made {
            Ok(link) => {
                *state = SlotState::Up(Arc::new(LiveConnection::new(link)));
                Ok(())
            }
            Err(error) => {
                *state = SlotState::Failed(error.clone(), Instant::now());
                Err(error)
            }
        }
    }

    /// Closes the connection if no call has used it for `limit`. Returns whether it did.
    pub(super) fn evict_idle(&self, limit: Duration) -> bool {
        let mut state = self.lock();
        let is_idle = matches!(&*state, SlotState::Up(live) if live.idle().is_some_and(|idle| idle >= limit));
        if is_idle {
            *state = SlotState::Resting;
        }
        is_idle
    }

    /// Refuses new calls, waits up to `patience` for those in flight, and ends the connection.
    pub(super) async fn close(&self, patience: Duration) {
        let last = std::mem::replace(&mut *self.lock(), SlotState::Closed);
        self.closing.cancel();
        if let SlotState::Up(live) = last {
            // If some requests are still waiting after `patience`, the connection is ended nevertheless.
            let _ = tokio::time::timeout(patience, live.unused()).await;
            live.link.stop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone() -> UpstreamError {
    UpstreamError::Connect("it is no longer configured".into())
}
