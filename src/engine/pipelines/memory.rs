//! The memory that a run holds, as a part of the budget of the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::domain::budget::{NoRoom, Reservation};

/// The number of copies of the state while a step runs: that of the run, that of the step, and its JSON. An answer of a model has
/// as many: the bytes that were received, their JSON, and the text in it.
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

    /// Begins to reserve the memory of an answer of a model.
    pub(super) fn answer(&self) -> AnswerMemory<'_> {
        AnswerMemory { memory: self, bytes: AtomicU64::new(0) }
    }

    /// Releases so many bytes of the answers of models.
    pub(super) fn release_answer(&self, bytes: u64) {
        // Less always has room.
        let _ = self.set(|parts| parts.answers = parts.answers.saturating_sub(bytes));
    }
}

/// The memory of one answer of a model. It is released with this value, unless it is kept.
pub(super) struct AnswerMemory<'m> {
    memory: &'m RunMemory,
    bytes: AtomicU64,
}

impl AnswerMemory<'_> {
    /// Reserves so many bytes for the answer. A request that is sent again begins anew.
    ///
    /// # Errors
    /// If there is no room. The size then stays.
    pub(super) fn set(&self, bytes: u64) -> Result<(), NoRoom> {
        let before = self.bytes.load(Ordering::Relaxed);
        self.memory.set(|parts| parts.answers = parts.answers.saturating_sub(before) + bytes)?;
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps the memory reserved until the step ends or it is [released](RunMemory::release_answer). Returns the number of bytes.
    pub(super) fn keep(self) -> u64 {
        self.bytes.swap(0, Ordering::Relaxed)
    }
}

impl Drop for AnswerMemory<'_> {
    fn drop(&mut self) {
        self.memory.release_answer(self.bytes.load(Ordering::Relaxed));
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

    #[test]
    fn an_answer_that_is_not_kept_is_released() {
        let budget = Arc::new(ByteBudget::new(16 << 20));
        let memory = RunMemory::new(budget.reservation(Category::Run));
        let answer = memory.answer();
        answer.set(2 << 20).unwrap();
        answer.set(1 << 20).unwrap();
        assert_eq!(memory.parts.lock().unwrap().answers, 1 << 20, "the request was sent again");
        assert_eq!(answer.set(4 << 20), Err(NoRoom));
        drop(answer);
        assert_eq!(budget.held(Category::Run), 0);
        let answer = memory.answer();
        answer.set(1 << 20).unwrap();
        let kept = answer.keep();
        assert_eq!(memory.parts.lock().unwrap().answers, 1 << 20);
        memory.release_answer(kept);
        assert_eq!(budget.held(Category::Run), 0);
    }
}
