//! One budget of bytes for the process: what clients and servers make it hold. Counts of connections and calls bound
//! little where each of them may hold megabytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a process holds at most, besides [`FREE`] for each that holds some.
pub const LIMIT: u64 = 256 << 20;
/// Bytes that each may hold without being counted, so that messages of the usual size find room whatever others hold.
pub const FREE: u64 = 16 << 10;

/// What bytes are held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Bodies of clients' messages, while they are read and answered.
    Request,
    /// Messages that wait for a client before its answer.
    Progress,
    /// Upstreams' answers, while they are read and until they are written to the client.
    Answer,
    /// Upstreams' tool lists.
    List,
    /// Copies of content for plugins that run beside their call.
    Beside,
}

impl Held {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Request, Self::Progress, Self::Answer, Self::List, Self::Beside];

    /// The metric label.
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Progress => "progress",
            Self::Answer => "answer",
            Self::List => "list",
            Self::Beside => "beside",
        }
    }

    /// How much of a limit it may have at most. New work has less than what is already under way, because a call that
    /// was let in is in vain where its answer finds no room.
    fn share(self, limit: u64) -> u64 {
        match self {
            Self::Request | Self::List => limit / 4,
            Self::Progress | Self::Beside => limit / 8,
            Self::Answer => limit / 4 * 3,
        }
    }
}

/// There is no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this gateway holds as many bytes as it may: try again later, or send less at once")]
pub struct NoRoom;

/// The word for it in data of errors.
pub const NO_ROOM: &str = "NoRoom";

/// What one client holds, where clients are told apart. Behind an ingress all of them may count as one, so that it is
/// bounded only where more than half of what there is for all is in use.
#[derive(Debug, Default)]
pub struct Holder {
    held: [AtomicU64; Held::ALL.len()],
}

impl Holder {
    /// A part of each share: as much as one holder has while others want some too.
    const PART: u64 = 4;
}

/// Counts of one kind.
#[derive(Debug, Default)]
struct Count {
    held: AtomicU64,
    refused: AtomicU64,
}

/// The budget.
#[derive(Debug)]
pub struct ByteBudget {
    limit: u64,
    total: AtomicU64,
    counts: [Count; Held::ALL.len()],
}

impl Default for ByteBudget {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl ByteBudget {
    /// A budget of so many bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, total: AtomicU64::new(0), counts: Default::default() }
    }

    /// A place of nothing yet.
    pub fn place(self: &Arc<Self>, what: Held) -> Place {
        self.place_for(what, None)
    }

    /// The same of this holder.
    pub fn place_of(self: &Arc<Self>, what: Held, holder: &Arc<Holder>) -> Place {
        self.place_for(what, Some(Arc::clone(holder)))
    }

    fn place_for(self: &Arc<Self>, what: Held, holder: Option<Arc<Holder>>) -> Place {
        Place { budget: Arc::clone(self), what, holder, counted: AtomicU64::new(0) }
    }

    /// Bytes that are held now.
    pub fn held(&self, what: Held) -> u64 {
        self.count(what).held.load(Ordering::Relaxed)
    }

    /// How often there was no room.
    pub fn refused(&self, what: Held) -> u64 {
        self.count(what).refused.load(Ordering::Relaxed)
    }

    /// Counts something that was turned away for its size.
    pub fn refuse(&self, what: Held) -> NoRoom {
        self.count(what).refused.fetch_add(1, Ordering::Relaxed);
        NoRoom
    }

    fn count(&self, what: Held) -> &Count {
        &self.counts[what as usize]
    }

    fn add(&self, what: Held, bytes: u64, holder: Option<&Holder>) -> Result<(), NoRoom> {
        let held = &self.count(what).held;
        let within = |counter: &AtomicU64, limit: u64| {
            let sum = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
            counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
        };
        if !within(held, what.share(self.limit)) {
            return Err(self.refuse(what));
        }
        if !within(&self.total, self.limit) {
            held.fetch_sub(bytes, Ordering::Relaxed);
            return Err(self.refuse(what));
        }
        let own = holder.map_or(0, |holder| holder.held[what as usize].fetch_add(bytes, Ordering::Relaxed) + bytes);
        let share = what.share(self.limit);
        if own > share / Holder::PART && held.load(Ordering::Relaxed) > share / 2 {
            self.give_back(what, bytes, holder);
            return Err(self.refuse(what));
        }
        Ok(())
    }

    fn give_back(&self, what: Held, bytes: u64, holder: Option<&Holder>) {
        if let Some(holder) = holder {
            holder.held[what as usize].fetch_sub(bytes, Ordering::Relaxed);
        }
        self.count(what).held.fetch_sub(bytes, Ordering::Relaxed);
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Room in a budget, which is given back when it is dropped. It has one owner, who changes it at one place at a time.
#[derive(Debug)]
pub struct Place {
    budget: Arc<ByteBudget>,
    what: Held,
    holder: Option<Arc<Holder>>,
    /// Without what is free.
    counted: AtomicU64,
}

impl Place {
    /// Makes it a place of `bytes` in all, more or fewer than before.
    ///
    /// # Errors
    /// Where there is no room: then it stays as large as it was.
    pub fn hold(&self, bytes: u64) -> Result<(), NoRoom> {
        let wanted = bytes.saturating_sub(FREE);
        let counted = self.counted.load(Ordering::Relaxed);
        if wanted > counted {
            self.budget.add(self.what, wanted - counted, self.holder.as_deref())?;
        } else {
            self.budget.give_back(self.what, counted - wanted, self.holder.as_deref());
        }
        self.counted.store(wanted, Ordering::Relaxed);
        Ok(())
    }

    /// Counts something that was turned away although there was room.
    pub fn refuse(&self) -> NoRoom {
        self.budget.refuse(self.what)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.budget.give_back(self.what, *self.counted.get_mut(), self.holder.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_always_finds_room_and_what_goes_gives_its_room_back() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let places = [(); 2].map(|()| budget.place(Held::Request));
        places[0].hold((256 << 10) + FREE).unwrap();
        assert_eq!(places[1].hold(FREE + 1), Err(NoRoom));
        assert_eq!((places[1].hold(FREE), budget.held(Held::Request)), (Ok(()), 256 << 10));
        places[0].hold(128 << 10).unwrap();
        assert_eq!(places[1].hold(128 << 10), Ok(()));
        assert_eq!((budget.refused(Held::Request), budget.refused(Held::Answer)), (1, 0));
        drop(places);
        assert_eq!((budget.held(Held::Request), budget.total.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn one_holder_leaves_half_of_a_share_to_others() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let (one, other) = (Arc::default(), Arc::default());
        let half = 128 << 10;
        let first = budget.place_of(Held::Request, &one);
        // Nobody else is there, as it is behind an ingress.
        assert_eq!(first.hold(half + FREE), Ok(()));
        let second = budget.place_of(Held::Request, &one);
        assert_eq!((second.hold(FREE + 1), second.hold(FREE)), (Err(NoRoom), Ok(())));
        let third = budget.place_of(Held::Request, &other);
        assert_eq!((third.hold(half / 2 + FREE), third.hold(half / 2 + FREE + 1)), (Ok(()), Err(NoRoom)));
        assert_eq!((budget.held(Held::Request), budget.refused(Held::Request)), (half + half / 2, 2));
        // It has given back what it held when it had the half.
        first.hold(half / 4).unwrap();
        assert_eq!(second.hold(FREE + 1), Ok(()));
        drop((first, second, third));
        assert_eq!((budget.held(Held::Request), one.held[0].load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn new_work_leaves_room_for_the_answers_of_what_runs() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let (request, answer, list) =
            (budget.place(Held::Request), budget.place(Held::Answer), budget.place(Held::List));
        while request.hold(request.counted.load(Ordering::Relaxed) + FREE + 1024).is_ok() {}
        assert_eq!(answer.hold((768 << 10) + FREE), Ok(()));
        assert_eq!(list.hold(FREE + 1), Err(NoRoom), "the whole is full");
    }
}
