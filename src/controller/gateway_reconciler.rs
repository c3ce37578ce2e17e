//! What is kept of a gateway between two rounds of planning, and how it is brought to its plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::apply::{ApplyError, SnapshotStore};
use super::desired::Desired;
use super::loading::Loading;
use super::marks::LAG;
use super::planned::Planned;
use super::pods::Pods;
use super::reconcile::OwnedObjects;
use super::rights::RequestError;
use super::status::{GatewayState, Pin};
use super::watches::{Seen, Watches};
use super::writer::Writer;
use crate::api::restrictions;
use crate::domain::reason::Reason;

/// The wait after what may pass, doubled until the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How often what somebody else changed or deleted is brought back at most.
const REPAIR_PERIOD: Duration = Duration::from_secs(1);
/// How often a write that somebody else's came before is tried again at once.
const MAX_CONFLICTS: usize = 5;

/// One gateway.
pub(super) struct GatewayReconciler {
    pub(super) planned: Arc<Planned>,
    pub(super) stored: SnapshotStore,
    /// What is known of loading its plugins.
    pub(super) loading: Loading,
    /// Why its objects are not as they are to be.
    pub(super) fault: Option<(Reason, String)>,
    /// When it was brought back last what somebody else had changed or deleted.
    repaired: Option<Instant>,
    /// Whether something of that is to be brought back still.
    damaged: bool,
    /// Whether all that the plan asks for was written.
    applied: bool,
    owned: OwnedObjects,
    /// After a failure that may pass: the wait, and when to try again unless its plan changes.
    retry: Option<(Duration, Instant)>,
}

impl GatewayReconciler {
    /// A new plan, of which nothing is written yet. `fault` is what stopped the one before.
    pub(super) fn new(
        planned: Planned,
        stored: SnapshotStore,
        loading: Loading,
        fault: Option<(Reason, String)>,
    ) -> Self {
        let planned = Arc::new(planned);
        Self {
            planned,
            stored,
            loading,
            fault,
            repaired: None,
            damaged: false,
            applied: false,
            owned: OwnedObjects::default(),
            retry: None,
        }
    }

    /// The same gateway with a new plan. Where that asks for nothing new, what failed is not tried any sooner.
    pub(super) fn with_plan(self, planned: Planned) -> Self {
        let (repaired, damaged) = (self.repaired, self.damaged);
        let asks_for_news = planned.wanted != self.planned.wanted;
        let (retry, owned) = if asks_for_news { Default::default() } else { (self.retry, self.owned) };
        Self { repaired, damaged, owned, retry, ..Self::new(planned, self.stored, self.loading, self.fault) }
    }

    /// Takes in what pods report. Says whether a plugin could not be loaded that has a form to go back to.
    pub(super) fn hear(&mut self, pods: &Pods) -> bool {
        self.loading.hear(&self.planned, &self.stored.revisions, pods)
    }

    /// Takes in the names of tools that pods report. Says whether the index is to be written for them.
    pub(super) fn hear_names(&mut self, pods: &Pods) -> bool {
        let news = self.stored.hear_names(&self.planned.plan, pods);
        self.applied &= !news;
        news
    }

    /// How soon to look again, whatever happens.
    pub(super) fn look_again(&self) -> Duration {
        if self.damaged { REPAIR_PERIOD } else { LAG + Duration::from_secs(1) }
    }

    /// When to try again, where that is not now.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.retry.map(|(_, when)| when).filter(|when| *when > Instant::now())
    }

    /// Writes what differs from the plan. `seen` are the snapshots that the gateway owns, as far as is seen.
    pub(super) async fn apply(&mut self, writer: &Writer, watches: &Watches, seen: &[Seen]) -> Result<(), ApplyError> {
        let owner = &self.planned.owner;
        // Somebody else may have written or deleted what is ours: then what is there is read anew, but not so often that
        // whoever does that without end keeps this process from everything else.
        self.damaged = !self.stored.is_intact(seen, owner);
        let repairs = self.damaged && self.repaired.is_none_or(|last| last.elapsed() >= REPAIR_PERIOD);
        if repairs {
            (self.repaired, self.damaged) = (Some(Instant::now()), false);
        }
        if repairs || self.retry.is_some() {
            self.stored.refresh(writer, owner).await?;
        }
        let mut written = Ok(());
        if !self.applied || repairs {
            written = self.stored.write(writer, &self.planned).await;
            for _ in 0..MAX_CONFLICTS {
                let Err(ApplyError::Request { error: RequestError::Conflict, .. }) = written else { break };
                self.stored.refresh(writer, owner).await?;
                written = self.stored.write(writer, &self.planned).await;
            }
            self.applied = written.is_ok();
        }
        // What stops the one does not stop the other.
        written.and(self.owned.apply(writer, watches, owner, Desired::of_gateway(owner)).await)
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
        let restrictions =
            index.and_then(|index| index.restrictions.as_ref()).map(|stored| restrictions::read(stored).digest());
        let pin = match &self.planned.pinned {
            Some(pinned) if current.is_some() && Some(pinned) != current.as_ref() => Pin::Lost(pinned.clone()),
            Some(_) if current != newest => Pin::Kept,
            _ => Pin::None,
        };
        GatewayState {
            planned: Arc::clone(&self.planned),
            in_force: Arc::clone(self.stored.in_force().unwrap_or(&self.planned.plan)),
            pin,
            current,
            restrictions: restrictions.unwrap_or_default(),
            revisions: self.stored.revisions.clone(),
            fault: self.fault.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::controller::compiled;
    use crate::controller::dereference::Found;
    use crate::controller::status::tests::read;
    use crate::domain::ids::Kind;

    /// A gateway with an upstream at this URL.
    fn planned(url: &str) -> Planned {
        let objects = [
            read(Kind::MCPGateway, "main", &json!({"authentication": {"anonymous": {}}}), &json!({})),
            read(Kind::MCPUpstream, "up", &json!({"external": {"url": url}}), &json!({})),
        ];
        let mut inputs = compiled::inputs(&objects, &Found::default());
        compiled::plan(&objects[0], &mut inputs, None, None, &BTreeMap::new(), &mut Loading::default())
    }

    #[test]
    fn an_edit_of_something_else_does_not_shorten_the_wait_of_a_gateway_that_fails() {
        let fails = || Err(ApplyError::Request { what: String::new(), error: RequestError::Conflict });
        let mut kept =
            GatewayReconciler::new(planned("http://up/mcp"), SnapshotStore::default(), Loading::default(), None);
        assert!(kept.note(fails()) && !kept.note(fails()));
        let (wait, _) = kept.retry.unwrap();
        assert_eq!(wait, FIRST_RETRY * 2);
        let mut kept = kept.with_plan(planned("http://up/mcp"));
        kept.note(fails());
        assert_eq!(kept.retry.unwrap().0, wait * 2);
        assert!(kept.with_plan(planned("http://other/mcp")).retry.is_none(), "its own edit is tried at once");
    }

    #[test]
    fn a_pin_says_whether_pods_run_an_older_revision_or_it_is_lost() {
        let revisions = ["new", "old"].map(|name| json!({"revision": name, "formatVersion": 1, "shards": []}));
        for (pinned, current, expected) in [
            (None, Some("new"), Pin::None),
            (Some("new"), Some("new"), Pin::None),
            (Some("old"), Some("old"), Pin::Kept),
            (Some("gone"), Some("old"), Pin::Lost("gone".into())),
            (Some("gone"), None, Pin::None),
        ] {
            let mut planned = planned("http://up/mcp");
            planned.pinned = pinned.map(ToOwned::to_owned);
            let mut kept = GatewayReconciler::new(planned, SnapshotStore::default(), Loading::default(), None);
            let index = current.map(|current| json!({"current": current, "revisions": revisions}));
            kept.stored.index = index.map(|index| serde_json::from_value(index).unwrap());
            assert_eq!(kept.state().pin, expected, "{pinned:?} {current:?}");
        }
    }
}
