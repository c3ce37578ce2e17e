//! Requests over one connection that are not answered yet, by id.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::domain::upstream::{Answer, UpstreamError};
use crate::transport::Awaited;

/// How many progress notifications may wait for one caller. While as many wait, further ones are dropped.
const PROGRESS: usize = 32;
/// The largest progress notification, in bytes of JSON. Larger ones are dropped.
const MAX_PROGRESS: usize = 64 << 10;

/// All requests that wait for an answer. Their number is limited by the number of calls that are admitted.
#[derive(Debug)]
pub(super) struct OpenRequests {
    next_id: AtomicU64,
    state: Mutex<OpenState>,
    /// Notified when no request is waiting any more.
    emptied: Notify,
}

#[derive(Debug, Default)]
struct OpenState {
    waiting: HashMap<u64, Waiter>,
    /// Streams of notifications, which are answered only when they end. Nobody waits for that.
    streams: HashMap<u64, mpsc::Sender<ListenEvent>>,
    closed: Option<UpstreamError>,
}

#[derive(Debug)]
struct Waiter {
    answer: oneshot::Sender<Result<Answer, UpstreamError>>,
    progress: mpsc::Sender<Box<RawValue>>,
}

/// What happens to a stream of notifications.
#[derive(Debug)]
pub(super) enum ListenEvent {
    /// The server reports changes of these resources.
    Acknowledged(Vec<String>),
    /// The server ended the stream with this answer.
    Ended(Answer),
}

/// The caller's side of a request.
#[derive(Debug)]
pub(super) struct OpenRequest {
    /// The request's id and progress token.
    pub(super) id: u64,
    /// The answer, or the reason why there will be none.
    pub(super) answer: oneshot::Receiver<Result<Answer, UpstreamError>>,
    pub(super) progress: mpsc::Receiver<Box<RawValue>>,
}

impl OpenRequests {
    pub(super) fn new() -> Self {
        Self { next_id: AtomicU64::new(1), state: Mutex::default(), emptied: Notify::new() }
    }

    /// Registers a request under a new id. If there will be no more answers, returns the reason.
    pub(super) fn open(&self) -> Result<OpenRequest, UpstreamError> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Err(reason.clone());
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let ((answer, answered), (progress, progressed)) = (oneshot::channel(), mpsc::channel(PROGRESS));
        state.waiting.insert(id, Waiter { answer, progress });
        Ok(OpenRequest { id, answer: answered, progress: progressed })
    }

    /// Registers a stream of notifications under a new id. If there will be no more answers, returns the reason.
    pub(super) fn listen(&self) -> Result<(u64, mpsc::Receiver<ListenEvent>), UpstreamError> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Err(reason.clone());
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        // An acknowledgement and an end.
        let (events, listened) = mpsc::channel(2);
        state.streams.insert(id, events);
        Ok((id, listened))
    }

    /// Delivers the acknowledgement of a stream of notifications. One that comes before the last one is read is dropped.
    pub(super) fn acknowledge(&self, id: u64, uris: Vec<String>) {
        if let Some(stream) = self.lock().streams.get(&id).filter(|stream| stream.capacity() == stream.max_capacity()) {
            let _ = stream.try_send(ListenEvent::Acknowledged(uris));
        }
    }

    /// Removes a stream of notifications. Returns false if it has ended.
    pub(super) fn forget_stream(&self, id: u64) -> bool {
        self.lock().streams.remove(&id).is_some()
    }

    /// Delivers an answer. Returns false if nobody waits for it.
    pub(super) fn answer(&self, id: u64, answer: Answer) -> bool {
        if let Some(stream) = self.lock().streams.remove(&id) {
            return stream.try_send(ListenEvent::Ended(answer)).is_ok();
        }
        let waiter = self.remove(&mut self.lock(), id);
        waiter.is_some_and(|w| w.answer.send(Ok(answer)).is_ok())
    }

    /// Fails a request. Returns false if nobody waits for its answer.
    pub(super) fn fail(&self, id: u64, reason: UpstreamError) -> bool {
        let waiter = self.remove(&mut self.lock(), id);
        waiter.is_some_and(|w| w.answer.send(Err(reason)).is_ok())
    }

    /// Fails the waiting request if there is exactly one. Returns false if no request or several requests wait.
    pub(super) fn fail_sole(&self, reason: UpstreamError) -> bool {
        let mut state = self.lock();
        let (1, Some(id)) = (state.waiting.len(), state.waiting.keys().next().copied()) else { return false };
        self.remove(&mut state, id).is_some_and(|w| w.answer.send(Err(reason)).is_ok())
    }

    /// Delivers progress to the caller of a request. Returns false if the progress is dropped, because it is too large
    /// or too much is waiting. This is harmless, because each notification contains the complete progress. Progress
    /// that no caller waits for is ignored.
    pub(super) fn progress(&self, token: u64, params: Box<RawValue>) -> bool {
        let state = self.lock();
        let Some(waiter) = state.waiting.get(&token) else { return true };
        params.get().len() <= MAX_PROGRESS && waiter.progress.try_send(params).is_ok()
    }

    /// Whether a request with this id was ever sent.
    pub(super) fn was_opened(&self, id: u64) -> bool {
        (1..self.next_id.load(Ordering::Relaxed)).contains(&id)
    }

    /// Removes a request whose caller no longer waits. Returns false if the request has already been answered or has
    /// failed.
    pub(super) fn forget(&self, id: u64) -> bool {
        self.remove(&mut self.lock(), id).is_some()
    }

    /// Fails all requests, waiting and future ones, with `reason`. Further calls have no effect.
    pub(super) fn close(&self, reason: UpstreamError) {
        let mut state = self.lock();
        if state.closed.is_some() {
            return;
        }
        let waiting = std::mem::take(&mut state.waiting);
        state.streams.clear();
        state.closed = Some(reason.clone());
        drop(state);
        self.emptied.notify_waiters();
        for waiter in waiting.into_values() {
            let _ = waiter.answer.send(Err(reason.clone()));
        }
    }

    /// Waits until all requests have failed, and returns why.
    pub(super) async fn closed(&self) -> UpstreamError {
        loop {
            let emptied = self.emptied.notified();
            if let Some(reason) = &self.lock().closed {
                return reason.clone();
            }
            emptied.await;
        }
    }

    /// Whether a request waits for its answer.
    pub(super) fn any_waits(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Whether answers can still arrive.
    pub(super) fn is_open(&self) -> bool {
        self.lock().closed.is_none()
    }

    fn remove(&self, state: &mut OpenState, id: u64) -> Option<Waiter> {
        let waiter = state.waiting.remove(&id);
        if state.waiting.is_empty() {
            self.emptied.notify_waiters();
        }
        waiter
    }

    fn lock(&self) -> MutexGuard<'_, OpenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Awaited for OpenRequests {
    async fn none_wait(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.lock().waiting.is_empty() {
                return;
            }
            emptied.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> Answer {
        Answer::Result(RawValue::from_string("{}".into()).unwrap())
    }

    #[tokio::test]
    async fn answers_find_their_callers_once() {
        let calls = OpenRequests::new();
        let (first, second) = (calls.open().unwrap(), calls.open().unwrap());
        assert!(calls.answer(second.id, result()));
        assert!(!calls.answer(second.id, result()), "a second answer");
        assert!(!calls.answer(99, result()), "a wrong id");
        assert!(second.answer.await.unwrap().is_ok());
        assert!(calls.forget(first.id));
        assert!(!calls.answer(first.id, result()), "an answer too late");
        assert!(calls.was_opened(first.id) && !calls.was_opened(0) && !calls.was_opened(99));
    }

    #[tokio::test]
    async fn the_end_is_told_to_all_who_wait_and_who_come() {
        let calls = OpenRequests::new();
        let waiting = calls.open().unwrap();
        calls.close(UpstreamError::Lost("first".into()));
        calls.close(UpstreamError::Lost("second".into()));
        assert_eq!(waiting.answer.await.unwrap().unwrap_err(), UpstreamError::Lost("first".into()));
        assert_eq!(calls.open().unwrap_err(), UpstreamError::Lost("first".into()));
        assert!(!calls.is_open());
    }

    #[test]
    fn progress_beyond_the_bound_is_dropped() {
        let calls = OpenRequests::new();
        let mut waiting = calls.open().unwrap();
        let taken =
            (0..PROGRESS + 5).filter(|_| calls.progress(waiting.id, RawValue::from_string("{}".into()).unwrap()));
        assert_eq!(taken.count(), PROGRESS);
        let long = format!("{{\"message\":\"{}\"}}", "x".repeat(MAX_PROGRESS));
        let mut other = calls.open().unwrap();
        assert!(!calls.progress(other.id, RawValue::from_string(long).unwrap()));
        assert!(calls.progress(99, RawValue::from_string("{}".into()).unwrap()), "nobody waits");
        assert!(other.progress.try_recv().is_err());
        assert_eq!(std::iter::from_fn(|| waiting.progress.try_recv().ok()).count(), PROGRESS);
    }
}
