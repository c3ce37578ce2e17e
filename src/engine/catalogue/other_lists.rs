//! When the lists of prompts, resources and templates of an upstream are read. Tools do not depend on them: a list that
//! cannot be read keeps its last items, and is read again after a pause that grows.

use std::time::Duration;

use crate::domain::item::ItemKind;

/// The pause after the first failure. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// The shortest pause after a list was read, because a server can report changes endlessly.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// How many times longer than the reading of a list the pause after it is, so that a server whose lists are slow works on
/// calls for most of the time.
const REST: u32 = 9;
/// After how many failures in a row a list counts as never read: what the server has by then is not known any more.
const UNREAD_AFTER: u32 = 3;

/// The state of the lists of an upstream, but for its tools. Times are those of the monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct OtherLists([OtherList; ItemKind::OTHERS.len()]);

#[derive(Clone, Debug, Default)]
struct OtherList {
    /// Whether the list may be outdated and must be read again.
    is_due: bool,
    /// Whether the first try to read the list has ended, successfully or not, and clients see what it brought.
    tried: bool,
    /// How often in a row the list could not be read.
    failures: u32,
    /// Why the list could not be read; `None` if it was.
    fault: Option<String>,
    /// When the list is read again at the earliest.
    not_before: Duration,
    /// When the list is no longer fresh, and is read again; `None` if the server does not say so.
    fresh_until: Option<Duration>,
    /// When the list was read last; `None` if it never was, or failed too often since.
    read_at: Option<Duration>,
}

impl OtherLists {
    /// Makes the list of this kind due. Templates are due with resources.
    pub(crate) fn ask(&mut self, kind: ItemKind) {
        for (other, list) in self.each() {
            list.is_due |= other == kind || (kind, other) == (ItemKind::Resource, ItemKind::Template);
        }
    }

    /// Makes all lists due.
    pub(crate) fn ask_all(&mut self) {
        self.0.iter_mut().for_each(|list| list.is_due = true);
    }

    /// Makes the lists due of which the server does not say how long they are fresh, and that were read about `interval` ago
    /// or earlier. The others become due by themselves.
    pub(crate) fn ask_untimed(&mut self, now: Duration, interval: Duration) {
        // A probe can come somewhat earlier than the one before was answered, so half of the time is enough.
        let is_old = |list: &OtherList| list.read_at.is_none_or(|at| now >= at + interval / 2);
        self.0.iter_mut().for_each(|list| list.is_due |= list.fresh_until.is_none() && is_old(list));
    }

    /// Returns which of the lists that `admits` allows is read first, and how long to wait before; `None` if none is due or
    /// will be.
    pub(crate) fn next(&self, now: Duration, admits: impl Fn(ItemKind) -> bool) -> Option<(ItemKind, Duration)> {
        let lists = ItemKind::OTHERS.into_iter().zip(&self.0).filter(|(kind, _)| admits(*kind));
        let due = lists.filter_map(|(kind, list)| {
            let at = if list.is_due { list.not_before } else { list.fresh_until?.max(list.not_before) };
            Some((kind, at.saturating_sub(now)))
        });
        due.min_by_key(|(_, wait)| *wait)
    }

    /// Records that the list is being read. What the server announces from now on makes it due again.
    pub(crate) fn begin(&mut self, kind: ItemKind) {
        let list = self.of(kind);
        (list.is_due, list.fresh_until) = (false, None);
    }

    /// Records that the list was read in the time `took`, and for how long it is fresh; `None` if the server does not say so.
    /// Returns whether the list could not be read before.
    pub(crate) fn succeed(
        &mut self,
        kind: ItemKind,
        now: Duration,
        took: Duration,
        fresh_for: Option<Duration>,
    ) -> bool {
        let list = self.of(kind);
        list.failures = 0;
        list.read_at = Some(now);
        list.fresh_until = fresh_for.map(|fresh_for| now + fresh_for);
        list.not_before = now + (took * REST).max(SHORTEST_PAUSE);
        list.fault.take().is_some()
    }

    /// Records why the list could not be read. Returns whether that is news, or the list counts as never read from now on.
    pub(crate) fn fail(&mut self, kind: ItemKind, now: Duration, fault: String) -> bool {
        let list = self.of(kind);
        list.is_due = true;
        let factor = 1_u32.checked_shl(list.failures).unwrap_or(u32::MAX);
        list.not_before = now + FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE);
        list.failures = list.failures.saturating_add(1);
        let is_unread = list.failures >= UNREAD_AFTER && list.read_at.take().is_some();
        list.fault.replace(fault.clone()) != Some(fault) || is_unread
    }

    /// Records that a try to read the list has ended and that clients see what it brought.
    pub(crate) fn note_tried(&mut self, kind: ItemKind) {
        self.of(kind).tried = true;
    }

    /// Records that nobody needs to wait for the first try to read the lists, because the upstream cannot be reached.
    pub(crate) fn give_up(&mut self) {
        self.0.iter_mut().for_each(|list| list.tried = true);
    }

    /// Whether the first try to read the lists that have items of this kind has ended. Resources can have templates.
    pub(crate) fn tried(&self, kind: ItemKind) -> bool {
        let has = |other: ItemKind| other == kind || (kind, other) == (ItemKind::Resource, ItemKind::Template);
        ItemKind::OTHERS.into_iter().zip(&self.0).all(|(other, list)| list.tried || !has(other))
    }

    /// Whether the list was read to its end, and did not fail too often since.
    pub(crate) fn was_read(&self, kind: ItemKind) -> bool {
        ItemKind::OTHERS.into_iter().zip(&self.0).any(|(other, list)| other == kind && list.read_at.is_some())
    }

    /// How often in a row the list could not be read.
    #[cfg(test)]
    pub(crate) fn failures(&self, kind: ItemKind) -> u32 {
        ItemKind::OTHERS.into_iter().zip(&self.0).find(|(other, _)| *other == kind).map_or(0, |(_, list)| list.failures)
    }

    /// The lists that could not be read, each with the reason.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (ItemKind, &str)> {
        ItemKind::OTHERS.into_iter().zip(&self.0).filter_map(|(kind, list)| Some((kind, list.fault.as_deref()?)))
    }

    fn each(&mut self) -> impl Iterator<Item = (ItemKind, &mut OtherList)> {
        ItemKind::OTHERS.into_iter().zip(&mut self.0)
    }

    fn of(&mut self, kind: ItemKind) -> &mut OtherList {
        let place = ItemKind::OTHERS.iter().position(|other| *other == kind).unwrap_or_default();
        &mut self.0[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::item::ItemKind::{Prompt, Resource, Template};

    const NOW: Duration = Duration::from_secs(100);

    fn succeed(lists: &mut OtherLists, kind: ItemKind, took: Duration, fresh_for: Option<Duration>) -> bool {
        lists.begin(kind);
        lists.succeed(kind, NOW, took, fresh_for)
    }

    fn fail(lists: &mut OtherLists, kind: ItemKind, fault: &str) -> bool {
        lists.begin(kind);
        lists.fail(kind, NOW, fault.to_owned())
    }

    #[test]
    fn a_list_that_cannot_be_read_waits_longer_each_time_and_delays_no_other() {
        let mut lists = OtherLists::default();
        assert_eq!(lists.next(NOW, |_| true), None);
        lists.ask_all();
        let mut pauses = Vec::new();
        for _ in 0..40 {
            fail(&mut lists, Prompt, "late");
            lists.ask(Prompt);
            let (kind, wait) = lists.next(NOW, |_| true).unwrap();
            assert_eq!((kind, wait), (Resource, Duration::ZERO));
            pauses.push(lists.0[0].not_before.saturating_sub(NOW).as_secs());
        }
        assert_eq!(pauses[..6], [30, 60, 120, 240, 300, 300]);
        assert_eq!(pauses[39], 300);
        assert_eq!(lists.faults().collect::<Vec<_>>(), [(Prompt, "late")]);
        assert!(succeed(&mut lists, Prompt, Duration::ZERO, None));
        assert_eq!(lists.faults().count(), 0);
    }

    #[test]
    fn a_list_that_fails_too_often_counts_as_never_read() {
        let mut lists = OtherLists::default();
        succeed(&mut lists, Resource, Duration::ZERO, None);
        let failures = (0..4).map(|_| (fail(&mut lists, Resource, "late"), lists.was_read(Resource)));
        assert_eq!(failures.collect::<Vec<_>>(), [(true, true), (false, true), (true, false), (false, false)]);
        succeed(&mut lists, Resource, Duration::ZERO, None);
        assert!(lists.was_read(Resource));
    }

    #[test]
    fn the_pause_after_a_slow_list_is_longer_than_the_list_took() {
        let mut lists = OtherLists::default();
        lists.ask(Resource);
        succeed(&mut lists, Resource, Duration::from_secs(2), None);
        assert_eq!(lists.next(NOW, |_| true), Some((Template, Duration::ZERO)));
        assert_eq!(lists.next(NOW, |kind| kind != Template), None);
        succeed(&mut lists, Template, Duration::ZERO, None);
        assert_eq!(lists.next(NOW, |_| true), None);
        lists.ask(Resource);
        assert_eq!(lists.next(NOW, |_| true), Some((Template, Duration::from_secs(1))));
        lists.begin(Template);
        assert_eq!(lists.next(NOW, |_| true), Some((Resource, Duration::from_secs(18))));
    }

    #[test]
    fn a_list_that_is_fresh_is_read_when_it_expires_or_has_changed() {
        let mut lists = OtherLists::default();
        succeed(&mut lists, Prompt, Duration::ZERO, Some(Duration::from_secs(60)));
        assert_eq!(lists.next(NOW, |_| true), Some((Prompt, Duration::from_secs(60))));
        succeed(&mut lists, Template, Duration::ZERO, None);
        let interval = Duration::from_secs(30);
        let mut due_at = |seconds| {
            lists.ask_untimed(NOW + Duration::from_secs(seconds), interval);
            ItemKind::OTHERS.into_iter().filter(|kind| lists.of(*kind).is_due).collect::<Vec<_>>()
        };
        assert_eq!(due_at(5), [Resource], "one was never read, one just now");
        assert_eq!(due_at(29), [Resource, Template]);
        lists.begin(Resource);
        lists.begin(Template);
        assert_eq!(lists.next(NOW + Duration::from_secs(61), |_| true), Some((Prompt, Duration::ZERO)));
        lists.ask(Prompt);
        assert_eq!(lists.next(NOW, |_| true), Some((Prompt, Duration::from_secs(1))), "it has changed");
        lists.begin(Prompt);
        assert_eq!(lists.next(NOW + Duration::from_secs(61), |_| true), None, "it is being read");
    }

    #[test]
    fn news_of_a_fault_are_told_once_and_a_try_is_a_try() {
        let mut lists = OtherLists::default();
        assert!(!lists.tried(Prompt) && !lists.tried(Resource));
        assert!(fail(&mut lists, Resource, "a") && !fail(&mut lists, Resource, "a"));
        assert!(fail(&mut lists, Resource, "b"));
        assert!(!lists.tried(Resource), "clients do not see it yet");
        lists.note_tried(Resource);
        assert!(!lists.tried(Resource), "a template may fit");
        succeed(&mut lists, Template, Duration::ZERO, None);
        lists.note_tried(Template);
        assert!(lists.tried(Resource) && !lists.tried(Prompt));
        lists.give_up();
        assert!(lists.tried(Prompt));
    }
}
