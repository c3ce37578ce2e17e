//! Keeps the state of a gateway between planning rounds, and brings its objects in line with its plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::apply::{ApplyError, SnapshotStore};
use super::desired::Desired;
use super::doubling::Doubling;
use super::load_reports::LoadReports;
use super::planned_gateway::PlannedGateway;
use super::pods::Pods;
use super::reconcile::OwnedObjects;
use super::rights::RequestError;
use super::seen_marks::LAG;
use super::status::{GatewayState, Pin};
use super::watches::{Seen, Watches};
use super::writer::Writer;
use crate::api::restrictions;
use crate::domain::reason::Reason;

/// The first pause after a transient failure. Later pauses double, up to `LONGEST_RETRY`.
const FIRST_RETRY: Duration = Duration::from_secs(1);
pub(super) const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The shortest time between two repairs of objects that someone else changed or deleted.
const REPAIR_PERIOD: Duration = Duration::from_secs(1);
/// The shortest time between two writes of the index for tool names alone: names arrive one by one while servers start.
const NAMES_PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of immediate retries of a write that conflicted with another client's.
const MAX_CONFLICTS: usize = 5;

/// Brings the objects of one gateway in line with its plan.
pub(super) struct GatewayReconciler {
    pub(super) planned: Arc<PlannedGateway>,
    pub(super) stored: SnapshotStore,
    /// The pods' reports about loading the gateway's plugins.
    pub(super) loading: LoadReports,
    /// Why the gateway's objects are not up to date, if they are not.
    pub(super) fault: Option<(Reason, String)>,
    /// When objects that someone else had changed or deleted were last repaired.
    repaired: Option<Instant>,
    /// Whether such a repair is still due.
    damaged: bool,
    /// Whether everything that the plan requires was written.
    applied: bool,
    owned: OwnedObjects,
    /// Whether new tool names wait to be written.
    named: bool,
    /// When tool names were last written.
    names_written: Option<Instant>,
    /// After a transient failure: the pauses, and when to try again unless the plan changes.
    retry: Option<(Doubling, Instant)>,
}

impl GatewayReconciler {
    /// Starts with a plan of which nothing is written yet. `fault` is the reason why the previous plan could not be
    /// applied.
    pub(super) fn new(
        planned: PlannedGateway,
        stored: SnapshotStore,
        loading: LoadReports,
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
            named: false,
            names_written: None,
            retry: None,
        }
    }

    /// Replaces the plan. If the new plan requires the same objects, a pending retry keeps its time.
    pub(super) fn with_plan(self, planned: PlannedGateway) -> Self {
        let (repaired, damaged) = (self.repaired, self.damaged);
        let (named, names_written) = (self.named, self.names_written);
        let asks_for_news = planned.wanted != self.planned.wanted;
        let (retry, owned) = if asks_for_news { Default::default() } else { (self.retry, self.owned) };
        Self {
            repaired,
            damaged,
            owned,
            named,
            names_written,
            retry,
            ..Self::new(planned, self.stored, self.loading, self.fault)
        }
    }

    /// Processes the pods' reports about loading plugins. Returns whether a further plugin failed to load that has an
    /// earlier form to go back to.
    pub(super) fn hear(&mut self, pods: &Pods) -> bool {
        self.loading.hear(&self.planned, &self.stored.revisions, pods)
    }

    /// Adds the tool names that pods report. If any of them is new, the index is due to be written.
    pub(super) fn hear_names(&mut self, pods: &Pods) {
        self.named |= self.stored.hear_names(&self.planned.plan, pods);
    }

    /// Returns when to write the index for tool names alone; `None` if there are no new ones, or if everything has to
    /// be written.
    fn names_due(&self) -> Option<Instant> {
        let earliest = self.names_written.map_or_else(Instant::now, |last| last + NAMES_PERIOD);
        (self.named && self.applied && self.retry.is_none()).then_some(earliest)
    }

    /// Returns how long to wait before the stored objects are checked again, even if nothing changes.
    pub(super) fn look_again(&self) -> Duration {
        let wait = if self.damaged { REPAIR_PERIOD } else { LAG + Duration::from_secs(1) };
        self.names_due().map_or(wait, |due| wait.min(due.saturating_duration_since(Instant::now())))
    }

    /// Writes the tool names that still wait, before this process ends.
    pub(super) async fn write_names(&mut self, writer: &Writer) -> Result<(), ApplyError> {
        match std::mem::take(&mut self.named) {
            true => self.stored.write_names(writer, &self.planned.owner).await,
            false => Ok(()),
        }
    }

    /// Returns when to try again; `None` if no retry is pending, or if it is due now.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.retry.map(|(_, when)| when).filter(|when| *when > Instant::now())
    }

    /// Writes what differs from the plan. `seen` are the gateway's snapshots that the watch shows.
    pub(super) async fn apply(&mut self, writer: &Writer, watches: &Watches, seen: &[Seen]) -> Result<(), ApplyError> {
        let owner = &self.planned.owner;
        // If someone else changed or deleted the gateway's objects, they are read again, but at most once per
        // [`REPAIR_PERIOD`], so that a client that does this endlessly does not keep this process from all other
        // work.
        self.damaged = !self.stored.is_intact(seen, owner);
        let repairs = self.damaged && self.repaired.is_none_or(|last| last.elapsed() >= REPAIR_PERIOD);
        if repairs {
            (self.repaired, self.damaged) = (Some(Instant::now()), false);
        }
        if repairs || self.retry.is_some() {
            self.refresh(writer).await?;
        }
        let written = self.write(writer, repairs).await;
        // The other owned objects are applied even if writing the snapshot failed.
        let owner = &self.planned.owner;
        written.and(self.owned.apply(writer, watches, owner, Desired::of_gateway(owner)).await)
    }

    /// Reads the stored objects again. They can differ from what was written, so the next write compares all of them.
    async fn refresh(&mut self, writer: &Writer) -> Result<(), ApplyError> {
        self.applied = false;
        self.stored.refresh(writer, &self.planned.owner).await
    }

    /// Writes the snapshot if the plan is not applied yet or `repairs` is set, otherwise only the tool names that are
    /// due.
    async fn write(&mut self, writer: &Writer, repairs: bool) -> Result<(), ApplyError> {
        let mut written = Ok(());
        if !self.applied || repairs {
            written = self.stored.write(writer, &self.planned).await;
            for _ in 0..MAX_CONFLICTS {
                let Err(ApplyError::Request { error: RequestError::Conflict, .. }) = written else { break };
                self.refresh(writer).await?;
                written = self.stored.write(writer, &self.planned).await;
            }
        } else if self.names_due().is_some_and(|due| due <= Instant::now()) {
            written = self.stored.write_names(writer, &self.planned.owner).await;
        } else {
            return written;
        }
        // If writing the names failed, the next attempt writes everything.
        self.applied = written.is_ok();
        self.note_names(self.applied);
        written
    }

    /// Notes that tool names were written, if any were waiting.
    fn note_names(&mut self, written: bool) {
        if written && std::mem::take(&mut self.named) {
            self.names_written = Some(Instant::now());
        }
    }

    /// Records the result of [`Self::apply`]. Returns whether the fault changed.
    pub(super) fn note(&mut self, result: Result<(), ApplyError>, now: Instant) -> bool {
        let fault = result.as_ref().err().map(|error| (error.reason(), error.to_string()));
        let mut pauses = self.retry.map_or(Doubling::new(FIRST_RETRY, LONGEST_RETRY), |(pauses, _)| pauses);
        let pause = pauses.pause();
        self.retry = result.err().and_then(|error| error.again(now, pause)).map(|when| (pauses, when));
        let is_news = fault != self.fault;
        self.fault = fault;
        is_news
    }

    /// Returns the state that the status loop needs.
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

    use serde_json::{Value, json};

    use super::*;
    use crate::controller::apply::tests::urgent::{Sent, api_server};
    use crate::controller::compiled;
    use crate::controller::dereference::Dereferenced;
    use crate::controller::pods::Reported;
    use crate::controller::status::tests::read;
    use crate::domain::ids::{Kind, ObjectKey};
    use crate::domain::report::Report;

    /// Returns a gateway with an upstream at this URL.
    fn planned(url: &str) -> PlannedGateway {
        let spec = json!({"authentication": {"anonymous": {}}, "upstreams": {"prefix": "OnConflict"}});
        let objects = [
            read(Kind::MCPGateway, "main", &spec, &json!({})),
            read(Kind::MCPUpstream, "up", &json!({"external": {"url": url}}), &json!({})),
        ];
        let mut inputs = compiled::inputs(&objects, &Dereferenced::default());
        compiled::plan(&objects[0], &mut inputs, None, None, &BTreeMap::new(), &mut LoadReports::default())
    }

    #[test]
    fn an_edit_of_something_else_does_not_shorten_the_wait_of_a_gateway_that_fails() {
        let fails = || Err(ApplyError::Request { what: String::new(), error: RequestError::Conflict });
        let mut kept =
            GatewayReconciler::new(planned("http://up/mcp"), SnapshotStore::default(), LoadReports::default(), None);
        let now = Instant::now();
        assert!(kept.note(fails(), now) && !kept.note(fails(), now));
        let again = |kept: &GatewayReconciler| kept.retry.map(|(_, again)| again.duration_since(now));
        assert_eq!(again(&kept), Some(FIRST_RETRY * 2));
        let mut kept = kept.with_plan(planned("http://up/mcp"));
        kept.note(fails(), now);
        assert_eq!(again(&kept), Some(FIRST_RETRY * 4));
        assert!(kept.with_plan(planned("http://other/mcp")).retry.is_none(), "its own edit is tried at once");
    }

    /// Lets a pod report this tool name.
    fn hear(kept: &mut GatewayReconciler, name: &str) {
        let mut report = Report::default();
        report.seen_names.add(&ObjectKey::new("ns", "up"), [name]);
        let ready = [("pod".to_owned(), Ok(Arc::new(Reported::new(report))))];
        kept.hear_names(&Pods { all: 1, ready: ready.into() });
    }

    /// For each object that was sent, returns the number of tool names in its index and the index's current revision.
    fn indexes(sent: &Sent) -> Vec<(usize, String)> {
        let sent = std::mem::take(&mut *sent.lock().unwrap());
        let of = |object: &Value| {
            let index = &object["spec"]["index"];
            let names = index["seenNames"][0]["tools"].as_array().map_or(0, Vec::len);
            (names, index["current"].as_str().unwrap_or("none: a shard").to_owned())
        };
        sent.iter().map(of).collect()
    }

    #[tokio::test]
    async fn names_of_tools_alone_are_written_now_and_then_and_with_a_new_plan_at_once() {
        let (writer, sent) = api_server(None);
        let mut kept =
            GatewayReconciler::new(planned("http://up/mcp"), SnapshotStore::default(), LoadReports::default(), None);
        kept.write(&writer, false).await.unwrap();
        let (_, first) = indexes(&sent).pop().unwrap();
        // This other plan is not written, which shows that writing names does not depend on the plan.
        kept.planned = Arc::new(planned("http://other/mcp"));
        hear(&mut kept, "a");
        assert_eq!(kept.look_again(), Duration::ZERO);
        kept.write(&writer, false).await.unwrap();
        assert_eq!(indexes(&sent), [(1, first.clone())]);
        hear(&mut kept, "b");
        kept.write(&writer, false).await.unwrap();
        assert_eq!(indexes(&sent), [], "not so soon");
        assert!(kept.look_again() > Duration::ZERO && kept.look_again() <= NAMES_PERIOD);
        kept.names_written = Instant::now().checked_sub(NAMES_PERIOD);
        kept.write(&writer, false).await.unwrap();
        assert_eq!(indexes(&sent), [(2, first.clone())]);

        hear(&mut kept, "c");
        let mut kept = kept.with_plan(planned("http://third/mcp"));
        kept.write(&writer, false).await.unwrap();
        let written = indexes(&sent).pop().unwrap();
        assert!(written.0 == 3 && written.1 != first && !kept.named, "{written:?}");

        hear(&mut kept, "d");
        kept.write_names(&writer).await.unwrap();
        assert_eq!(indexes(&sent), [(4, written.1)], "at its end it waits for nothing");
        kept.write_names(&writer).await.unwrap();
        assert_eq!(indexes(&sent), [], "nothing is new");
    }

    #[tokio::test]
    async fn what_was_read_again_is_compared_with_the_plan() {
        let (writer, _) = api_server(None);
        let mut kept =
            GatewayReconciler::new(planned("http://up/mcp"), SnapshotStore::default(), LoadReports::default(), None);
        kept.write(&writer, false).await.unwrap();
        assert!(kept.applied);
        let server = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(kube::Error::LinesCodecMaxLineLengthExceeded)
        });
        let silent = kube::Client::new(server, "mcp");
        let silent = Writer::new(silent, crate::controller::lease::Leadership::default(), writer.pulse.clone());
        assert!(kept.refresh(&silent).await.is_err());
        assert!(!kept.applied, "nobody knows what is stored");
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
            let mut kept = GatewayReconciler::new(planned, SnapshotStore::default(), LoadReports::default(), None);
            let index = current.map(|current| json!({"current": current, "revisions": revisions}));
            kept.stored.index = index.map(|index| serde_json::from_value(index).unwrap());
            assert_eq!(kept.state().pin, expected, "{pinned:?} {current:?}");
        }
    }
}
