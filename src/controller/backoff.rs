//! How long to wait after a watch failed.

use std::time::{Duration, Instant};

use kube::core::Status;
use kube::runtime::watcher;

use super::doubling::Doubling;
use super::rights::FORBIDDEN_PAUSE;
use crate::domain::causes::causes;

/// The first pause after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const PAUSES: Doubling = Doubling::new(FIRST_WAIT, Duration::from_secs(5));
/// An API server that was gone forbids what it is asked until it has read its roles: for so long it is not believed, and
/// asked again so often.
pub(super) const STARTING: Duration = Duration::from_secs(30);
const STARTING_WAIT: Duration = Duration::from_secs(2);

/// The waits of one watch.
pub(super) struct RetryBackoff {
    pauses: Doubling,
    /// Whether the last failure was an answer.
    answers: bool,
    /// Whether the API server was gone, and has given nothing since.
    was_gone: bool,
    /// Since when it forbids the watch.
    forbidden_since: Option<Instant>,
}

impl Default for RetryBackoff {
    fn default() -> Self {
        Self { pauses: PAUSES, answers: true, was_gone: false, forbidden_since: None }
    }
}

impl RetryBackoff {
    /// After one more failure, which came at `now`.
    pub(super) fn after(&mut self, error: &watcher::Error, now: Instant) -> Duration {
        self.after_code(status(error).map(|status| status.code), now)
    }

    /// The same, after an answer with this code, or none.
    pub(super) fn after_code(&mut self, code: Option<u16>, now: Instant) -> Duration {
        let answers = code.is_some_and(|code| code < 500);
        if answers && !self.answers {
            // It is there again: what it says now has nothing to do with how long it was gone.
            self.pauses = PAUSES;
        }
        self.answers = answers;
        self.was_gone |= !answers;
        if code == Some(403) {
            let since = *self.forbidden_since.get_or_insert(now);
            let is_starting = self.was_gone && now.saturating_duration_since(since) < STARTING;
            return if is_starting { STARTING_WAIT } else { FORBIDDEN_PAUSE };
        }
        self.forbidden_since = None;
        self.pauses.pause()
    }
}

/// Whether it may not be read, or the cluster does not have it: only a person changes that.
pub(super) fn is_lasting(error: &watcher::Error) -> bool {
    status(error).is_some_and(|status| matches!(status.code, 403 | 404))
}

/// Whether the cluster does not have it.
pub(super) fn is_absent(error: &watcher::Error) -> bool {
    status(error).is_some_and(|status| status.code == 404)
}

/// What was said, without what only a debugger wants to know.
pub(super) fn words(error: &watcher::Error) -> String {
    status(error).map_or_else(|| causes(error), |status| status.message.clone())
}

/// What the API server answered; none where it did not.
fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16) -> watcher::Error {
        watcher::Error::InitialListFailed(kube::Error::Api(Status { code, ..Status::default() }.boxed()))
    }

    fn gone() -> watcher::Error {
        watcher::Error::WatchStartFailed(kube::Error::Service("nobody is there".into()))
    }

    #[test]
    fn waits_grow_and_what_is_forbidden_waits_for_a_person() {
        let (mut waits, now) = (RetryBackoff::default(), Instant::now());
        let seconds: Vec<_> = (0..7).map(|_| waits.after(&gone(), now).as_secs_f64()).collect();
        assert_eq!(seconds, [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]);
        assert_eq!(RetryBackoff::default().after(&answered(403), now), FORBIDDEN_PAUSE);
        assert_eq!(RetryBackoff::default().after(&answered(410), now), FIRST_WAIT);
    }

    #[test]
    fn an_api_server_that_comes_back_is_not_believed_at_once() {
        for error in [gone(), answered(503)] {
            let (mut waits, now) = (RetryBackoff::default(), Instant::now());
            waits.after(&error, now);
            waits.after(&error, now);
            assert_eq!(waits.after(&answered(403), now), STARTING_WAIT);
            assert_eq!(waits.after(&answered(410), now), FIRST_WAIT);
            assert_eq!(waits.after(&answered(403), now), STARTING_WAIT);
            assert_eq!(waits.after(&answered(403), now + STARTING), FORBIDDEN_PAUSE);
        }
    }
}
