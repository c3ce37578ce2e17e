//! Subscriptions of clients to resources. Upstreams are asked once for each resource; what they report reaches all clients
//! that subscribed to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::mailbox::{Mailbox, Update};
use crate::domain::ids::ObjectKey;
use crate::domain::item::is_part;
use crate::domain::ports::CallUpstream;

/// The maximum number of subscriptions of one session or one stream.
pub const MAX_OF_CLIENT: usize = 256;
/// Like `MAX_OF_CLIENT`, while more than half of [`MAX_SUBSCRIPTIONS`] are in use.
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
    /// Begins what an upstream was asked for. `names` are the URI of the server, and that of the client.
    pub(super) fn new(
        upstreams: Arc<dyn CallUpstream>,
        subscribers: Arc<Subscribers>,
        upstream: &ObjectKey,
        names: (&str, &str),
        mailbox: &Arc<Mailbox>,
    ) -> Self {
        let (uri, public, number) = subscribers.add(upstream, names.0, names.1, mailbox);
        Self { upstreams, subscribers, mailbox: Arc::clone(mailbox), upstream: upstream.clone(), uri, public, number }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.subscribers.remove(&self.upstream, &self.uri, self.number);
        self.mailbox.forget(&self.public);
        self.upstreams.unsubscribe(&self.upstream, &self.uri);
    }
}

impl Subscribers {
    /// Whether a client that has `own` subscriptions may have one more.
    pub(super) fn has_room(&self, own: usize) -> bool {
        let count = self.lock().count;
        count < MAX_SUBSCRIPTIONS && own < if count > MAX_SUBSCRIPTIONS / 2 { FAIR_SHARE } else { MAX_OF_CLIENT }
    }

    /// Adds a subscriber to the resource `uri`, which its client knows as `public`. Returns both URIs, which are kept once if
    /// they are the same, and the number of the subscription.
    fn add(&self, upstream: &ObjectKey, uri: &str, public: &str, mailbox: &Arc<Mailbox>) -> (Arc<str>, Arc<str>, u64) {
        let state = &mut *self.lock();
        state.count += 1;
        state.next += 1;
        let by_uri = state.by_upstream.entry(upstream.clone()).or_default();
        let shared = by_uri.get_key_value(uri).map_or_else(|| Arc::from(uri), |(known, _)| Arc::clone(known));
        let other = (public != uri).then(|| Arc::<str>::from(public));
        let public = other.clone().unwrap_or_else(|| Arc::clone(&shared));
        let subscriber = Subscriber { number: state.next, mailbox: Arc::downgrade(mailbox), public: other };
        by_uri.entry(Arc::clone(&shared)).or_default().push(subscriber);
        (shared, public, state.next)
    }

    fn remove(&self, upstream: &ObjectKey, uri: &str, number: u64) {
        let state = &mut *self.lock();
        let Some(by_uri) = state.by_upstream.get_mut(upstream) else { return };
        let Some(subscribers) = by_uri.get_mut(uri) else { return };
        let before = subscribers.len();
        subscribers.retain(|subscriber| subscriber.number != number);
        state.count -= before - subscribers.len();
        if subscribers.is_empty() {
            by_uri.remove(uri);
        }
        if by_uri.is_empty() {
            state.by_upstream.remove(upstream);
        }
    }

    /// Tells those who subscribed to the resource, or to one that it is a part of, that it changed.
    pub(super) fn tell(&self, upstream: &ObjectKey, uri: &str) {
        let state = self.lock();
        let Some(by_uri) = state.by_upstream.get(upstream) else { return };
        let changed: Arc<str> = by_uri.get_key_value(uri).map_or_else(|| Arc::from(uri), |(uri, _)| Arc::clone(uri));
        for (subscribed, subscribers) in by_uri.iter().filter(|(known, _)| &***known == uri || is_part(uri, known)) {
            for subscriber in subscribers {
                if let Some(mailbox) = subscriber.mailbox.upgrade() {
                    mailbox.add(subscriber.update(subscribed, &changed));
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
        let added =
            ["a:/x", "a:/x", "a:/x/y"].iter().zip(&mailboxes).map(|(uri, to)| subscribers.add(&up, uri, uri, to));
        let added: Vec<_> = added.collect();
        assert!(Arc::ptr_eq(&added[0].0, &added[1].0), "the URI is kept once");
        subscribers.tell(&ObjectKey::new("default", "other"), "a:/x");
        subscribers.tell(&up, "a:/x/y");
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
        subscribers.tell(&up, "a:/x");
        assert_eq!(mailboxes.each_ref().map(|it| read(it).is_some()), [false, true, false]);
        for (uri, _, number) in &added[1..] {
            subscribers.remove(&up, uri, *number);
        }
        assert!(subscribers.lock().by_upstream.is_empty() && subscribers.lock().count == 0);
    }

    #[test]
    fn a_client_is_told_of_the_uris_that_it_knows() {
        let (subscribers, up, mailbox) = (Subscribers::default(), ObjectKey::new("default", "up"), Arc::default());
        subscribers.add(&up, "ui://clock", "ui://up/clock", &mailbox);
        subscribers.tell(&up, "ui://clock/face");
        let reader = mailbox.attach();
        let told = futures_util::FutureExt::now_or_never(mailbox.next(reader));
        let update = Update { subscribed: "ui://up/clock".into(), changed: "ui://up/clock/face".into() };
        assert_eq!(told, Some(Notice::Updated(update)));
    }
}
