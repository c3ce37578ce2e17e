//! Schedules retries after an object or a file could not be read. No event announces that an object or file has become
//! readable, so everything is read again after a pause.

use std::time::Duration;

use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::source::DoublingBackoff;

/// The pauses between retries: the first one, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The retries of one loop. `wait` is the current pause, or `None` if nothing must be read again.
pub struct Again {
    waits: DoublingBackoff,
    wait: Option<Duration>,
}

impl Again {
    /// Makes an instance in which no retry is scheduled.
    pub fn new() -> Self {
        Self { waits: DoublingBackoff::new(FIRST_WAIT, LONGEST_WAIT), wait: None }
    }

    /// Schedules a retry if one of the Problems has the reason `Unreadable`, which can be temporary. Otherwise, cancels
    /// the retry and resets the pauses.
    pub fn after<'p>(&mut self, mut problems: impl Iterator<Item = &'p Problem>) {
        let is_passing = problems.any(|problem| problem.reason == Reason::Unreadable);
        if !is_passing {
            *self = Self::new();
        } else {
            self.wait = self.waits.next();
        }
    }

    /// Waits until the next retry is due, or forever if no retry is scheduled.
    pub async fn due(&self) {
        match self.wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::domain::ids::{Kind, ObjectId, ObjectKey};

    #[test]
    fn what_cannot_be_read_is_tried_less_and_less_often() {
        let problem = |reason| {
            let id = ObjectId::new(Kind::Plugin, ObjectKey::new("default", "p"));
            Problem::error(reason, id, "spec.source", String::new())
        };
        let (unreadable, other) = (problem(Reason::Unreadable), problem(Reason::SyntaxError));
        let mut again = Again::new();
        let mut waits = Vec::new();
        for _ in 0..7 {
            again.after([&other, &unreadable].into_iter());
            waits.push(again.wait.unwrap().as_secs());
        }
        assert!(waits[0] <= 1 && waits.is_sorted() && (60..=90).contains(waits.last().unwrap()), "{waits:?}");
        again.after([&other].into_iter());
        assert!(again.due().now_or_never().is_none() && again.wait.is_none());
        again.after([&unreadable].into_iter());
        assert!(again.wait.unwrap() <= FIRST_WAIT * 2, "what failed long ago says nothing of this");
    }
}
