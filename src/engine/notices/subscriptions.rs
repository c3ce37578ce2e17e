//! Subscriptions of clients to resources. Upstreams are asked once for each resource; what they report reaches all clients
//! that subscribed to it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::mailbox::{Mailbox, Update};
use crate::domain::ids::ObjectKey;
use crate::domain::item::is_part;
use crate::domain::limits::Tracker;
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
    /// The number of subscriptions of each session or stream, by the address of its mailbox, which they keep alive.
    by_mailbox: HashMap<usize, usize>,
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

/// The entry of one client for one resource in the table of subscribers, until it is dropped.
pub(in crate::engine) struct SubscriberEntry {
    subscribers: Arc<Subscribers>,
    mailbox: Arc<Mailbox>,
    pub(in crate::engine) upstream: ObjectKey,
    /// The server's own URI.
    pub(in crate::engine) uri: Arc<str>,
    /// The URI as the client has it.
    public: Arc<str>,
    number: u64,
}

impl Drop for SubscriberEntry {
    fn drop(&mut self) {
        if self.subscribers.remove(self) {
            self.mailbox.forget(&self.public);
        }
    }
}

impl State {
    /// Whether one more subscriber finds room at the resource `uri` of this upstream.
    fn has_room(&self, upstream: &ObjectKey, uri: &str, client: &Arc<Tracker>, mailbox: &Arc<Mailbox>) -> bool {
        let most = if self.count > MAX_SUBSCRIPTIONS / 2 { FAIR_SHARE } else { MAX_OF_CLIENT };
        let own = self.by_mailbox.get(&address(mailbox)).copied().unwrap_or_default();
        let of_upstream = self.by_upstream.get(upstream).filter(|by_uri| !by_uri.contains_key(uri));
        let has_share = of_upstream.filter(|by_uri| by_uri.len() > MAX_SUBSCRIBED / 2).is_none_or(|by_uri| {
            let is_own = |subscriber: &Subscriber| Arc::ptr_eq(&subscriber.client, client);
            by_uri.values().filter(|subscribers| subscribers.iter().any(is_own)).count() < FAIR_SHARE
        });
        self.count < MAX_SUBSCRIPTIONS && own < most && has_share
    }
}

impl Subscribers {
    /// Enters a client at the resource `uri`, which it knows as `public`; `None` if it, or this process, has as many
    /// subscriptions as may be. Called before the server is asked, so that what is under way counts. From then on the client is
    /// told of changes.
    pub(in crate::engine) fn enter(
        self: &Arc<Self>,
        upstream: &ObjectKey,
        (uri, public): (&str, &str),
        (client, mailbox): (&Arc<Tracker>, &Arc<Mailbox>),
    ) -> Option<SubscriberEntry> {
        let state = &mut *self.lock();
        if !state.has_room(upstream, uri, client, mailbox) {
            return None;
        }
        state.count += 1;
        state.next += 1;
        *state.by_mailbox.entry(address(mailbox)).or_default() += 1;
        let by_uri = state.by_upstream.entry(upstream.clone()).or_default();
        // The URIs are kept once if they are the same.
        let shared = by_uri.get_key_value(uri).map_or_else(|| Arc::from(uri), |(known, _)| Arc::clone(known));
        let other = (public != uri).then(|| Arc::<str>::from(public));
        let public = other.clone().unwrap_or_else(|| Arc::clone(&shared));
        let (client, weak) = (Arc::clone(client), Arc::downgrade(mailbox));
        let subscriber = Subscriber { number: state.next, mailbox: weak, client, public: other };
        by_uri.entry(Arc::clone(&shared)).or_default().push(subscriber);
        Some(SubscriberEntry {
            subscribers: Arc::clone(self),
            mailbox: Arc::clone(mailbox),
            upstream: upstream.clone(),
            uri: shared,
            public,
            number: state.next,
        })
    }

    /// Removes an entry. Returns whether no other one with its mailbox is left at the resource.
    fn remove(&self, entry: &SubscriberEntry) -> bool {
        let state = &mut *self.lock();
        let Some(by_uri) = state.by_upstream.get_mut(&entry.upstream) else { return true };
        let Some(subscribers) = by_uri.get_mut(&entry.uri) else { return true };
        let Some(place) = subscribers.iter().position(|known| known.number == entry.number) else { return true };
        let removed = subscribers.remove(place);
        state.count -= 1;
        if let Entry::Occupied(mut own) = state.by_mailbox.entry(address(&entry.mailbox)) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
        let is_last = !subscribers.iter().any(|other| Weak::ptr_eq(&other.mailbox, &removed.mailbox));
        if subscribers.is_empty() {
            by_uri.remove(&entry.uri);
        }
        if by_uri.is_empty() {
            state.by_upstream.remove(&entry.upstream);
        }
        is_last
    }

    /// Tells those who subscribed to the resource, or to one that it is a part of, that it changed. Unless `names_parts`, they
    /// are told that what they subscribed to changed.
    pub(in crate::engine) fn tell(&self, upstream: &ObjectKey, uri: &str, names_parts: bool) {
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

fn address(mailbox: &Arc<Mailbox>) -> usize {
    Arc::as_ptr(mailbox).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::notices::Notice;

    type Table = Arc<Subscribers>;

    fn enter(table: &Table, names: (&str, &str), client: &Arc<Tracker>, mailbox: &Arc<Mailbox>) -> SubscriberEntry {
        table.enter(&ObjectKey::new("default", "up"), names, (client, mailbox)).expect("there is room")
    }

    fn told(mailbox: &Mailbox) -> Option<Notice> {
        let reader = mailbox.attach();
        futures_util::FutureExt::now_or_never(mailbox.next(reader))
    }

    #[test]
    fn those_who_subscribed_are_told_and_nobody_else() {
        let (table, up) = (Table::default(), ObjectKey::new("default", "up"));
        let mailboxes = [(); 3].map(|()| Arc::<Mailbox>::default());
        let client = Arc::default();
        let entered = ["a:/x", "a:/x", "a:/x/y"].iter().zip(&mailboxes);
        let mut entered: Vec<_> = entered.map(|(uri, to)| enter(&table, (uri, uri), &client, to)).collect();
        assert!(Arc::ptr_eq(&entered[0].uri, &entered[1].uri), "the URI is kept once");
        table.tell(&ObjectKey::new("default", "other"), "a:/x", true);
        table.tell(&up, "a:/x/y", true);
        let read = |mailbox: &Mailbox| match told(mailbox) {
            Some(Notice::Updated(update)) => Some(update.subscribed.to_string()),
            _ => None,
        };
        assert_eq!(
            mailboxes.each_ref().map(|it| read(it)),
            [Some("a:/x"), Some("a:/x"), Some("a:/x/y")].map(|it| it.map(str::to_owned))
        );
        drop(entered.remove(0));
        table.tell(&up, "a:/x", true);
        assert_eq!(mailboxes.each_ref().map(|it| read(it).is_some()), [false, true, false]);
        drop(entered);
        let state = table.lock();
        assert!(state.by_upstream.is_empty() && state.by_mailbox.is_empty() && state.count == 0);
    }

    #[test]
    fn a_client_is_told_of_the_uris_that_it_knows() {
        let (table, mailbox) = (Table::default(), Arc::default());
        let _entry = enter(&table, ("ui://clock", "ui://up/clock"), &Arc::default(), &mailbox);
        table.tell(&ObjectKey::new("default", "up"), "ui://clock/face", true);
        let update = Update { subscribed: "ui://up/clock".into(), changed: "ui://up/clock/face".into() };
        assert_eq!(told(&mailbox), Some(Notice::Updated(update)));
    }

    #[test]
    fn what_a_server_calls_a_part_is_withheld_and_a_second_subscription_keeps_what_waits() {
        let (table, client, mailbox) = (Table::default(), Arc::default(), Arc::default());
        let [first, second] = [(); 2].map(|()| enter(&table, ("a:/x", "a:/x"), &client, &mailbox));
        table.tell(&ObjectKey::new("default", "up"), "a:/x/what-it-says", false);
        drop(second);
        assert_eq!(told(&mailbox), Some(Notice::Updated(Update { subscribed: "a:/x".into(), changed: "a:/x".into() })));
        table.tell(&ObjectKey::new("default", "up"), "a:/x", false);
        drop(first);
        assert_eq!(told(&mailbox), None, "nobody subscribes to it any more");
    }

    #[test]
    fn one_client_does_not_take_all_resources_of_an_upstream() {
        let (table, up) = (Table::default(), ObjectKey::new("default", "up"));
        let [greedy, other] = [(); 2].map(|()| Arc::default());
        let entered = (0..MAX_SUBSCRIBED).map_while(|n| {
            let uri = n.to_string();
            table.enter(&up, (&uri, &uri), (&greedy, &Arc::default()))
        });
        let entered: Vec<_> = entered.collect();
        assert_eq!(entered.len(), MAX_SUBSCRIBED / 2 + 1);
        let has_room = |client, uri| table.enter(&up, (uri, uri), (client, &Arc::default())).is_some();
        assert!(has_room(&greedy, "0"), "the server reports it already");
        assert!(has_room(&other, "new"));
    }
}
