//! A queue of events that upstreams report on their own. An event that is already waiting is not added again, so at
//! most eight (changes of three lists, which may be unannounced, and two others) wait for each upstream besides changes of
//! resources, and none is lost. Of those, as many can wait as resources of the upstream can be subscribed to; changes of
//! parts of them are dropped beyond that. So are log messages beyond a number.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::domain::upstream::{MAX_SUBSCRIBED, UpstreamEvent};

/// The maximum number of log messages of one upstream that wait.
const MAX_LOGGED: usize = 64;

#[derive(Debug, Default)]
pub(super) struct EventQueue {
    waiting: Mutex<VecDeque<UpstreamEvent>>,
    added: Notify,
}

impl EventQueue {
    /// Adds an event, unless the same one is already waiting.
    pub(super) fn push(&self, event: UpstreamEvent) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let repeats = !matches!(event, UpstreamEvent::Logged(..)) && waiting.contains(&event);
        if !repeats && has_room(&waiting, &event) {
            waiting.push_back(event);
        }
        drop(waiting);
        self.added.notify_one();
    }

    /// Waits for the next event and removes it from the queue.
    pub(super) async fn next(&self) -> UpstreamEvent {
        loop {
            let added = self.added.notified();
            if let Some(event) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front() {
                return event;
            }
            added.await;
        }
    }
}

fn has_room(waiting: &VecDeque<UpstreamEvent>, event: &UpstreamEvent) -> bool {
    let count = |is_like: &dyn Fn(&UpstreamEvent) -> bool| waiting.iter().filter(|other| is_like(other)).count();
    match event {
        UpstreamEvent::Updated(upstream, _) => {
            count(&|other| matches!(other, UpstreamEvent::Updated(other, _) if other == upstream)) < MAX_SUBSCRIBED
        }
        UpstreamEvent::Logged(upstream, ..) => {
            count(&|other| matches!(other, UpstreamEvent::Logged(other, ..) if other == upstream)) < MAX_LOGGED
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::ObjectKey;
    use crate::domain::item::ItemKind;

    #[tokio::test]
    async fn changes_of_resources_and_log_messages_are_bounded_for_each_upstream() {
        let (events, up) = (EventQueue::default(), |name: &str| ObjectKey::new("default", name));
        (0..MAX_SUBSCRIBED + 5).for_each(|n| events.push(UpstreamEvent::Updated(up("a"), n.to_string())));
        (0..MAX_LOGGED + 5).for_each(|_| events.push(UpstreamEvent::Logged(up("a"), None, "{}".into())));
        events.push(UpstreamEvent::Updated(up("b"), "0".into()));
        events.push(UpstreamEvent::Logged(up("b"), None, "{}".into()));
        assert_eq!(events.waiting.lock().unwrap().len(), MAX_SUBSCRIBED + MAX_LOGGED + 2);
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
