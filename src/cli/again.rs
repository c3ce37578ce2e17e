//! When to read again what could not be read and may be readable soon: nothing tells when it is.

use std::time::Duration;

use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::source::DoublingBackoff;

/// The waits between two tries.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The waits of one loop, and the one that runs: none where everything could be read.
pub struct Again {
    waits: DoublingBackoff,
    wait: Option<Duration>,
}

impl Again {
    /// Nothing was read yet.
    pub fn new() -> Self {
        Self { waits: DoublingBackoff::new(FIRST_WAIT, LONGEST_WAIT), wait: None }
    }

    /// After a reading that found these.
    pub fn after<'p>(&mut self, mut problems: impl Iterator<Item = &'p Problem>) {
        let is_passing = problems.any(|problem| problem.reason == Reason::Unreadable);
        if !is_passing {
            *self = Self::new();
        } else {
            self.wait = self.waits.next();
        }
    }

    /// Waits until something must be read again; forever if nothing must.
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
