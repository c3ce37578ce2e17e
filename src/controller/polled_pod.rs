//! The polling state of one pod: its last report, and when it is polled again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::doubling::Doubling;
use super::pod::TaggedReport;
use super::pods::Reported;

/// The time between two polls of a pod that answers. The condition `Programmed` must be up to date within 2 s.
pub(super) const PERIOD: Duration = Duration::from_millis(500);
/// The pauses while a pod does not answer.
const PAUSES: Doubling = Doubling::new(PERIOD, Duration::from_secs(8));
/// How long a report stays in use if no newer one arrives.
const COUNTS: Duration = Duration::from_secs(5);
/// How long the first answer of a pod is awaited after the pod was found. After that, it is reported that there is
/// none.
const FIRST: Duration = Duration::from_secs(2);

pub(super) struct PolledPod {
    /// The last report, and when it arrived.
    said: Option<(TaggedReport, Instant)>,
    /// Why the last request failed, if it did.
    fault: Option<String>,
    pauses: Doubling,
    again: Instant,
    found: Instant,
    is_under_way: bool,
}

impl PolledPod {
    /// Creates the state of a pod that was found at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self { said: None, fault: None, pauses: PAUSES, again: now, found: now, is_under_way: false }
    }

    /// Whether the pod answered the last request.
    pub(super) fn answers(&self) -> bool {
        self.said.is_some() && self.fault.is_none()
    }

    /// Returns the last report.
    pub(super) fn said(&self) -> Option<&TaggedReport> {
        self.said.as_ref().map(|(answer, _)| answer)
    }

    /// Marks a request as in progress if one is due. Returns whether it did; the caller then sends the request.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        let begins = !self.is_under_way && self.again <= now;
        self.is_under_way |= begins;
        begins
    }

    /// Whether a request is in progress.
    #[cfg(test)]
    pub(super) fn is_waited_for(&self) -> bool {
        self.is_under_way
    }

    /// Records the result of a request. Returns whether it differs from the previous result.
    pub(super) fn end(&mut self, answer: Result<TaggedReport, String>, now: Instant) -> bool {
        self.is_under_way = false;
        match answer {
            Ok(answer) => {
                let same = self.said().is_some_and(|(_, known)| *known == answer.1);
                (self.pauses, self.again, self.said) = (PAUSES, now, Some((answer, now)));
                self.fault.take().is_some() || !same
            }
            Err(why) => {
                self.again = self.pauses.after(now);
                self.fault.replace(why) != self.fault
            }
        }
    }

    /// Returns the report to use, or why there is none. When the pod stops answering, its last report stays in use for
    /// [`COUNTS`]. `None` while the first answer is awaited.
    pub(super) fn counts(&self, now: Instant) -> Option<Result<Arc<Reported>, String>> {
        match (&self.said, &self.fault) {
            (Some(((_, report), at)), _) if now.saturating_duration_since(*at) < COUNTS => Some(Ok(Arc::clone(report))),
            (_, Some(why)) => Some(Err(why.clone())),
            _ if now.saturating_duration_since(self.found) < FIRST => None,
            _ => {
                let why = "it waits to be asked: there is no token to show it yet, or too many pods of its gateway do \
                           not answer";
                Some(Err(why.to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::report::Report;

    fn answer() -> TaggedReport {
        ("tag".into(), Arc::new(Reported::new(Report::default())))
    }

    fn silent() -> Result<TaggedReport, String> {
        Err("it does not answer".to_owned())
    }

    #[test]
    fn what_a_pod_said_last_counts_for_a_while_after_it_stops_answering() {
        let began = Instant::now();
        let mut asked = PolledPod::new(began);
        assert!(asked.counts(began).is_none(), "it is waited for");
        assert!(asked.end(silent(), began) && asked.counts(began).unwrap().is_err());
        assert!(asked.end(Ok(answer()), began) && !asked.end(Ok(answer()), began));
        for _ in 0..4 {
            asked.end(silent(), began + COUNTS - Duration::from_millis(1));
            assert!(asked.counts(began + COUNTS - Duration::from_millis(1)).unwrap().is_ok());
        }
        // Failed requests do not extend this time.
        assert!(asked.counts(began + COUNTS).unwrap().is_err());
    }

    #[test]
    fn one_that_does_not_answer_is_asked_more_and_more_seldom_until_it_does() {
        let mut now = Instant::now();
        let mut asked = PolledPod::new(now);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert!(asked.begin(now) && !asked.begin(now), "it is asked once at a time");
            asked.end(silent(), now);
            pauses.push(asked.again.duration_since(now).as_millis());
            now = asked.again;
            assert!(!asked.begin(now.checked_sub(Duration::from_millis(1)).unwrap()));
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 8000, 8000]);
        assert!(asked.begin(now) && asked.end(Ok(answer()), now) && asked.begin(now));
    }

    #[test]
    fn a_pod_that_is_not_asked_in_time_is_told_of() {
        let began = Instant::now();
        let asked = PolledPod::new(began);
        assert!(asked.counts(began + FIRST).unwrap().unwrap_err().contains("waits to be asked"));
    }
}
