//! A budget of bytes for the whole process. It limits how much memory clients and servers can make the process hold.
//! Limits on the number of connections and calls are not enough, because each of them can hold megabytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of bytes that a process holds, not counting the first [`FREE`] bytes of each reservation.
pub const LIMIT: u64 = 256 << 20;
/// Number of bytes of each reservation that are not counted, so that messages of ordinary size always find room.
pub const FREE: u64 = 16 << 10;

/// The purpose for which bytes are held. Each category has its own quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Bodies of clients' requests, while they are read and answered.
    Request,
    /// Progress and log messages that wait to be sent to a client before its answer.
    Progress,
    /// Answers of upstreams, from their first bytes until they are written to the client.
    Answer,
    /// Tool lists of upstreams.
    List,
    /// Lists of prompts, resources and templates of upstreams.
    OtherList,
    /// Copies of content for plugins that run off the path of their call: observers and shadows.
    Beside,
    /// State, sources and evidence of runs of pipelines, and answers of models to them.
    Run,
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 7] =
        [Self::Request, Self::Progress, Self::Answer, Self::List, Self::OtherList, Self::Beside, Self::Run];

    /// Returns the category as a metric label.
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Progress => "progress",
            Self::Answer => "answer",
            Self::List => "list",
            Self::OtherList => "other_list",
            Self::Beside => "beside",
            Self::Run => "run",
        }
    }

    /// Returns how much of `limit` this category can hold. New work gets less than answers do, because it is
    /// pointless to let a call in when there is no room for its answer.
    fn quota(self, limit: u64) -> u64 {
        match self {
            Self::Request | Self::List => limit / 4,
            Self::Progress | Self::OtherList | Self::Beside => limit / 8,
            Self::Run => limit / 2,
            Self::Answer => limit / 4 * 3,
        }
    }
}

/// The budget has no room for the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this gateway holds as many bytes as it may: try again later, or send less at once")]
pub struct NoRoom;

/// Counts the bytes that one client or one server makes the process hold. Behind an ingress all clients can share one
/// account, so an account is limited only while more than half of a quota is in use.
#[derive(Debug, Default)]
pub struct Account {
    held: [AtomicU64; Category::ALL.len()],
}

impl Account {
    /// While more than half of a quota is in use, one account can hold at most the quota divided by this number.
    const PART: u64 = 4;
}

/// The bytes held and the refusals of one category.
#[derive(Debug, Default)]
struct Count {
    held: AtomicU64,
    refused: AtomicU64,
}

/// The byte budget of one process. Bytes are taken from it through [`Reservation`]s.
#[derive(Debug)]
pub struct ByteBudget {
    limit: u64,
    total: AtomicU64,
    counts: [Count; Category::ALL.len()],
}

impl Default for ByteBudget {
    fn default() -> Self {
        Self::new(LIMIT)
    }
}

impl ByteBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { limit, total: AtomicU64::new(0), counts: Default::default() }
    }

    /// Returns an empty reservation. [`Reservation::resize`] reserves bytes.
    pub fn reservation(self: &Arc<Self>, category: Category) -> Reservation {
        self.new_reservation(category, None)
    }

    /// Like [`Self::reservation`], with the bytes charged to `account`.
    pub fn reservation_for(self: &Arc<Self>, category: Category, account: &Arc<Account>) -> Reservation {
        self.new_reservation(category, Some(Arc::clone(account)))
    }

    fn new_reservation(self: &Arc<Self>, category: Category, account: Option<Arc<Account>>) -> Reservation {
        Reservation { budget: Arc::clone(self), category, account, counted: AtomicU64::new(0) }
    }

    /// Returns how many bytes of this category are held now.
    pub fn held(&self, category: Category) -> u64 {
        self.count(category).held.load(Ordering::Relaxed)
    }

    /// Returns how many refusals were counted in this category.
    pub fn refused(&self, category: Category) -> u64 {
        self.count(category).refused.load(Ordering::Relaxed)
    }

    /// Counts a refusal in this category, and returns the error for it.
    pub fn refuse(&self, category: Category) -> NoRoom {
        self.count(category).refused.fetch_add(1, Ordering::Relaxed);
        NoRoom
    }

    fn count(&self, category: Category) -> &Count {
        &self.counts[category as usize]
    }

    fn add(&self, category: Category, bytes: u64, account: Option<&Account>) -> Result<(), NoRoom> {
        let (held, quota) = (&self.count(category).held, category.quota(self.limit));
        let within = |counter: &AtomicU64, limit: u64| {
            let sum = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
            counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
        };
        if !within(held, quota) {
            return Err(self.refuse(category));
        }
        if !within(&self.total, self.limit) {
            held.fetch_sub(bytes, Ordering::Relaxed);
            return Err(self.refuse(category));
        }
        let own =
            account.map_or(0, |account| account.held[category as usize].fetch_add(bytes, Ordering::Relaxed) + bytes);
        if own > quota / Account::PART && held.load(Ordering::Relaxed) > quota / 2 {
            self.release(category, bytes, account);
            return Err(self.refuse(category));
        }
        Ok(())
    }

    fn release(&self, category: Category, bytes: u64, account: Option<&Account>) {
        if let Some(account) = account {
            account.held[category as usize].fetch_sub(bytes, Ordering::Relaxed);
        }
        self.count(category).held.fetch_sub(bytes, Ordering::Relaxed);
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A number of bytes reserved in a budget; dropping the reservation releases them. A reservation must not be resized by
/// two tasks at the same time.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<ByteBudget>,
    category: Category,
    account: Option<Arc<Account>>,
    /// Size of the reservation in bytes, less the first [`FREE`] bytes.
    counted: AtomicU64,
}

impl Reservation {
    /// Returns another reservation against the same budget and account, of no bytes yet.
    pub fn another(&self, category: Category) -> Self {
        self.budget.new_reservation(category, self.account.clone())
    }

    /// The account that the bytes are charged to; `None` if they are charged to none.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// Changes the total size of the reservation to `bytes`, which include the first [`FREE`] bytes.
    ///
    /// # Errors
    /// If there is no room. The reservation then keeps its size.
    pub fn resize(&self, bytes: u64) -> Result<(), NoRoom> {
        let wanted = bytes.saturating_sub(FREE);
        let counted = self.counted.load(Ordering::Relaxed);
        if wanted > counted {
            self.budget.add(self.category, wanted - counted, self.account.as_deref())?;
        } else {
            self.budget.release(self.category, counted - wanted, self.account.as_deref());
        }
        self.counted.store(wanted, Ordering::Relaxed);
        Ok(())
    }

    /// Counts a refusal for another reason than the budget, such as a message that exceeds its own size limit.
    pub fn refuse(&self) -> NoRoom {
        self.budget.refuse(self.category)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.category, *self.counted.get_mut(), self.account.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_always_finds_room_and_what_goes_gives_its_room_back() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let reservations = [(); 2].map(|()| budget.reservation(Category::Request));
        reservations[0].resize((256 << 10) + FREE).unwrap();
        assert_eq!(reservations[1].resize(FREE + 1), Err(NoRoom));
        assert_eq!((reservations[1].resize(FREE), budget.held(Category::Request)), (Ok(()), 256 << 10));
        reservations[0].resize(128 << 10).unwrap();
        assert_eq!(reservations[1].resize(128 << 10), Ok(()));
        assert_eq!((budget.refused(Category::Request), budget.refused(Category::Answer)), (1, 0));
        drop(reservations);
        assert_eq!((budget.held(Category::Request), budget.total.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn one_account_leaves_half_of_a_quota_to_others() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let (one, other) = (Arc::default(), Arc::default());
        let half = 128 << 10;
        let first = budget.reservation_for(Category::Request, &one);
        // A single account can take up to half of the quota. Behind an ingress, all clients can share one account.
        assert_eq!(first.resize(half + FREE), Ok(()));
        let second = budget.reservation_for(Category::Request, &one);
        assert_eq!((second.resize(FREE + 1), second.resize(FREE)), (Err(NoRoom), Ok(())));
        let third = budget.reservation_for(Category::Request, &other);
        assert_eq!((third.resize(half / 2 + FREE), third.resize(half / 2 + FREE + 1)), (Ok(()), Err(NoRoom)));
        assert_eq!((budget.held(Category::Request), budget.refused(Category::Request)), (half + half / 2, 2));
        // Less than half of the quota is in use again, so no account is limited.
        first.resize(half / 4).unwrap();
        assert_eq!(second.resize(FREE + 1), Ok(()));
        drop((first, second, third));
        assert_eq!((budget.held(Category::Request), one.held[0].load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn new_work_leaves_room_for_the_answers_of_what_runs() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let (request, answer, list) = (
            budget.reservation(Category::Request),
            budget.reservation(Category::Answer),
            budget.reservation(Category::List),
        );
        while request.resize(request.counted.load(Ordering::Relaxed) + FREE + 1024).is_ok() {}
        assert_eq!(answer.resize((768 << 10) + FREE), Ok(()));
        assert_eq!(list.resize(FREE + 1), Err(NoRoom), "the whole is full");
    }
}
