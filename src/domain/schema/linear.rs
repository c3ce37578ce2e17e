//! What it costs to try a pattern that is not tried by backtracking.
//!
//! The library has an automaton that makes its states as a text needs them, and reads a byte in a nanosecond or two. Where a
//! text needs too many states, the library goes on in another way, which tries all places of the pattern at each byte and can
//! take a thousand times as long. Whether a text does is found out here with an automaton like that.

use std::sync::{Mutex, PoisonError};

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;

use super::steps::spend;

/// The maximum size of a compiled pattern, in bytes, and of what matching it keeps.
pub(super) const MAX_COMPILED: usize = 64 << 10;
/// The steps of one byte of a text that a pattern is tried on.
pub(super) const OF_BYTE: u64 = 16;
/// The number of bytes of a compiled pattern that take one step at a byte of a text, where all its places are tried.
const BYTES: usize = 25;

/// A pattern, as an automaton.
pub(super) struct Linear {
    /// `None` if it would be too large.
    automaton: Option<DFA>,
    /// The states that texts needed before.
    cache: Mutex<Option<Cache>>,
}

impl Linear {
    pub(super) fn of(pattern: &str) -> Self {
        // As the library has it (`regex_automata::meta`): else this would find out something else.
        let config = DFA::config()
            .starts_for_each_pattern(true)
            .unicode_word_boundary(true)
            .cache_capacity(MAX_COMPILED)
            .minimum_cache_clear_count(Some(3))
            .minimum_bytes_per_state(Some(10));
        let size = thompson::Config::new().nfa_size_limit(Some(MAX_COMPILED));
        let automaton = jsonschema_regex::to_rust_regex(pattern)
            .ok()
            .and_then(|pattern| DFA::builder().configure(config).thompson(size).build(&pattern).ok());
        Self { automaton, cache: Mutex::new(None) }
    }

    /// The steps of one byte of a text for which the states do not suffice.
    pub(super) fn most_of_byte(&self) -> u64 {
        most_of_byte(self.automaton.as_ref().map_or(MAX_COMPILED, |automaton| automaton.get_nfa().memory_usage()))
    }

    /// Counts what it costs to try the pattern on a text, beside [`OF_BYTE`].
    pub(super) fn count(&self, text: &str) {
        if !self.has_enough_states_for(text) {
            spend((text.len() as u64).saturating_mul(self.most_of_byte()));
        }
    }

    fn has_enough_states_for(&self, text: &str) -> bool {
        let Some(automaton) = &self.automaton else { return false };
        let kept = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cache = kept().take().unwrap_or_else(|| automaton.create_cache());
        let found = automaton.try_search_fwd(&mut cache, &Input::new(text).earliest(true));
        *kept() = Some(cache);
        found.is_ok()
    }
}

/// Returns the steps of one byte of a text where all places of a compiled pattern of so many bytes are tried.
pub(super) fn most_of_byte(size: usize) -> u64 {
    (size / BYTES) as u64 + 1
}
