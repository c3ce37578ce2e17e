//! How the watches fare: what was ever listed, and what fails now.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// A watch: the resource, and its namespace; empty where it is of all.
pub(super) type WatchKey = (String, String);

/// One watch.
#[derive(Clone, Default, PartialEq, Eq)]
struct WatchState {
    /// Whether everything was listed once.
    listed: bool,
    /// What fails now.
    fault: Option<WatchFault>,
}

#[derive(Clone, PartialEq, Eq)]
struct WatchFault {
    words: String,
    /// Only a person changes that: nobody needs to wait for it.
    lasting: bool,
}

/// What is seen of the cluster, and what is not.
pub(super) struct CacheSync(watch::Sender<BTreeMap<WatchKey, WatchState>>);

impl Default for CacheSync {
    fn default() -> Self {
        Self(watch::channel(BTreeMap::new()).0)
    }
}

impl CacheSync {
    /// A watch begins.
    pub(super) fn begins(&self, watched: &WatchKey) {
        self.set(watched, |_| ());
    }

    /// All of it was listed.
    pub(super) fn listed(&self, watched: &WatchKey) {
        self.set(watched, |state| *state = WatchState { listed: true, fault: None });
    }

    /// What was listed and failed then works again. Says whether that is news.
    pub(super) fn works(&self, watched: &WatchKey) -> bool {
        self.set(watched, |state| {
            if state.listed {
                state.fault = None;
            }
        })
    }

    /// It failed. What is `lasting` does not pass by itself.
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

    /// Waits until each watch has listed its kind, or says that it will not.
    pub(super) async fn settled(&self) {
        let is_settled = |state: &WatchState| state.listed || state.fault.as_ref().is_some_and(|fault| fault.lasting);
        // The other end is `self`.
        let _ = self.0.subscribe().wait_for(|states| states.values().all(is_settled)).await;
    }

    /// Whether each kind was listed.
    pub(super) fn is_complete(&self) -> bool {
        self.0.borrow().values().all(|state| state.listed)
    }

    /// The first of these resources that was never listed, and why.
    pub(super) fn unseen(&self, resources: &[&str]) -> Option<String> {
        let states = self.0.borrow();
        let mut unseen =
            states.iter().filter(|((resource, _), state)| !state.listed && resources.contains(&resource.as_str()));
        unseen.next().map(|(watched, state)| told(watched, state))
    }

    /// What fails now.
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
