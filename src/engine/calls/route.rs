//! Finds the item that a request is about, in the plan that is in force once everything that the request waits for is there.

use std::sync::Arc;

use super::Calls;
use super::arrived::{Arrived, FoundItem};
use crate::domain::item::ItemKind;
use crate::domain::task::TaskFacts;
use crate::engine::access::admission::AdmissionError;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::request::{Endpoint, ItemName};

/// The item that a request names.
#[derive(Clone, Copy)]
pub(crate) enum LookupTarget<'a> {
    /// The item with this name.
    Named(ItemName<'a>),
    /// The tool of a task, which has its upstream and the server's own name.
    OfTask(&'a TaskFacts),
}

impl LookupTarget<'_> {
    fn find(self, snapshot: &Snapshot) -> Lookup {
        match self {
            Self::Named(item) => item.find(snapshot),
            Self::OfTask(task) => snapshot.tool_of(&task.upstream, &task.tool).map_or(Lookup::Unknown, Lookup::Found),
        }
    }
}

impl Calls {
    /// Finds the item of a call, after all that the call waits for: the lists of its upstream and the plugins that guard it.
    pub(super) async fn route(&self, arrived: &Arrived<'_>) -> Result<FoundItem, CallEnd> {
        let request = arrived.request;
        let target = LookupTarget::Named(request.item());
        let found = self.find_guarded(&arrived.snapshot, target).await;
        let (snapshot, found) = found.map_err(|error| self.ends.not_admitted(&error))?;
        match snapshot.usable(found, request.within.is_some_and(|within| within.is_of_pipeline)) {
            Lookup::Found(found) => Ok(FoundItem { snapshot, found }),
            other => Err(self.ends.not_there(&snapshot, request, arrived.meta, &other)),
        }
    }

    /// Finds an item after waiting for the plugins that guard calls of it: until they are loaded or have failed to load, or
    /// until the time limit. If the call were sent earlier, its answer might have to be withheld. After a wait, looks the
    /// item up again, because another plan may be in force. Asks the gate again, because the wait can be long.
    ///
    /// # Errors
    /// If the plan in which the item was looked up last refuses every call.
    pub(super) async fn find_guarded(
        &self,
        snapshot: &Arc<Snapshot>,
        sought: LookupTarget<'_>,
    ) -> Result<(Arc<Snapshot>, Lookup), AdmissionError> {
        let mut newest = Arc::clone(snapshot);
        loop {
            let (current, found) = self.look_up(newest, sought).await;
            if let Lookup::Found(item) = &found
                && self.chains.loads.waited_for_guards(&current, item).await
            {
                newest = self.in_force.snapshot();
                continue;
            }
            self.gate.check(&current)?;
            return Ok((current, found));
        }
    }

    /// Like [`Self::find_guarded`], for a request of a client that chains do not see, so that it waits for no plugin.
    ///
    /// # Errors
    /// If the plan in which the item was looked up refuses every call.
    pub(crate) async fn find_unguarded(
        &self,
        snapshot: Arc<Snapshot>,
        item: ItemName<'_>,
    ) -> Result<(Arc<Snapshot>, Lookup), AdmissionError> {
        let (current, found) = self.look_up(snapshot, LookupTarget::Named(item)).await;
        self.gate.check(&current)?;
        Ok((current, found))
    }

    /// Looks an item up, and returns the snapshot that it is of. If no list names the item, waits until the upstreams that
    /// could have it have been tried once, then looks it up in the newest snapshot.
    async fn look_up(&self, snapshot: Arc<Snapshot>, sought: LookupTarget<'_>) -> (Arc<Snapshot>, Lookup) {
        let found = sought.find(&snapshot);
        if matches!(&found, Lookup::Found(found) if found.is_listed) {
            return (snapshot, found);
        }
        match sought {
            LookupTarget::Named(item) => self.lists.wait_for_item(&snapshot, item).await,
            LookupTarget::OfTask(task) => {
                self.lists.wait_for_lists(&snapshot, &Endpoint::One(&task.upstream), ItemKind::Tool).await;
            }
        }
        let newest = self.in_force.snapshot();
        let found = sought.find(&newest);
        (newest, found)
    }
}
