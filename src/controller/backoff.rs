//! The pauses before a failed watch is restarted.

use std::time::{Duration, Instant};

use kube::core::Status;
use kube::runtime::watcher;

use super::doubling::Doubling;
use super::rights::FORBIDDEN_PAUSES;
use crate::domain::causes::causes;

/// The first pause after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const PAUSES: Doubling = Doubling::new(FIRST_WAIT, Duration::from_secs(5));
/// The pauses for forbidden requests start over if no request was forbidden for twice the last pause plus this time.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// The retry pauses of one watch.
pub(super) struct RetryBackoff {
    pauses: Doubling,
    /// Whether the API server answered the last failed request with a status below 500.
    answers: bool,
    /// The pauses while requests are forbidden. A list that succeeds does not reset them, because the watch that
    /// follows it can still be forbidden.
    forbidden: Doubling,
    /// When the pauses for forbidden requests start over.
    forgotten: Option<Instant>,
}

impl Default for RetryBackoff {
    fn default() -> Self {
        Self { pauses: PAUSES, answers: true, forbidden: FORBIDDEN_PAUSES, forgotten: None }
    }
}

impl RetryBackoff {
    /// Notes a successful answer.
    pub(super) fn worked(&mut self) {
        (self.pauses, self.answers) = (PAUSES, true);
    }

    /// Returns how long to wait after a failure at `now`.
    pub(super) fn after(&mut self, error: &watcher::Error, now: Instant) -> Duration {
        self.after_code(status(error).map(|status| status.code), now)
    }

    /// Like [`Self::after`], for an answer with this status code; `None` means that there was no answer.
    pub(super) fn after_code(&mut self, code: Option<u16>, now: Instant) -> Duration {
        let answers = code.is_some_and(|code| code < 500);
        if answers && !self.answers {
            // The API server is back. How long it was unreachable has nothing to do with this failure.
            self.pauses = PAUSES;
        }
        self.answers = answers;
        if code != Some(403) {
            return self.pauses.pause();
        }
        if self.forgotten.is_some_and(|forgotten| now > forgotten) {
            self.forbidden = FORBIDDEN_PAUSES;
        }
        let pause = self.forbidden.pause();
        self.forgotten = Some(now + 2 * pause + FORGOTTEN);
        pause
    }
}

/// Whether the resource is forbidden, or unknown to the cluster. Only a person can change either.
pub(super) fn is_lasting(error: &watcher::Error) -> bool {
    status(error).is_some_and(|status| matches!(status.code, 403 | 404))
}

/// Whether the API server forbids it.
pub(super) fn is_forbidden(error: &watcher::Error) -> bool {
    status(error).is_some_and(|status| status.code == 403)
}

/// Whether the cluster does not know the resource.
pub(super) fn is_absent(error: &watcher::Error) -> bool {
    status(error).is_some_and(|status| status.code == 404)
}

/// Describes a failure: returns the API server's message if it answered, otherwise the chain of causes.
pub(super) fn words(error: &watcher::Error) -> String {
    status(error).map_or_else(|| causes(error), |status| status.message.clone())
}

/// Returns the API server's answer; `None` if it did not answer.
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
    fn waits_grow_up_to_five_seconds_and_up_to_a_minute_while_it_is_forbidden() {
        let pauses = |error: fn() -> watcher::Error| {
            let (mut waits, now) = (RetryBackoff::default(), Instant::now());
            [(); 8].map(|()| waits.after(&error(), now).as_secs_f64())
        };
        assert_eq!(pauses(gone), [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]);
        assert_eq!(pauses(|| answered(403)), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        assert_eq!(RetryBackoff::default().after(&answered(410), Instant::now()), FIRST_WAIT);
    }

    #[test]
    fn an_api_server_that_answers_again_begins_anew() {
        let (mut waits, now) = (RetryBackoff::default(), Instant::now());
        waits.after(&gone(), now);
        waits.after(&gone(), now);
        assert_eq!(waits.after(&answered(410), now), FIRST_WAIT);
    }

    #[test]
    fn a_watch_that_is_forbidden_after_each_list_is_tried_less_and_less_often() {
        let (mut waits, mut now) = (RetryBackoff::default(), Instant::now());
        for wanted in [1, 2, 4, 8, 16, 32, 60, 60] {
            waits.worked();
            let pause = waits.after(&answered(403), now);
            assert_eq!(pause.as_secs(), wanted);
            now += pause;
        }
        waits.worked();
        assert_eq!(waits.after(&answered(403), now + Duration::from_secs(200)).as_secs(), 1);
    }

    #[test]
    fn an_api_server_that_restarts_twice_is_asked_soon_both_times() {
        let (mut waits, mut now) = (RetryBackoff::default(), Instant::now());
        for _ in 0..2 {
            for wanted in [1, 2, 4] {
                let pause = waits.after(&answered(403), now);
                assert_eq!(pause.as_secs(), wanted);
                now += pause;
            }
            waits.worked();
            now += Duration::from_secs(20);
        }
    }
}
