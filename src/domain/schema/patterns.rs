//! Patterns that are matched in linear time, at some nanoseconds a byte.
//!
//! The library never goes back in a text. But if a pattern needs too many states, the library tries all its parts at each byte.
//! So a pattern is used only if all its states fit into a bound.

use jsonschema::{PatternOptions, Regex};
use regex_automata::dfa::{StartKind, dense};
use regex_automata::nfa::thompson;

/// The longest pattern, in bytes.
pub(super) const MAX_LENGTH: usize = 1_000;
/// The maximum size of a compiled pattern, in bytes.
const MAX_COMPILED: usize = 64 << 10;
/// The maximum size of all states of a pattern, in bytes: to find them takes up to 4 ms. The library has room for more.
const MAX_STATES: usize = 128 << 10;

/// The options with which the library compiles patterns.
pub(super) fn options() -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(MAX_COMPILED)
}

/// Whether a pattern of a schema is valid, and is matched in linear time.
pub(super) fn is_linear(pattern: &str) -> bool {
    let pattern = (pattern.len() <= MAX_LENGTH).then(|| jsonschema_regex::to_rust_regex(pattern));
    matches!(pattern, Some(Ok(pattern)) if has_few_states(&pattern))
}

/// Whether a pattern of the crate `regex` is valid, and its states are so few that it is matched in linear time.
pub fn has_few_states(pattern: &str) -> bool {
    let states = dense::Config::new().dfa_size_limit(Some(MAX_STATES)).determinize_size_limit(Some(MAX_STATES));
    // The library reads backwards if a pattern says how a text ends.
    [(false, StartKind::Both), (true, StartKind::Anchored)].into_iter().all(|(reverse, start)| {
        let compiled = thompson::Config::new().nfa_size_limit(Some(MAX_COMPILED)).reverse(reverse);
        dense::Builder::new().configure(states.clone().start_kind(start)).thompson(compiled).build(pattern).is_ok()
    })
}
