//! Reads the lists of prompts, resources and templates of an upstream, in a task of its own, so that they delay neither
//! the upstream's probes nor its list of tools.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::Lists;
use crate::domain::budget::Category;
use crate::domain::health::ConnectionState;
use crate::domain::ids::ObjectKey;
use crate::domain::item::{ItemKind, Listed};
use crate::domain::upstream::{Target, UpstreamError};

/// How long each list can take. This is longer than the list timeout: a process that answers one request at a time is not
/// ended while it works on a list, but it would be if the list were given up and a probe had to wait for it.
const LONGEST: Duration = Duration::from_secs(60);

impl Lists {
    /// Reads the lists that are due, one after another, while the upstream is connected. `wake` is notified when a list
    /// may have become due.
    pub(super) async fn read_other_lists(self: Arc<Self>, target: Target, wake: Arc<Notify>) {
        let key = &target.plan.key;
        self.catalogues.update(key, |state| state.others.ask_all());
        loop {
            match self.next_other_list(key) {
                Some((kind, Duration::ZERO)) => self.read_other_list(&target, kind).await,
                Some((_, wait)) => {
                    let _ = tokio::time::timeout(wait, wake.notified()).await;
                }
                None => wake.notified().await,
            }
        }
    }

    /// Returns the list that is read next and how long to wait before. `None` if none is due, or if the upstream is not
    /// connected or its tools were never asked for. A connection that was closed because no call used it is only opened for lists
    /// that chains have to see: until these are read, calls are refused that would open it.
    fn next_other_list(&self, key: &ObjectKey) -> Option<(ItemKind, Duration)> {
        let (state, snapshot) = (self.catalogues.upstream(key), self.in_force.snapshot());
        let was_asked = state.catalogue.is_some() || state.tools_fault.is_some();
        let is_connected = state.health.state == ConnectionState::Connected && was_asked;
        let admits = |kind: ItemKind| state.resting_since.is_none() || snapshot.is_unread(key, kind);
        state.others.next(self.clock.monotonic(), admits).filter(|_| is_connected)
    }

    async fn read_other_list(&self, target: &Target, kind: ItemKind) {
        let (key, began) = (&target.plan.key, self.clock.monotonic());
        self.catalogues.update(key, |state| state.others.begin(kind));
        let is_announced = self.take_announced(key, kind);
        let list_timeout = self.in_force.snapshot().plan().gateway.limits.list_timeout_ms;
        let limit = LONGEST.max(Duration::from_millis(u64::from(list_timeout)));
        let read = match target.plan.is_served_here() {
            true => Ok(Listed::default()),
            false => self.servers.list(target, kind, limit).await,
        };
        let is_news = self.keep_other_list(target, kind, began, read);
        self.in_force.announcing(kind, is_announced, || {
            if is_news {
                self.in_force.relist();
            }
        });
        // Only now: who waits for the first try takes the newest snapshot.
        self.catalogues.update(key, |state| state.others.note_tried(kind));
        self.in_force.tried.send_replace(());
    }

    /// Keeps what was read since `began`. Returns whether anybody is to be told.
    fn keep_other_list(
        &self,
        target: &Target,
        kind: ItemKind,
        began: Duration,
        read: Result<Listed, UpstreamError>,
    ) -> bool {
        let (key, now) = (&target.plan.key, self.clock.monotonic());
        let took = now.saturating_sub(began);
        let fresh_for = read.as_ref().ok().and_then(|listed| self.fresh_for(listed, took));
        let kept = match read {
            Ok(listed) => {
                let reservation = self.budget.reservation(Category::OtherList);
                let kept = self.catalogues.set_list(key, kind, listed.masked(&target.mask()), reservation);
                kept.map_err(|no_room| no_room.to_string())
            }
            Err(error) => Err(format!("{}: {error}", error.reason())),
        };
        let fault = match kept {
            Ok(has_changed) => {
                let was_faulty = self.catalogues.update(key, |state| state.others.succeed(kind, now, took, fresh_for));
                return was_faulty || has_changed || self.in_force.awaits_list(key, kind);
            }
            Err(fault) => fault,
        };
        let is_news = self.catalogues.update(key, |state| state.others.fail(kind, now, fault.clone()));
        if is_news {
            let (method, known) = (kind.listed_by().as_str(), self.catalogues.was_read(key, kind));
            let stay =
                if known { "its last items stay" } else { "what no list names is refused where chains must see it" };
            tracing::warn!(upstream = key.name, method, "a list was not read, {stay}: {fault}");
        }
        is_news
    }
}
