//! What is kept of a gateway between two rounds of planning, and how it is brought to its plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::access;
use super::apply::{ApplyError, Stored};
use super::compiled::Planned;
use super::rights::RequestError;
use super::status::GatewayState;
use super::watches::Watches;
use super::writer::Writer;
use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// The wait after what may pass, doubled until the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How long after a write what is seen may lag behind it.
pub(super) const LAG: Duration = Duration::from_secs(10);
/// How often a write that somebody else's came before is tried again at once.
const MAX_CONFLICTS: usize = 5;

/// One gateway.
pub(super) struct Kept {
    pub(super) planned: Arc<Planned>,
    pub(super) stored: Stored,
    /// Why its objects are not as they are to be.
    pub(super) fault: Option<(Reason, String)>,
    /// When something of it was written last.
    written: Instant,
    /// Whether all that the plan asks for was written.
    applied: bool,
    /// After a failure that may pass: the wait, and when to try again unless its plan changes.
    retry: Option<(Duration, Instant)>,
}

impl Kept {
    /// A new plan, of which nothing is written yet. `fault` is what stopped the one before.
    pub(super) fn new(planned: Planned, stored: Stored, fault: Option<(Reason, String)>) -> Self {
        Self { planned: Arc::new(planned), stored, fault, written: Instant::now(), applied: false, retry: None }
    }

    /// When to try again, where that is not now.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.retry.map(|(_, when)| when).filter(|when| *when > Instant::now())
    }

    /// Writes what differs from the plan; `changed` says that the plan is new.
    pub(super) async fn apply(
        &mut self,
        writer: &Writer,
        watches: &Watches,
        key: &ObjectKey,
        changed: bool,
    ) -> Result<(), ApplyError> {
        // Somebody else may have written or deleted what is ours: then what is there is read anew.
        let foreign = self.written.elapsed() > LAG && !self.stored.is_seen(watches, key);
        if foreign || self.retry.is_some() {
            (self.stored, _) = Stored::read(writer, key).await?;
        }
        if changed || foreign {
            self.written = Instant::now();
        }
        let mut written = Ok(());
        if !self.applied || foreign {
            written = self.stored.write(writer, &self.planned).await;
            for _ in 0..MAX_CONFLICTS {
                let Err(ApplyError::Request { error: RequestError::Conflict, .. }) = written else { break };
                (self.stored, _) = Stored::read(writer, key).await?;
                written = self.stored.write(writer, &self.planned).await;
            }
            self.applied = written.is_ok();
        }
        // What stops the one does not stop the other.
        written.and(access::apply(writer, watches, &self.planned.owner).await)
    }

    /// Remembers how [`Self::apply`] went. Says whether that is news.
    pub(super) fn note(&mut self, result: Result<(), ApplyError>) -> bool {
        let fault = result.as_ref().err().map(|error| (error.reason(), error.to_string()));
        let wait = self.retry.map_or(FIRST_RETRY, |(wait, _)| (wait * 2).min(LONGEST_RETRY));
        self.retry = result.err().and_then(|error| error.again(wait)).map(|when| (wait, when));
        let is_news = fault != self.fault;
        self.fault = fault;
        is_news
    }

    /// What the loop of statuses is to know.
    pub(super) fn state(&self) -> GatewayState {
        let index = self.stored.index.as_ref();
        let current = index.map(|index| index.current.clone());
        let newest = index.and_then(|index| index.revisions.first()).map(|newest| newest.revision.clone());
        GatewayState {
            planned: Arc::clone(&self.planned),
            pinned: current != newest,
            current,
            revisions: self.stored.revisions.clone(),
            fault: self.fault.clone(),
        }
    }
}
