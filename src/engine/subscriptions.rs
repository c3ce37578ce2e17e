//! Subscriptions of clients to resources. Upstreams are asked once for each resource; what they report reaches all clients
//! that subscribed to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::mailbox::{Mailbox, Update};
use crate::domain::ids::ObjectKey;
use crate::domain::item::is_part;
use crate::domain::limits::Tracker;
use crate::domain::ports::CallUpstream;
use crate::domain::upstream::MAX_SUBSCRIBED;

/// The maximum number of subscriptions of one session or one stream.
pub const MAX_OF_CLIENT: usize = 256;
/// Like `MAX_OF_CLIENT`, while more than half of [`MAX_SUBSCRIPTIONS`] are in use; and the maximum number of resources of one
/// upstream that a session or a client address subscribes to while more than half of [`MAX_SUBSCRIBED`] are in use.
const FAIR_SHARE: usize = 16;
/// The maximum number of subscriptions of this process.
const MAX_SUBSCRIPTIONS: usize = 100_000;

/// Who subscribed to what.
#[derive(Default)]
pub struct Subscribers(Mutex<State>);

#[derive(Default)]
struct State {
    by_upstream: HashMap<ObjectKey, HashMap<Arc<str>, Vec<Subscriber>>>,
    count: usize,
    next: u64,
}

struct Subscriber {
    number: u64,
    mailbox: Weak<Mailbox>,
    /// The counter of the session or the address of the client.
    client: Arc<Tracker>,
    /// The URI as the client has it, if that is not the server's own.
    public: Option<Arc<str>>,
}

impl Subscriber {
    /// Returns what the client is told when `changed` changes, which is the resource `own` or a part of it.
    fn update(&self, own: &Arc<str>, changed: &Arc<str>) -> Update {
        let Some(public) = &self.public else {
            return Update { subscribed: Arc::clone(own), changed: Arc::clone(changed) };
        };
        let part = changed.get(own.len()..).unwrap_or_default();
        Update { subscribed: Arc::clone(public), changed: format!("{public}{part}").into() }
    }
}

/// A subscription of one client to one resource. It ends when this value is dropped.
pub struct Subscription {
    upstreams: Arc<dyn CallUpstream>,
    subscribers: Arc<Subscribers>,
    mailbox: Arc<Mailbox>,
    upstream: ObjectKey,
    /// The server's own URI.
    uri: Arc<str>,
    /// The URI as the client has it.
    public: Arc<str>,
    number: u64,
}

impl Subscription {
    /// Begins what an upstream was asked for. `names` are the URI of the server, and that of the client, whose
    /// counter and mailbox follow.
    pub(super) fn new(
        upstreams: Arc<dyn CallUpstream>,
        subscribers: Arc<Subscribers>,
        upstream: &ObjectKey,
        names: (&str, &str),
        (client, mailbox): (&Arc<Tracker>, &Arc<Mailbox>),
    ) -> Self {
        let (uri, public, number) = subscribers.add(upstream, names, (client, mailbox));
        Self { upstreams, subscribers, mailbox: Arc::clone(mailbox), upstream: upstream.clone(), uri, public, number }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.subscribers.remove(&self.upstream, &self.uri, self.number) {
            self.mailbox.forget(&self.public);
        }
        self.upstreams.unsubscribe(&self.upstream, &self.uri);
    }
}

impl Subscribers {
    /// Whether a client that has `own` subscriptions may have one more, to the resource `uri` of this upstream.
    pub(super) fn has_room(&self, own: usize, client: &Arc<Tracker>, upstream: &ObjectKey, uri: &str) -> bool {
        let state = self.lock();
        let most = if state.count > MAX_SUBSCRIPTIONS / 2 { FAIR_SHARE } else { MAX_OF_CLIENT };
        let of_upstream = state.by_upstream.get(upstream).filter(|by_uri| !by_uri.contains_key(uri));
        let has_share = of_upstream.filter(|by_uri| by_uri.len() > MAX_SUBSCRIBED / 2).is_none_or(|by_uri| {
            let is_own = |subscriber: &Subscriber| Arc::ptr_eq(&subscriber.client, client);
            by_uri.values().filter(|subscribers| subscribers.iter().any(is_own)).count() < FAIR_SHARE
        });
        state.count < MAX_SUBSCRIPTIONS && own < most && has_share
    }

    /// Adds a subscriber to the resource `uri`, which its client knows as `public`. Returns both URIs, which are kept once if
    /// they are the same, and the number of the subscription.
    fn add(
        &self,
        upstream: &ObjectKey,
        (uri, public): (&str, &str),
        (client, mailbox): (&Arc<Tracker>, &Arc<Mailbox>),
    ) -> (Arc<str>, Arc<str>, u64) {
        let state = &mut *self.lock();
        state.count += 1;
        state.next += 1;
        let by_uri = state.by_upstream.entry(upstream.clone()).or_default();
        let shared = by_uri.get_key_value(uri).map_or_else(|| Arc::from(uri), |(known, _)| Arc::clone(known));
        let other = (public != uri).then(|| Arc::<str>::from(public));
        let public = other.clone().unwrap_or_else(|| Arc::clone(&shared));
        let (client, mailbox) = (Arc::clone(client), Arc::downgrade(mailbox));
        let subscriber = Subscriber { number: state.next, mailbox, client, public: other };
        by_uri.entry(Arc::clone(&shared)).or_default().push(subscriber);
        (shared, public, state.next)
    }

    /// Removes a subscriber. Returns whether no other one with its mailbox is left at the resource.
    fn remove(&self, upstream: &ObjectKey, uri: &str, number: u64) -> bool {
        let state = &mut *self.lock();
        let Some(by_uri) = state.by_upstream.get_mut(upstream) else { return true };
        let Some(subscribers) = by_uri.get_mut(uri) else { return true };
        let Some(place) = subscribers.iter().position(|subscriber| subscriber.number == number) else { return true };
        let removed = subscribers.remove(place);
        state.count -= 1;
        let is_last = !subscribers.iter().any(|other| Weak::ptr_eq(&other.mailbox, &removed.mailbox));
        if subscribers.is_empty() {
            by_uri.remove(uri);
        }
        if by_uri.is_empty() {
            state.by_upstream.remove(upstream);
        }
        is_last
    }

    /// Tells those who subscribed to the resource, or to one that it is a part of, that it changed. Unless `names_parts`, they
    /// are told that what they subscribed to changed.
    pub(super) fn tell(&self, upstream: &ObjectKey, uri: &str, names_parts: bool) {
        let state = self.lock();
        let Some(by_uri) = state.by_upstream.get(upstream) else { return };
        let changed: Arc<str> = by_uri.get_key_value(uri).map_or_else(|| Arc::from(uri), |(uri, _)| Arc::clone(uri));
        for (subscribed, subscribers) in by_uri.iter().filter(|(known, _)| &***known == uri || is_part(uri, known)) {
            for subscriber in subscribers {
                if let Some(mailbox) = subscriber.mailbox.upgrade() {
                    mailbox.add(subscriber.update(subscribed, if names_parts { &changed } else { subscribed }));
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::mailbox::Notice;

    #[test]
    fn those_who_subscribed_are_told_and_nobody_else() {
        let (subscribers, up) = (Subscribers::default(), ObjectKey::new("default", "up"));
        let mailboxes = [(); 3].map(|()| Arc::<Mailbox>::default());
        let client = Arc::default();
        let added = ["a:/x", "a:/x", "a:/x/y"].iter().zip(&mailboxes);
        let added = added.map(|(uri, to)| subscribers.add(&up, (uri, uri), (&client, to)));
        let added: Vec<_> = added.collect();
        assert!(Arc::ptr_eq(&added[0].0, &added[1].0), "the URI is kept once");
        subscribers.tell(&ObjectKey::new("default", "other"), "a:/x", true);
        subscribers.tell(&up, "a:/x/y", true);
        let read = |mailbox: &Mailbox| {
            let reader = mailbox.attach();
            match futures_util::FutureExt::now_or_never(mailbox.next(reader)) {
                Some(Notice::Updated(update)) => Some(update.subscribed.to_string()),
                _ => None,
            }
        };
        assert_eq!(
            mailboxes.each_ref().map(|it| read(it)),
            [Some("a:/x"), Some("a:/x"), Some("a:/x/y")].map(|it| it.map(str::to_owned))
        );
        subscribers.remove(&up, "a:/x", added[0].2);
        subscribers.tell(&up, "a:/x", true);
        assert_eq!(mailboxes.each_ref().map(|it| read(it).is_some()), [false, true, false]);
        for (uri, _, number) in &added[1..] {
            assert!(subscribers.remove(&up, uri, *number));
        }
        assert!(subscribers.lock().by_upstream.is_empty() && subscribers.lock().count == 0);
    }

    #[test]
    fn a_client_is_told_of_the_uris_that_it_knows() {
        let (subscribers, up, mailbox) = (Subscribers::default(), ObjectKey::new("default", "up"), Arc::default());
        subscribers.add(&up, ("ui://clock", "ui://up/clock"), (&Arc::default(), &mailbox));
        subscribers.tell(&up, "ui://clock/face", true);
        let reader = mailbox.attach();
        let told = futures_util::FutureExt::now_or_never(mailbox.next(reader));
        let update = Update { subscribed: "ui://up/clock".into(), changed: "ui://up/clock/face".into() };
        assert_eq!(told, Some(Notice::Updated(update)));
    }

    #[test]
    fn what_a_server_calls_a_part_is_withheld_and_a_second_subscription_keeps_what_waits() {
        let (subscribers, up, mailbox) = (Subscribers::default(), ObjectKey::new("default", "up"), Arc::default());
        let client = Arc::default();
        let [first, second] = [(); 2].map(|()| subscribers.add(&up, ("a:/x", "a:/x"), (&client, &mailbox)).2);
        subscribers.tell(&up, "a:/x/what-it-says", false);
        assert!(!subscribers.remove(&up, "a:/x", second) && subscribers.remove(&up, "a:/x", first));
        let reader = mailbox.attach();
        let told = futures_util::FutureExt::now_or_never(mailbox.next(reader));
        assert_eq!(told, Some(Notice::Updated(Update { subscribed: "a:/x".into(), changed: "a:/x".into() })));
    }

    #[test]
    fn one_client_does_not_take_all_resources_of_an_upstream() {
        let (subscribers, up, mailbox) = (Subscribers::default(), ObjectKey::new("default", "up"), Arc::default());
        let [greedy, other] = [(); 2].map(|()| Arc::default());
        let taken = (0..MAX_SUBSCRIBED).take_while(|n| {
            let (uri, has_room) = (n.to_string(), subscribers.has_room(0, &greedy, &up, &n.to_string()));
            has_room && subscribers.add(&up, (&uri, &uri), (&greedy, &mailbox)).2 > 0
        });
        assert_eq!(taken.count(), MAX_SUBSCRIBED / 2 + 1);
        assert!(subscribers.has_room(0, &greedy, &up, "0"), "the server reports it already");
        assert!(subscribers.has_room(0, &other, &up, "new"));
    }
}
