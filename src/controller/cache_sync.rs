//! Tracks which watches have listed their resources, and which are failing.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// Identifies a watch: a resource, and a namespace. The namespace is empty for a watch of all namespaces.
pub(super) type WatchKey = (String, String);

#[derive(Clone, Default, PartialEq, Eq)]
struct WatchState {
    /// Whether a complete list ever succeeded.
    listed: bool,
    /// The current failure, if the watch is failing.
    fault: Option<WatchFault>,
}

#[derive(Clone, PartialEq, Eq)]
struct WatchFault {
    words: String,
    /// Whether only a person can fix the failure, so that waiting is pointless.
    lasting: bool,
}

/// The state of every watch.
pub(super) struct CacheSync(watch::Sender<BTreeMap<WatchKey, WatchState>>);

impl Default for CacheSync {
    fn default() -> Self {
        Self(watch::channel(BTreeMap::new()).0)
    }
}

impl CacheSync {
    /// Registers a watch.
    pub(super) fn begins(&self, watched: &WatchKey) {
        self.set(watched, |_| ());
    }

    /// Notes that a list was completed.
    pub(super) fn listed(&self, watched: &WatchKey) {
        self.set(watched, |state| *state = WatchState { listed: true, fault: None });
    }

    /// Clears the failure of a watch that has completed a list. Returns whether the state changed.
    pub(super) fn works(&self, watched: &WatchKey) -> bool {
        self.set(watched, |state| {
            if state.listed {
                state.fault = None;
            }
        })
    }

    /// Notes a failure. A `lasting` one stays until a person fixes it.
    pub(super) fn failed(&self, watched: &WatchKey, words: String, lasting: bool) {
        self.set(watched, |state| state.fault = Some(WatchFault { words, lasting }));
    }

    fn set(&self, watched: &WatchKey, change: impl FnOnce(&mut WatchState)) -> bool {
        self.0.send_if_modified(|states| {
            let state = states.get(watched).cloned();
            let mut changed = state.clone().unwrap_or_default();
            change(&mut changed);
            let differs = state.as_ref() != Some(&changed);
            if differs {
                states.insert(watched.clone(), changed);
            }
            differs
        })
    }

    /// Waits until every watch has either completed a list or reported a lasting failure.
    pub(super) async fn settled(&self) {
        let is_settled = |state: &WatchState| state.listed || state.fault.as_ref().is_some_and(|fault| fault.lasting);
        // Cannot fail: `self` holds the sender.
        let _ = self.0.subscribe().wait_for(|states| states.values().all(is_settled)).await;
    }

    /// Whether every watch has completed a list.
    pub(super) fn is_complete(&self) -> bool {
        self.0.borrow().values().all(|state| state.listed)
    }

    /// Describes the first watch of one of these resources that has never completed a list; `None` if all have.
    pub(super) fn unseen(&self, resources: &[&str]) -> Option<String> {
        let states = self.0.borrow();
        let mut unseen =
            states.iter().filter(|((resource, _), state)| !state.listed && resources.contains(&resource.as_str()));
        unseen.next().map(|(watched, state)| told(watched, state))
    }

    /// Describes every watch that is failing.
    pub(super) fn faults(&self) -> Vec<String> {
        let states = self.0.borrow();
        states.iter().filter(|(_, state)| state.fault.is_some()).map(|(watched, state)| told(watched, state)).collect()
    }
}

fn told((resource, namespace): &WatchKey, state: &WatchState) -> String {
    let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
    let why = state.fault.as_ref().map_or("it was not listed yet", |fault| &fault.words);
    format!("{resource}{place}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_seen_is_named_until_it_is() {
        let cache_sync = CacheSync::default();
        let pods: WatchKey = ("pods".into(), "a".into());
        let of_b: WatchKey = ("pods".into(), "b".into());
        cache_sync.begins(&pods);
        cache_sync.begins(&of_b);
        assert_eq!(cache_sync.unseen(&["pods"]).unwrap(), "pods in a: it was not listed yet");
        cache_sync.listed(&pods);
        cache_sync.failed(&of_b, "forbidden".into(), true);
        cache_sync.settled().await;
        assert!(!cache_sync.is_complete());
        assert!(!cache_sync.works(&pods), "it did before");
        assert_eq!(cache_sync.faults(), ["pods in b: forbidden"], "one namespace says nothing of another");
        cache_sync.listed(&of_b);
        assert!(cache_sync.is_complete() && cache_sync.faults().is_empty() && cache_sync.unseen(&["pods"]).is_none());
        cache_sync.failed(&pods, "gone for a while".into(), false);
        assert!(cache_sync.unseen(&["pods"]).is_none() && cache_sync.faults().len() == 1, "what was seen counts on");
    }
}
