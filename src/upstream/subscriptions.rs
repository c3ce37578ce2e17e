//! What clients want to hear of one upstream: changes of its resources. It outlives the connections to
//! the upstream, and the settings that it is reached by.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::domain::item::is_part;
use crate::domain::upstream::MAX_SUBSCRIBED;
use crate::transport::flow::Flow;

/// The maximum number of log messages of one upstream in a second that belong to no request.
const LOGGED: u64 = 100;

#[derive(Debug)]
pub(super) struct Subscriptions {
    by_uri: Mutex<HashMap<String, Arc<WatchedUri>>>,
    /// Notified whenever the set of resources that somebody wants to hear of changes.
    changed: watch::Sender<()>,
    listening: watch::Sender<Listening>,
    /// Whether a stream of the server was ever open.
    was_listening: AtomicBool,
    logged: Mutex<Flow>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            by_uri: Mutex::default(),
            changed: watch::Sender::default(),
            listening: watch::Sender::default(),
            was_listening: AtomicBool::new(false),
            logged: Mutex::new(Flow::new(LOGGED)),
        }
    }
}

/// One resource.
#[derive(Debug, Default)]
pub(super) struct WatchedUri {
    /// How many clients want to hear of it. Changed only while `by_uri` is locked.
    wanted: Mutex<usize>,
    /// The number of the connection over which the server was asked to report changes; `None` if it was not asked. Locked
    /// while the server is asked.
    pub(super) told: tokio::sync::Mutex<Option<u64>>,
    /// Whether a task is about to tell the server that nobody wants to hear of it any more.
    is_ending: AtomicBool,
}

/// What of the resources is changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Covered {
    /// One of them, which can be a part of others too.
    Whole,
    /// A part of these. If there are none, nobody wants to hear of it.
    PartOf(Vec<String>),
}

/// What the stream of a server of 2026-07-28 reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Listening {
    /// The resources that the server was asked for.
    pub(super) asked: BTreeSet<String>,
    /// Those that it agreed to report.
    pub(super) agreed: BTreeSet<String>,
}

impl Subscriptions {
    /// Counts one more client for the resource. `None` if there are as many resources as may be.
    pub(super) fn want(&self, uri: &str) -> Option<Arc<WatchedUri>> {
        let mut by_uri = self.lock();
        if by_uri.len() >= MAX_SUBSCRIBED && !by_uri.contains_key(uri) {
            return None;
        }
        let entry = Arc::clone(by_uri.entry(uri.to_owned()).or_default());
        let wanted = {
            let mut count = entry.count();
            *count += 1;
            *count
        };
        drop(by_uri);
        if wanted == 1 {
            self.changed.send_replace(());
        }
        Some(entry)
    }

    /// Counts one client less. Returns the resource if nobody wants to hear of it any more.
    pub(super) fn unwant(&self, uri: &str) -> Option<Arc<WatchedUri>> {
        let by_uri = self.lock();
        let entry = Arc::clone(by_uri.get(uri)?);
        let left = {
            let mut count = entry.count();
            *count = count.saturating_sub(1);
            *count
        };
        drop(by_uri);
        if left > 0 {
            return None;
        }
        self.changed.send_replace(());
        Some(entry)
    }

    /// Removes a resource that nobody wants to hear of.
    pub(super) fn forget(&self, uri: &str, entry: &Arc<WatchedUri>) {
        let mut by_uri = self.lock();
        if by_uri.get(uri).is_some_and(|known| Arc::ptr_eq(known, entry)) && !entry.is_wanted() {
            by_uri.remove(uri);
        }
    }

    /// Whether nobody wants to hear of any resource.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// All resources.
    pub(super) fn all(&self) -> Vec<(String, Arc<WatchedUri>)> {
        self.lock().iter().map(|(uri, entry)| (uri.clone(), Arc::clone(entry))).collect()
    }

    /// The resources that somebody wants to hear of.
    pub(super) fn wanted(&self) -> BTreeSet<String> {
        let wanted = self.lock();
        wanted.iter().filter(|(_, entry)| entry.is_wanted()).map(|(uri, _)| uri.clone()).collect()
    }

    /// What is changed if this URI changes: a resource that somebody wants to hear of, or a part of some.
    pub(super) fn covers(&self, uri: &str) -> Covered {
        let by_uri = self.lock();
        if by_uri.contains_key(uri) {
            return Covered::Whole;
        }
        Covered::PartOf(by_uri.keys().filter(|watched| is_part(uri, watched)).cloned().collect())
    }

    /// A receiver that is notified whenever the set of resources changes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// What the stream of the server reports.
    pub(super) fn listening(&self) -> &watch::Sender<Listening> {
        &self.listening
    }

    /// Whether a stream of the server was ever open, over this connection or one before.
    pub(super) fn was_listening(&self) -> bool {
        self.was_listening.load(Ordering::Relaxed)
    }

    /// Records what a stream reports that was opened.
    pub(super) fn listens(&self, now: Listening) {
        self.was_listening.store(true, Ordering::Relaxed);
        self.listening.send_replace(now);
    }

    /// Counts a log message that belongs to no request. Returns whether it may be passed on.
    pub(super) fn may_log(&self) -> bool {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner).take(1)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<WatchedUri>>> {
        self.by_uri.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedUri {
    /// Whether a task is needed that ends the reports: none waits for its turn. One that does has to call [`Self::ends`].
    pub(super) fn needs_end(&self) -> bool {
        !self.is_ending.swap(true, Ordering::AcqRel)
    }

    /// Records that a task that ends the reports has its turn: what happens from now on needs another one.
    pub(super) fn ends(&self) {
        self.is_ending.store(false, Ordering::Release);
    }

    /// Whether anybody wants to hear of the resource.
    pub(super) fn is_wanted(&self) -> bool {
        *self.count() > 0
    }

    fn count(&self) -> MutexGuard<'_, usize> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_watched_until_the_last_client_goes() {
        let watched = Subscriptions::default();
        let entry = watched.want("a").unwrap();
        let mut changes = watched.changes();
        changes.mark_unchanged();
        assert!(Arc::ptr_eq(&entry, &watched.want("a").unwrap()));
        assert!(watched.unwant("a").is_none() && !changes.has_changed().unwrap(), "the server is not asked anew");
        assert_eq!(watched.wanted().len(), 1);
        watched.forget("a", &entry);
        assert_eq!(watched.covers("a"), Covered::Whole, "one client is left");
        assert_eq!(watched.covers("a/b"), Covered::PartOf(vec!["a".to_owned()]));
        assert_eq!(watched.covers("b"), Covered::PartOf(vec![]));
        assert!(watched.unwant("a").is_some() && watched.wanted().is_empty());
        watched.forget("a", &entry);
        assert!(watched.is_empty() && watched.unwant("a").is_none());
    }

    #[test]
    fn one_task_at_most_waits_to_end_the_reports_of_a_resource() {
        let entry = Subscriptions::default().want("a").unwrap();
        assert!(entry.needs_end() && !entry.needs_end());
        entry.ends();
        assert!(entry.needs_end());
    }

    #[test]
    fn resources_are_bounded() {
        let watched = Subscriptions::default();
        let full = (0..=MAX_SUBSCRIBED).find(|n| watched.want(&n.to_string()).is_none());
        assert_eq!(full, Some(MAX_SUBSCRIBED));
        assert!(watched.want("0").is_some(), "it is known");
    }
}
