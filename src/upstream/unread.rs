//! Whose log messages can still be read after the answers of their requests: over Streamable HTTP they come on another stream
//! than the answers.

use std::time::Duration;

use tokio::time::Instant;

use crate::domain::requester::Requester;

/// How long after an answer a message that was sent before it can still arrive.
const ARRIVES: Duration = Duration::from_secs(1);

/// Whose messages can still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readable<'a> {
    Nobodys,
    Of(&'a Requester),
    Several,
}

/// When requests were answered, and when their messages were read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// The client whose request was answered last, and until when messages of it can arrive.
    last: Option<(Requester, Instant)>,
    /// Until when those of other clients can.
    others_until: Option<Instant>,
    late: Option<Late>,
}

/// A time in which messages are read later than they arrive.
#[derive(Clone, Copy, Debug)]
struct Late {
    since: Instant,
    until: Instant,
}

impl Unread {
    /// Records that a request of this client was answered.
    pub(super) fn answered(&mut self, client: Requester, now: Instant) {
        let last = self.last.take();
        self.others_until = match last {
            Some((last, until)) if last != client => Some(until),
            _ => self.others_until,
        };
        self.last = Some((client, now + ARRIVES));
    }

    /// Records that no messages were read in this time, whether or not there were any.
    pub(super) fn held_back(&mut self, from: Instant, to: Instant) {
        let since = self.late.filter(|late| from <= late.until).map_or(from, |late| late.since);
        self.late = Some(Late { since, until: to + ARRIVES });
    }

    /// Returns whose messages can be among those that are read now.
    pub(super) fn readable(&self, now: Instant) -> Readable<'_> {
        // While messages are read late, one that is read now can have arrived when that began.
        let arrived = self.late.filter(|late| now < late.until).map_or(now, |late| late.since);
        match &self.last {
            Some(_) if self.others_until.is_some_and(|until| until > arrived) => Readable::Several,
            Some((client, until)) if *until > arrived => Readable::Of(client),
            _ => Readable::Nobodys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(session: &str) -> Requester {
        Requester { session: session.to_owned(), account: None }
    }

    fn answered(unread: &mut Unread, session: &str, at: Instant) {
        unread.answered(client(session), at);
    }

    fn of(client: &Requester) -> Readable<'_> {
        Readable::Of(client)
    }

    #[test]
    fn messages_of_one_client_or_of_several_are_readable_for_a_while_after_their_answers() {
        let (mut unread, start) = (Unread::default(), Instant::now());
        let at = |millis: u64| start + Duration::from_millis(millis);
        assert_eq!(unread.readable(at(0)), Readable::Nobodys);
        answered(&mut unread, "a", at(0));
        answered(&mut unread, "a", at(100));
        assert_eq!(unread.readable(at(1_000)), of(&client("a")));
        assert_eq!(unread.readable(at(1_100)), Readable::Nobodys);
        answered(&mut unread, "b", at(900));
        answered(&mut unread, "a", at(1_000));
        assert_eq!(unread.readable(at(1_899)), Readable::Several);
        assert_eq!(unread.readable(at(1_900)), of(&client("a")));
        answered(&mut unread, "c", at(1_950));
        assert_eq!(unread.readable(at(1_999)), Readable::Several);
        assert_eq!(unread.readable(at(2_000)), of(&client("c")));
        answered(&mut unread, "", at(5_000));
        assert_eq!(unread.readable(at(5_001)), of(&client("")));
        answered(&mut unread, "", at(5_002));
        assert_eq!(unread.readable(at(5_003)), of(&client("")), "nothing tells them apart at one address");
    }

    #[test]
    fn messages_that_are_read_late_can_be_of_what_was_answered_long_ago() {
        let (mut unread, start) = (Unread::default(), Instant::now());
        let at = |millis: u64| start + Duration::from_millis(millis);
        answered(&mut unread, "old", at(0));
        answered(&mut unread, "a", at(1_500));
        for second in 2..60 {
            // The reader waits for most of each second.
            unread.held_back(at(second * 1_000), at(second * 1_000 + 900));
            assert_eq!(unread.readable(at(second * 1_000 + 950)), of(&client("a")), "{second}");
        }
        assert_eq!(unread.readable(at(60_899)), of(&client("a")), "the last ones may still be under way");
        assert_eq!(unread.readable(at(60_900)), Readable::Nobodys);
        unread.held_back(at(70_000), at(70_500));
        assert_eq!(unread.readable(at(70_600)), Readable::Nobodys, "all of before was read");
        answered(&mut unread, "b", at(70_700));
        assert_eq!(unread.readable(at(70_800)), of(&client("b")));
    }
}
