//! The place of an upstream's one connection: who asks first makes it, the others wait for it, and whoever uses it
//! holds a lease, so that it is seen when nobody does.

use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::upstream::UpstreamError;

use super::link::Link;

/// For how long a failure to connect answers the calls that follow, lest each call starts a process of its own.
const PAUSE: Duration = Duration::from_secs(1);

type Outcome = Option<Result<(), UpstreamError>>;

/// Where the one connection is.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<State>,
    closing: CancellationToken,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Empty,
    /// It was closed because nobody used it.
    Resting,
    Connecting(watch::Receiver<Outcome>),
    Up(Arc<Live>),
    Failed(UpstreamError, Instant),
    Closed,
}

/// A connection and who uses it.
#[derive(Debug)]
pub(super) struct Live {
    link: Link,
    users: AtomicUsize,
    freed: Notify,
    born: Instant,
    last_used_ms: AtomicU64,
}

/// What a connection is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A call, which keeps it from being idle.
    Call,
    /// A probe or a list of the gateway's own, which does not.
    Care,
}

/// The right to use a connection; it is not closed for idleness meanwhile.
#[derive(Debug)]
pub(super) struct Lease {
    live: Arc<Live>,
    purpose: Purpose,
}

impl Deref for Lease {
    type Target = Link;
    fn deref(&self) -> &Link {
        &self.live.link
    }
}

impl Lease {
    fn new(live: &Arc<Live>, purpose: Purpose) -> Self {
        live.users.fetch_add(1, Ordering::AcqRel);
        Self { live: Arc::clone(live), purpose }
    }

    /// Whether nobody else uses the connection.
    pub(super) fn is_sole(&self) -> bool {
        self.live.users.load(Ordering::Acquire) == 1
    }
}

impl Drop for Lease {
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

impl Live {
    fn new(link: Link) -> Self {
        let (users, freed, last_used_ms) = (AtomicUsize::new(0), Notify::new(), AtomicU64::new(0));
        Self { link, users, freed, born: Instant::now(), last_used_ms }
    }

    /// How long nobody has used it; none while somebody does.
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

enum Found {
    Up(Lease),
    Failed(UpstreamError),
    Wait(watch::Receiver<Outcome>),
    Start(watch::Sender<Outcome>, watch::Receiver<Outcome>),
}

impl Slot {
    /// The connection as it is, where it is open.
    pub(super) fn current(&self, purpose: Purpose) -> Option<Lease> {
        match &*self.lock() {
            State::Up(live) if live.link.is_open() => Some(Lease::new(live, purpose)),
            _ => None,
        }
    }

    /// Whether the connection was closed because nobody used it.
    pub(super) fn rests(&self) -> bool {
        matches!(*self.lock(), State::Resting)
    }

    /// Lets no new request use this connection. It ends with the requests that use it now.
    pub(super) fn discard(&self, lease: &Lease) {
        let mut state = self.lock();
        if matches!(&*state, State::Up(live) if Arc::ptr_eq(live, &lease.live)) {
            *state = State::Empty;
        }
    }

    /// The connection, made by `connect` where there is none. It is made in a task of its own, so that a caller who
    /// gives up does not end what others wait for. Unless the caller insists, a failure of the last second is its
    /// answer.
    pub(super) async fn lease<F>(
        self: &Arc<Self>,
        tasks: &TaskTracker,
        purpose: Purpose,
        insist: bool,
        connect: impl FnOnce() -> F,
    ) -> Result<Lease, UpstreamError>
    where
        F: Future<Output = Result<Link, UpstreamError>> + Send + 'static,
    {
        let mut outcome = match self.find(purpose, insist) {
            Found::Up(lease) => return Ok(lease),
            Found::Failed(error) => return Err(error),
            Found::Wait(outcome) => outcome,
            Found::Start(done, outcome) => {
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

    fn find(&self, purpose: Purpose, insist: bool) -> Found {
        let mut state = self.lock();
        match &*state {
            State::Up(live) if live.link.is_open() => return Found::Up(Lease::new(live, purpose)),
            State::Connecting(outcome) if outcome.has_changed().is_ok() => return Found::Wait(outcome.clone()),
            State::Failed(error, at) if !insist && at.elapsed() < PAUSE => return Found::Failed(error.clone()),
            State::Closed => return Found::Failed(gone()),
            _ => {}
        }
        let (done, outcome) = watch::channel(None);
        *state = State::Connecting(outcome.clone());
        Found::Start(done, outcome)
    }

    fn settle(&self, made: Result<Link, UpstreamError>) -> Result<(), UpstreamError> {
        let mut state = self.lock();
        if matches!(*state, State::Closed) {
            return Err(gone());
        }
        match made {
            Ok(link) => {
                *state = State::Up(Arc::new(Live::new(link)));
                Ok(())
            }
            Err(error) => {
                *state = State::Failed(error.clone(), Instant::now());
                Err(error)
            }
        }
    }

    /// Takes the connection out where nobody has used it for `limit`. Its end closes it.
    pub(super) fn evict_idle(&self, limit: Duration) {
        let mut state = self.lock();
        if matches!(&*state, State::Up(live) if live.idle().is_some_and(|idle| idle >= limit)) {
            *state = State::Resting;
        }
    }

    /// Lets no new call in, waits up to `patience` for those in flight, and ends the connection.
    pub(super) async fn close(&self, patience: Duration) {
        let last = std::mem::replace(&mut *self.lock(), State::Closed);
        self.closing.cancel();
        if let State::Up(live) = last {
            // Either way it is ended now: what still waits is told so.
            let _ = tokio::time::timeout(patience, live.unused()).await;
            live.link.stop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone() -> UpstreamError {
    UpstreamError::Connect("it is no longer configured".into())
}
