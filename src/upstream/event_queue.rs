//! A queue of events that upstreams report on their own. An event that is already waiting is not added again, so at
//! most eight (changes of three lists, which may be unannounced, and two others) wait for each upstream besides changes of
//! resources, and none is lost. Of those, as many can wait as resources of the upstream can be subscribed to; if too many
//! changes of parts of them wait, the whole resources are said to have changed. Log messages are dropped beyond a number.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::domain::ids::ObjectKey;
use crate::domain::upstream::{MAX_SUBSCRIBED, UpstreamEvent};
use crate::transport::flow::Flow;

/// The maximum number of log messages of one upstream that wait.
const MAX_LOGGED: usize = 64;
/// The maximum number of changes of parts of resources of one upstream that wait.
const MAX_PARTS: usize = 64;
/// The maximum number of changes of resources of one upstream in a second, because each of them can be for many clients.
/// Others wait meanwhile, so that many changes of one resource become one.
const UPDATES: u64 = 100;

#[derive(Debug, Default)]
pub(super) struct EventQueue {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// How many changes of resources were taken in the current second, of upstreams with such changes.
    updates: HashMap<ObjectKey, Flow>,
}

#[derive(Debug)]
struct Waiting {
    event: UpstreamEvent,
    /// Whether it is the change of a part of a resource that clients subscribed to.
    is_part: bool,
}

impl EventQueue {
    /// Adds an event, unless the same one is already waiting.
    pub(super) fn push(&self, event: UpstreamEvent) {
        self.try_push(event);
    }

    /// Like [`Self::push`]. Returns false if there is no room for the event.
    pub(super) fn try_push(&self, event: UpstreamEvent) -> bool {
        let has_room = self.lock().add(event, false);
        self.added.notify_one();
        has_room
    }

    /// Adds the change of a part of the resources `wholes`.
    pub(super) fn push_part(&self, upstream: &ObjectKey, uri: String, wholes: Vec<String>) {
        let mut state = self.lock();
        if !state.add(UpstreamEvent::Updated(upstream.clone(), uri), true) {
            for whole in wholes {
                state.add(UpstreamEvent::Updated(upstream.clone(), whole), false);
            }
        }
        drop(state);
        self.added.notify_one();
    }

    /// Waits for the next event and removes it from the queue.
    pub(super) async fn next(&self) -> UpstreamEvent {
        loop {
            let added = self.added.notified();
            let taken = self.lock().take();
            match taken {
                Ok(event) => return event,
                Err(Some(pause)) => drop(timeout(pause, added).await),
                Err(None) => added.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds an event, unless the same one is already waiting. Returns false if there is no room for it.
    fn add(&mut self, event: UpstreamEvent, is_part: bool) -> bool {
        if !matches!(event, UpstreamEvent::Logged(..)) && self.waiting.iter().any(|other| other.event == event) {
            return true;
        }
        let has_room = self.has_room(&event, is_part);
        if has_room {
            self.waiting.push_back(Waiting { event, is_part });
        }
        has_room
    }

    fn has_room(&self, event: &UpstreamEvent, is_part: bool) -> bool {
        let count = |is_like: &dyn Fn(&Waiting) -> bool| self.waiting.iter().filter(|other| is_like(other)).count();
        match event {
            UpstreamEvent::Updated(upstream, _) => {
                let most = if is_part { MAX_PARTS } else { MAX_SUBSCRIBED };
                let is_like = |other: &Waiting| {
                    other.is_part == is_part
                        && matches!(&other.event, UpstreamEvent::Updated(other, _) if other == upstream)
                };
                count(&is_like) < most
            }
            UpstreamEvent::Logged(upstream, ..) => {
                count(&|other| matches!(&other.event, UpstreamEvent::Logged(other, ..) if other == upstream))
                    < MAX_LOGGED
            }
            _ => true,
        }
    }

    /// Takes the first event whose upstream has not reported too many. The error says how long to wait for one; `None` if
    /// none waits.
    fn take(&mut self) -> Result<UpstreamEvent, Option<Duration>> {
        self.updates.retain(|_, taken| !taken.rest().is_zero());
        let mut full = HashSet::new();
        for place in 0..self.waiting.len() {
            if let UpstreamEvent::Updated(upstream, _) = &self.waiting[place].event {
                if full.contains(upstream) {
                    continue;
                }
                let taken = self.updates.entry(upstream.clone()).or_insert_with(|| Flow::new(UPDATES));
                if !taken.take(1) {
                    full.insert(upstream.clone());
                    continue;
                }
            }
            return self.waiting.remove(place).map(|taken| taken.event).ok_or(None);
        }
        Err(full.iter().filter_map(|upstream| Some(self.updates.get(upstream)?.rest())).min())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::domain::item::ItemKind;

    #[tokio::test]
    async fn changes_of_resources_and_log_messages_are_bounded_for_each_upstream() {
        let (events, up) = (EventQueue::default(), |name: &str| ObjectKey::new("default", name));
        (0..MAX_SUBSCRIBED + 5).for_each(|n| events.push(UpstreamEvent::Updated(up("a"), n.to_string())));
        (0..MAX_LOGGED + 5).for_each(|_| events.push(UpstreamEvent::Logged(up("a"), "s".into(), "{}".into())));
        events.push(UpstreamEvent::Updated(up("b"), "0".into()));
        events.push(UpstreamEvent::Logged(up("b"), "s".into(), "{}".into()));
        assert_eq!(events.lock().waiting.len(), MAX_SUBSCRIBED + MAX_LOGGED + 2);
    }

    #[tokio::test]
    async fn parts_of_resources_push_out_no_whole_one() {
        let (events, up) = (EventQueue::default(), ObjectKey::new("default", "a"));
        let updated = |uri: &str| UpstreamEvent::Updated(up.clone(), uri.to_owned());
        for n in 0..MAX_SUBSCRIBED + 5 {
            events.push_part(&up, format!("a:/x/{n}"), vec!["a:/x".to_owned()]);
        }
        events.push(updated("a:/y"));
        let mut told = Vec::new();
        for _ in 0..MAX_PARTS + 2 {
            told.push(events.next().await);
        }
        assert_eq!(told[MAX_PARTS..], [updated("a:/x"), updated("a:/y")], "what has no room is a change of the whole");
        assert!(events.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn an_upstream_reports_only_so_many_changes_in_a_second_and_none_is_lost() {
        let (events, up) = (EventQueue::default(), |name: &str| ObjectKey::new("default", name));
        let updated = |name: &str, n: u64| UpstreamEvent::Updated(up(name), n.to_string());
        (0..UPDATES + 3).for_each(|n| events.push(updated("a", n)));
        events.push(updated("b", 0));
        events.push(UpstreamEvent::Doubtful(up("a")));
        let mut told = Vec::new();
        while let Some(event) = events.next().now_or_never() {
            told.push(event);
        }
        let others = [updated("b", 0), UpstreamEvent::Doubtful(up("a"))];
        assert_eq!(told, (0..UPDATES).map(|n| updated("a", n)).chain(others).collect::<Vec<_>>());
        for n in UPDATES..UPDATES + 3 {
            events.push(updated("a", n));
            assert_eq!(events.next().await, updated("a", n), "once, and later");
        }
    }

    #[tokio::test]
    async fn events_wait_once_and_in_order() {
        let events = EventQueue::default();
        let changed = |name: &str| UpstreamEvent::ListChanged(ObjectKey::new("default", name), ItemKind::Tool);
        for name in ["a", "b", "a", "a"] {
            events.push(changed(name));
        }
        assert_eq!(events.next().await, changed("a"));
        events.push(changed("a"));
        assert_eq!(events.next().await, changed("b"));
        assert_eq!(events.next().await, changed("a"));
        tokio::join!(async { assert_eq!(events.next().await, changed("c")) }, async { events.push(changed("c")) });
    }
}
