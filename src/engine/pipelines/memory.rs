//! The memory that a run holds, as a part of the budget of the process.

use std::sync::{Mutex, PoisonError};

use crate::domain::budget::{NoRoom, Reservation};

/// How many copies of what it holds a run has while a step runs: its own, the one that the step gets, and its JSON. Of the answer
/// of a model: the received one, its JSON, and the text in it.
const COPIES: u64 = 3;

/// Reserves the memory of one run. Bytes that were reserved for answers of models in a step are used for its results.
pub(super) struct RunMemory {
    reservation: Reservation,
    parts: Mutex<Parts>,
}

/// The bytes of one copy of each part.
#[derive(Clone, Copy, Default)]
pub(super) struct Parts {
    pub(super) state: u64,
    /// Sources and evidence.
    pub(super) found: u64,
    /// The answers of models to the current step.
    pub(super) answers: u64,
}

impl RunMemory {
    pub(super) fn new(reservation: Reservation) -> Self {
        Self { reservation, parts: Mutex::default() }
    }

    /// Changes the sizes of parts.
    ///
    /// # Errors
    /// If there is no room. The sizes then stay.
    pub(super) fn set(&self, change: impl FnOnce(&mut Parts)) -> Result<(), NoRoom> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = *parts;
        change(&mut changed);
        let Parts { state, found, answers } = changed;
        self.reservation.resize(COPIES * (state + found + answers))?;
        *parts = changed;
        Ok(())
    }

    /// Releases so many bytes of the answers of models.
    pub(super) fn release_answer(&self, bytes: u64) {
        // Less always has room.
        let _ = self.set(|parts| parts.answers = parts.answers.saturating_sub(bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::budget::{ByteBudget, Category};

    #[test]
    fn the_room_of_answers_becomes_that_of_the_state() {
        let budget = Arc::new(ByteBudget::new(16 << 20));
        let memory = RunMemory::new(budget.reservation(Category::Run));
        memory.set(|parts| parts.answers += 2 << 20).unwrap();
        assert_eq!(memory.set(|parts| parts.found += 1 << 20), Err(NoRoom), "half of the budget is for runs");
        let held = budget.held(Category::Run);
        memory.set(|parts| *parts = Parts { state: 2 << 20, answers: 0, ..*parts }).unwrap();
        assert_eq!(budget.held(Category::Run), held);
        drop(memory);
        assert_eq!(budget.held(Category::Run), 0);
    }
}
